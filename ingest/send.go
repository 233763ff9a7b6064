package ingest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// keptAnswer is how much of an endpoint's answer is read.
const keptAnswer = 4 << 10

// The texts that people read where a run could not even be sent.
const (
	noKeyText   = "The run endpoint has no signing secret. Rotate its secret to create one."
	noBodyText  = "The run could not be put into words; the gateway's log has the details."
	stoppedText = "The gateway was stopped while it sent this."
)

// send posts a run to its endpoint and says what came of it, and whether the
// endpoint is there as far as anybody knows.
func (d *Dispatcher) send(ctx context.Context, one event.Dispatch) (s event.Sent, there bool) {
	token := d.Token(one.Work.Run.Session)
	body, err := d.notice(one, token)
	if err != nil {
		d.Log.ErrorContext(ctx, "a run could not be written for its endpoint", "run", one.Parcel.Run, "error", err)
		return d.retry(one.Parcel, 0, 0, noBodyText), true
	}
	at, secrets := d.Now(), d.secrets(ctx, one.Endpoint)
	signatures := signatures(one.Parcel.ID, at, body, secrets)
	if signatures == "" {
		return d.retry(one.Parcel, 0, 0, noKeyText), true
	}
	within, stop := context.WithTimeout(ctx, d.Timeout)
	defer stop()
	resp, err := d.post(within, one, body, at, signatures)
	hidden := append(secrets, token)
	switch {
	case err == nil:
		defer resp.Body.Close()
		return d.verdict(one.Parcel, resp, hidden), true
	case ctx.Err() != nil:
		return d.putOff(one.Parcel, stoppedText), true
	}
	return d.retry(one.Parcel, 0, 0, d.unreachable(err, hidden)), false
}

// secrets opens those that sign for an endpoint.
func (d *Dispatcher) secrets(ctx context.Context, e event.Endpoint) (open []string) {
	for _, s := range e.Secrets {
		if s.ExpiresAt != nil && !s.ExpiresAt.After(d.Now()) {
			continue
		}
		plain, err := d.Vault.Open(action.Ref{Organization: e.Organization, Table: "signing_secrets", Row: s.ID, Column: "sealed"}, s.Sealed)
		if err != nil {
			d.Log.ErrorContext(ctx, "a secret of an endpoint for runs could not be opened", "organization", e.Organization, "secret", s.ID, "error", err)
			continue
		}
		open = append(open, string(plain))
	}
	return open
}

// signatures returns what each of the secrets signs; empty: none has a key.
func signatures(id string, at time.Time, body []byte, secrets []string) string {
	var all []string
	for _, secret := range secrets {
		if s := event.SignStandard(id, at, body, []byte(secret)); s != "" {
			all = append(all, s)
		}
	}
	return strings.Join(all, " ")
}

func (d *Dispatcher) post(ctx context.Context, one event.Dispatch, body []byte, at time.Time, signatures string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, one.Endpoint.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", d.UserAgent)
	req.Header.Set("Webhook-Id", one.Parcel.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("Webhook-Signature", signatures)
	return d.Do(req)
}

// verdict reads an answer.
func (d *Dispatcher) verdict(p event.Parcel, resp *http.Response, hidden []string) event.Sent {
	told := wanted(resp.Header, d.Now())
	answer := "The endpoint answered " + strconv.Itoa(resp.StatusCode)
	switch status := resp.StatusCode; {
	case status >= 200 && status < 300:
		return event.Sent{Parcel: p, Status: event.ParcelDelivered, HTTP: status}
	case status == http.StatusGone:
		return event.Sent{Parcel: p, Status: event.ParcelDead, HTTP: status, Error: answer + ": it is gone."}
	case status >= 300 && status < 400:
		return d.retry(p, told, status, answer+", and redirects are not followed: set the URL that it leads to.")
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, keptAnswer)) // what came is enough
	if said := line(strings.TrimSpace(d.JSON.RedactText(string(text), hidden)), keptLine); said != "" {
		answer += " and said: " + said
	}
	return d.retry(p, told, resp.StatusCode, answer)
}

// unreachable tells people why there was no answer, without the URL: its query
// may be a secret.
func (d *Dispatcher) unreachable(err error, hidden []string) string {
	var told *action.Error
	if errors.As(err, &told) {
		return line(d.JSON.RedactText(told.Message, hidden), keptLine)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "The endpoint did not answer within " + d.Timeout.String() + "."
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return line("The endpoint could not be reached: "+d.JSON.RedactText(err.Error(), hidden), keptLine)
}
