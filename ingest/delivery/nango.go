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

// The kinds of what Nango delivers. It has others, which mean nothing here.
const (
	NangoAuth    = "auth"    // a connection was made, replaced or could not be renewed
	NangoSync    = "sync"    // it copied something for itself
	NangoForward = "forward" // a service's own delivery, passed on
)

// Nango is what a delivery of Nango says. Its own HMAC is all that vouches for
// it. What it forwards it wrote anew, so that the service's signature is void,
// and of most services it never checked one.
type Nango struct {
	Kind        string // [NangoAuth] and so on
	Connection  string // empty when bare
	ProviderKey string // the integration's name at Nango; empty when bare
	// Provider is the service, as Nango calls it; of a bare delivery, as its
	// headers tell, and empty when they do not.
	Provider  string
	Operation string          // of an auth: creation, override, refresh, …
	Success   bool            // of an auth or sync
	Error     string          // of one that failed; foreign, one line
	Delivery  *event.Delivery // what was forwarded; nil for other kinds
	// Bare tells that it came without an envelope, as when Nango knows no
	// connection that it is for. Whoever sends something to Nango determines all
	// of it.
	Bare bool
}

// Unwrap reads a verified delivery of Nango. What has no envelope is a bare
// forward; it is an error only when it is no JSON at all, or when an envelope
// holds nothing. Nango signs both alike, so that a stranger whose words it passes
// on bare can make them look like an envelope, if he knows the connection's id.
func Unwrap(d *event.Delivery) (Nango, error) {
	if err := jsonlex.Document(d.Body); err != nil {
		return Nango{}, fmt.Errorf("nango: the delivery's body is no JSON: %w", err)
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

// nangoEnvelope has its members as they were written, under their exact names.
type nangoEnvelope map[string]json.RawMessage

// valid reports whether it is one: says who sends it, of what kind it is and
// which connection it is about.
func (m nangoEnvelope) valid() bool {
	for _, name := range []string{"from", "type", "connectionId", "providerConfigKey"} {
		if m.text(name) == "" {
			return false
		}
	}
	return m.text("type") == NangoForward || m.text("from") == match.NangoProvider
}

// text returns a member that is a text, or nothing.
func (m nangoEnvelope) text(name string) (text string) {
	if json.Unmarshal(m[name], &text) != nil || len(text) > match.MaxID {
		return ""
	}
	return text
}

// errorText returns what went wrong, in Nango's words.
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

// providerByHeader tells by headers that only one service has whose delivery it is.
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

// VerifyNango takes the HMAC and nothing else: the older X-Nango-Signature can
// be made longer by anybody who has seen one. No time is signed.
func VerifyNango(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	signature, ok := event.Header(d.Header, "X-Nango-Hmac-Sha256")
	if !ok {
		return event.ErrSignature
	}
	return event.VerifyHex(signature, "", secrets, d.Body)
}
