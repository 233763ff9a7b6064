package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/ingest/match"
)

// maxAnswer is how much of a response is read.
const maxAnswer = 4 << 10

// The texts for runs that could not be sent.
const (
	noSecretText       = "The run endpoint has no signing secret. Rotate its secret to create one."
	encodingFailedText = "The payload of the run could not be built; the gateway log has the details."
	stoppedText        = "The gateway stopped while it sent this."
)

// send posts a run to its endpoint and returns the outcome, and whether the endpoint
// is reachable as far as known.
func (d *Dispatcher) send(ctx context.Context, one event.Dispatch) (s event.DispatchResult, there bool) {
	token := d.Token(one.Work.Run.Session)
	body, err := d.payload(one, token)
	if err != nil {
		d.Log.ErrorContext(ctx, "the payload of a run could not be built", "run", one.Delivery.Run, "error", err)
		return d.retry(one.Delivery, 0, 0, encodingFailedText), true
	}
	at, secrets := d.Now(), d.secrets(ctx, one.Endpoint)
	signatures := signatures(one.Delivery.ID, at, body, secrets)
	if signatures == "" {
		return d.retry(one.Delivery, 0, 0, noSecretText), true
	}
	within, stop := context.WithTimeout(ctx, d.Timeout)
	defer stop()
	resp, err := d.post(within, one, body, at, signatures)
	hidden := append(secrets, token)
	switch {
	case err == nil:
		defer resp.Body.Close()
		return d.readResponse(one.Delivery, resp, hidden), true
	case ctx.Err() != nil:
		return d.postpone(one.Delivery, stoppedText), true
	}
	return d.retry(one.Delivery, 0, 0, d.connectionError(err, hidden)), false
}

// secrets opens the secrets that sign for an endpoint.
func (d *Dispatcher) secrets(ctx context.Context, e event.Endpoint) (open []string) {
	for _, s := range e.Secrets {
		if s.ExpiresAt != nil && !s.ExpiresAt.After(d.Now()) {
			continue
		}
		plain, err := d.Vault.Open(action.Ref{Organization: e.Organization, Table: "signing_secrets", Row: s.ID, Column: "sealed"}, s.Sealed)
		if err != nil {
			d.Log.ErrorContext(ctx, "a secret of a run endpoint could not be decrypted", "organization", e.Organization, "secret", s.ID, "error", err)
			continue
		}
		open = append(open, string(plain))
	}
	return open
}

// signatures returns a signature by each secret; empty if none has a key.
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
	req.Header.Set("Webhook-Id", one.Delivery.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("Webhook-Signature", signatures)
	return d.Do(req)
}

