package notify

import (
	"context"
	"encoding/json"
	"net/http"
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
	callEventTypes = [2]string{"invocation.held", "invocation.settled"}
	envEventTypes  = [2]string{"env_request.held", "env_request.settled"}
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
			s.Log.ErrorContext(ctx, "a secret of the webhook for held calls could not be opened", "organization", organization, "secret", secret.ID, "error", err)
			continue
		}
		if signature := event.SignStandard(id, now, body, plain); signature != "" {
			all = append(all, signature)
		}
	}
	return strings.Join(all, " ")
}
