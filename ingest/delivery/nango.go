package delivery

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sallyport/ingest/event"
	"sallyport/ingest/match"
	"sallyport/internal/jsonlex"
)

// The kinds of Nango's deliveries. Others are ignored.
const (
	NangoAuth    = "auth"    // a connection was created or replaced, or could not be refreshed
	NangoSync    = "sync"    // a sync finished
	NangoForward = "forward" // a forwarded delivery of a service
)

// Nango is the content of a delivery through Nango. Only Nango's HMAC authenticates
// it: Nango re-encodes what it forwards, which invalidates the service's signature,
// and does not verify the signature of most services.
type Nango struct {
	Kind        string // [NangoAuth] and so on
	Connection  string // empty when bare
	ProviderKey string // the integration's name at Nango; empty when bare
	// Provider is Nango's name of the service; of a bare delivery it is derived from the
	// headers and may be empty.
	Provider  string
	Operation string          // of an auth: creation, override, refresh, …
	Success   bool            // of an auth or sync
	Error     string          // untrusted, one line
	Delivery  *event.Delivery // of a forward; nil for other kinds
	// Bare means that there is no envelope, for example because Nango knows no connection
	// for the delivery. All content is then chosen by the sender.
	Bare bool
}

// Unwrap parses a verified delivery of Nango. A body without an envelope is a bare forward;
// it is an error only if it is not JSON, or if an envelope has no payload. Nango signs both
// alike, so the sender of a bare delivery that knows a connection's id can imitate an
// envelope.
func Unwrap(d *event.Delivery) (Nango, error) {
	if err := jsonlex.Document(d.Body); err != nil {
		return Nango{}, fmt.Errorf("nango: the delivery's body is not valid JSON: %w", err)
	}
	var m nangoEnvelope
	if json.Unmarshal(d.Body, &m) != nil || !m.valid() {
		return Nango{
			Kind: NangoForward, Provider: providerByHeader(d.Header), Bare: true,
			Delivery: &event.Delivery{Header: d.Header, Body: d.Body},
		}, nil
	}
	n := Nango{
		Kind: m.text("type"), Connection: m.text("connectionId"), ProviderKey: m.text("providerConfigKey"),
		Provider: m.text("provider"), Operation: m.text("operation"), Success: string(m["success"]) == "true", Error: m.errorText(),
	}
	if n.Kind != NangoForward {
		return n, nil
	}
	payload := m["payload"]
	if len(payload) == 0 || string(payload) == "null" {
		return Nango{}, errors.New("nango: a forward without a payload")
	}
	n.Provider, n.Delivery = m.text("from"), &event.Delivery{Header: d.Header, Body: payload}
	return n, nil
}

// nangoEnvelope has raw members by their exact names.
type nangoEnvelope map[string]json.RawMessage

// valid reports whether the required members are present.
func (m nangoEnvelope) valid() bool {
	for _, name := range []string{"from", "type", "connectionId", "providerConfigKey"} {
		if m.text(name) == "" {
			return false
		}
	}
	return m.text("type") == NangoForward || m.text("from") == match.NangoProvider
}

// text returns a string member, or an empty string.
func (m nangoEnvelope) text(name string) (text string) {
	if json.Unmarshal(m[name], &text) != nil || len(text) > match.MaxID {
		return ""
	}
	return text
}

// errorText returns the error that Nango reports.
func (m nangoEnvelope) errorText() string {
	var e struct {
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	if json.Unmarshal(m["error"], &e) != nil || e.Type+e.Description == "" {
		return ""
	}
	return match.Line(e.Type+": "+e.Description, match.MaxLine)
}

// providerByHeader derives the service of a delivery from headers that only one
// service uses.
func providerByHeader(h http.Header) string {
	for _, of := range []struct{ header, provider string }{
		{"X-Github-Event", "github"},
		{"Linear-Event", "linear"},
		{"Linear-Delivery", "linear"},
		{"Sentry-Hook-Resource", "sentry"},
		{"X-Slack-Signature", "slack"},
		{"X-Pagerduty-Signature", "pagerduty"},
	} {
		if h.Get(of.header) != "" {
			return of.provider
		}
	}
	return ""
}

// VerifyNango accepts the HMAC header only: the older X-Nango-Signature is open to
// length extension. No time is signed.
func VerifyNango(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	signature, ok := event.Header(d.Header, "X-Nango-Hmac-Sha256")
	if !ok {
		return event.ErrSignature
	}
	return event.VerifyHex(signature, "", secrets, d.Body)
}