// readResponse maps the response to an outcome.
func (d *Dispatcher) readResponse(p event.RunDelivery, resp *http.Response, hidden []string) event.DispatchResult {
	told := parseRetryAfter(resp.Header, d.Now())
	answer := "The endpoint answered " + strconv.Itoa(resp.StatusCode)
	switch status := resp.StatusCode; {
	case status >= 200 && status < 300:
		return event.DispatchResult{Delivery: p, Status: event.DeliveryDelivered, HTTP: status}
	case status == http.StatusGone:
		return event.DispatchResult{Delivery: p, Status: event.DeliveryDead, HTTP: status, Error: answer + ": it is gone."}
	case status >= 300 && status < 400:
		return d.retry(p, told, status, answer+", and redirects are not followed: set the URL that it leads to.")
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // a partial text is enough
	if said := match.Line(strings.TrimSpace(d.JSON.RedactText(string(text), hidden)), match.MaxLine); said != "" {
		answer += " and said: " + said
	}
	return d.retry(p, told, resp.StatusCode, answer)
}

// connectionError describes why there was no response, without the URL, whose query
// may contain a secret.
func (d *Dispatcher) connectionError(err error, hidden []string) string {
	var told *action.Error
	if errors.As(err, &told) {
		return match.Line(d.JSON.RedactText(told.Message, hidden), match.MaxLine)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "The endpoint did not answer within " + d.Timeout.String() + "."
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return match.Line("The endpoint could not be reached: "+d.JSON.RedactText(err.Error(), hidden), match.MaxLine)
}

const (
	// maxDeliveryTime is how long delivery is attempted.
	maxDeliveryTime = 24 * time.Hour
	// postponeFor is the delay of deliveries whose queue is full.
	postponeFor = 5 * time.Second
	// maxRetryAfter bounds the delay that an endpoint may ask for.
	maxRetryAfter = 4 * time.Hour
)

// retry returns the outcome of a failed attempt: another attempt later, a last one
// when the delivery time is over, and then none. told is the endpoint's Retry-After.
func (d *Dispatcher) retry(p event.RunDelivery, told time.Duration, status int, why string) event.DispatchResult {
	now := d.Now()
	end := firstAttempt(p, now).Add(maxDeliveryTime)
	if !now.Before(end) {
		return event.DispatchResult{Delivery: p, Status: event.DeliveryDead, HTTP: status, Error: why}
	}
	next := now.Add(max(retryPause(now.Sub(firstAttempt(p, now))), min(told, maxRetryAfter)))
	if next.After(end) {
		next = end
	}
	return event.DispatchResult{Delivery: p, Status: event.DeliveryPending, NextAt: next, HTTP: status, Error: why}
}

// postpone releases a delivery for a short time, without counting an attempt: it is
// not the endpoint's fault.
func (d *Dispatcher) postpone(p event.RunDelivery, why string) event.DispatchResult {
	return event.DispatchResult{Delivery: p, Status: event.DeliveryPending, NextAt: d.Now().Add(jitter(postponeFor)), Error: why}
}

// retryUnanswered releases a delivery whose endpoint did not respond to another one.
// It counts as an attempt, so that the delivery is dead when its time is over.
func (d *Dispatcher) retryUnanswered(p event.RunDelivery) event.DispatchResult {
	return d.retry(d.markAttempted(p), 0, 0, "The endpoint did not answer another delivery, so this one was not sent.")
}

// markAttempted records the time of the first attempt.
func (d *Dispatcher) markAttempted(p event.RunDelivery) event.RunDelivery {
	if p.FirstAt == nil {
		now := d.Now()
		p.FirstAt = &now
	}
	return p
}

func firstAttempt(p event.RunDelivery, now time.Time) time.Time {
	if p.FirstAt == nil {
		return now
	}
	return *p.FirstAt
}

// retryPause returns the pause before the next attempt, by the time since the first
// one: the number of claims is not the number of requests.
func retryPause(age time.Duration) (d time.Duration) {
	var sum time.Duration
	for _, d = range []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour,
	} {
		if sum += d; age < sum {
			break
		}
	}
	return jitter(d)
}

func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// parseRetryAfter parses Retry-After, in seconds or as a date; zero if it is absent.
func parseRetryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return date.Sub(now)
	}
	return 0
}

// webhookPayload is the body of a request to an endpoint.
type webhookPayload struct {
	Type      string     `json:"type"`
	Timestamp time.Time  `json:"timestamp"`
	Data      runPayload `json:"data"`
}

// runPayload is all that a worker needs; claiming a run returns the same.
type runPayload struct {
	Run        event.Run         `json:"run"`
	Automation automationPayload `json:"automation"`
	Event      eventPayload      `json:"event"`
	Session    sessionPayload    `json:"session"`
	ClaimID    string            `json:"claim_id"`
	APIURL     string            `json:"api_url"`
}

type automationPayload struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Instructions string `json:"instructions"`
	event.RunSettings
}

type eventPayload struct {
	event.Record
	Status  string          `json:"status"`
	Context json.RawMessage `json:"context,omitempty"` // absent after its retention
}

type sessionPayload struct {
	ID        string    `json:"id"`
	Token     string    `json:"token"`
	MCPURL    string    `json:"mcp_url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// payload returns the body. It is the same for all attempts, except for changes of
// the run.
func (d *Dispatcher) payload(one event.Dispatch, token string) ([]byte, error) {
	w := &one.Work
	o := runPayload{
		Run: w.Run, Automation: automationPayload{w.Automation.ID, w.Automation.Name, w.Automation.Instructions, w.Automation.RunSettings},
		Event:   eventPayload{Record: w.Record, Status: w.Record.Status()},
		Session: sessionPayload{w.Run.Session, token, d.MCPURL, w.ExpiresAt},
		ClaimID: w.Run.Claim, APIURL: d.APIURL,
	}
	if w.Sealed != nil {
		whole, err := d.Vault.Open(match.ContextRef(w.Record.Organization, w.Record.ID), w.Sealed)
		if err != nil {
			return nil, fmt.Errorf("opening the context of event %s: %w", w.Record.ID, err)
		}
		o.Event.Context = whole
	}
	return json.Marshal(webhookPayload{Type: "run.created", Timestamp: w.Run.CreatedAt, Data: o})
}
