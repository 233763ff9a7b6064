package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// secretsOwner is the owner of the secrets that sign webhooks.
const secretsOwner = "notify"

// noSecretText is shown when a webhook has no secret to sign with.
const noSecretText = "The webhook has no signing secret. Rotate its secret to create one."

// envelope is a webhook body in the format of Standard Webhooks.
type envelope struct {
	Type         string    `json:"type"`
	Timestamp    time.Time `json:"timestamp"`
	Organization string    `json:"organization_id"`
	Data         any       `json:"data"`
}

// Event types of webhooks: for the pending item, then for its settlement.
var (
	callEventTypes  = [2]string{"invocation.held", "invocation.settled"}
	envEventTypes   = [2]string{"env_request.held", "env_request.settled"}
	grantEventTypes = [2]string{"grant_request.held", "grant_request.settled"}
	runEventTypes   = [2]string{"run.needs_attention", "run.settled"}
)

const typeTest = "notify.test"

// toWebhook posts a signed webhook. All attempts carry the same id.
func (s *Sender) toWebhook(ctx context.Context, c *action.NotifyChannel, id, kind string, data any) (response, error) {
	now := s.Now()
	body, err := json.Marshal(envelope{kind, now.UTC().Truncate(time.Second), c.Organization, data})
	if err != nil {
		return response{}, err
	}
	secrets, err := s.Rows.SigningSecrets(ctx, c.Organization, secretsOwner)
	if err != nil {
		return response{}, err
	}
	signed := s.sign(ctx, c.Organization, secrets, id, now, body)
	if signed == "" {
		return response{detail: noSecretText}, nil
	}
	return s.request(ctx, c.URL, body, http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "Webhook-Signature": {signed},
	})
}

// sign returns the signatures of all valid secrets, or "" if there is none.
func (s *Sender) sign(ctx context.Context, organization string, secrets []event.Secret, id string, now time.Time, body []byte) string {
	var all []string
	for _, secret := range secrets {
		if secret.ExpiresAt != nil && !secret.ExpiresAt.After(now) {
			continue
		}
		plain, err := s.Vault.Open(action.Ref{Organization: organization, Table: "signing_secrets", Row: secret.ID, Column: "sealed"}, secret.Sealed)
		if err != nil {
			s.Log.ErrorContext(ctx, "could not decrypt a secret of the notification webhook", "organization", organization, "secret", secret.ID, "error", err)
			continue
		}
		if signature := event.SignStandard(id, now, body, plain); signature != "" {
			all = append(all, signature)
		}
	}
	return strings.Join(all, " ")
}

// response is the result of one request to an endpoint.
type response struct {
	ok              bool
	messageRejected bool          // the endpoint rejected this message; it may accept others
	status          int           // HTTP status; zero without a response
	retryAfter      time.Duration // that the endpoint requested; zero if it did not
	detail          string        // for people
	ref             string        // of the message in Slack
}

// maxResponse bounds how much of a response body is read, in bytes.
const maxResponse = 4 << 10

// request posts JSON. The URL may be a secret that lets anyone post there, so
// no text for people contains it.
func (s *Sender) request(ctx context.Context, target string, body []byte, header http.Header) (response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return response{}, err
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.UserAgent)
	hidden := []string{target, req.URL.RequestURI()}
	resp, err := s.Do(req)
	if err != nil {
		return response{detail: s.failureText(err, hidden)}, nil
	}
	defer resp.Body.Close()
	a := response{status: resp.StatusCode, detail: fmt.Sprintf("The endpoint answered %d", resp.StatusCode), retryAfter: retryAfter(resp.Header, s.Now())}
	switch {
	case a.status >= 200 && a.status < 300:
		a.ok = true
		a.detail += "."
		return a, nil
	case a.status >= 300 && a.status < 400:
		a.detail += ", a redirect, which is not followed. Set the target URL instead."
		return a, nil
	}
	switch a.status { // these are about the endpoint, the credential or the rate, not about this message
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusGone, http.StatusTooManyRequests:
	default:
		a.messageRejected = a.status >= 400 && a.status < 500
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse)) // a partial body is enough
	if said := plain(s.JSON.RedactText(string(text), hidden), maxText); said != "" {
		a.detail += ": " + said
	}
	return a, nil
}

// failureText explains to people why there was no response.
func (s *Sender) failureText(err error, hidden []string) string {
	var actionErr *action.Error
	var urlErr *url.Error
	switch {
	case errors.As(err, &actionErr):
		return plain(s.JSON.RedactText(actionErr.Message, hidden), maxText)
	case errors.Is(err, context.DeadlineExceeded):
		return "The endpoint did not answer within " + s.Timeout.String() + "."
	case errors.As(err, &urlErr):
		err = urlErr.Err
	}
	return plain("The endpoint could not be reached: "+s.JSON.RedactText(err.Error(), hidden), maxText)
}

// maxRetryAfter bounds the pause that an endpoint may request.
const maxRetryAfter = time.Hour

// retryAfter returns the pause that a response requests.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
