package credential

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// storedIntegration is an integration's row and its unsealed credential.
type storedIntegration struct {
	in      action.Integration
	secrets *secrets
}

func (h *storedIntegration) key() rowKey { return rowKey{h.in.Organization, h.in.ID} }

// secrets is the sealed part of an integration.
type secrets struct {
	// Host is where the credential is sent, as in [guard.Host]: a changed base
	// URL in the row must not redirect it.
	Host  string `json:"host,omitempty"`
	Value string `json:"value,omitempty"` // an API key or bot token

	tokenSet        // of our own OAuth
	Token    string `json:"token_endpoint,omitempty"`
	Client   string `json:"client_id,omitempty"` // client ID the tokens were issued to

	Connection string `json:"connection,omitempty"` // at the broker
	Key        string `json:"key,omitempty"`        // the broker's name of the provider

	Installation string `json:"installation,omitempty"` // of an app
}

func integrationRef(organization, id string) action.Ref {
	return action.Ref{Organization: organization, Table: "integrations", Row: id, Column: "sealed"}
}

// readIntegration reads an integration's row; ErrNotFound.
func (t *Tokens) readIntegration(ctx context.Context, key rowKey) (h storedIntegration, err error) {
	in, err := t.Store.IntegrationCredential(ctx, key.organization, key.id)
	if err != nil {
		return h, fmt.Errorf("reading the credential of integration %s: %w", key.id, err)
	}
	h = storedIntegration{in: in, secrets: &secrets{}}
	if len(in.Sealed) == 0 {
		return h, nil
	}
	if err := unseal(t.Vault, integrationRef(key.organization, key.id), in.Sealed, h.secrets); err != nil {
		return h, fmt.Errorf("opening the credential of integration %s: %w", key.id, err)
	}
	return h, nil
}

// base returns the URL of the integration's API; nil: its module makes no
// requests.
func (t *Tokens) base(in *action.Integration) (*url.URL, error) {
	raw := in.BaseURL
	if m := t.modules[in.Provider]; raw == "" && m != nil {
		raw = m.BaseURL
	}
	if raw == "" {
		return nil, nil //nolint:nilnil // there is none, which is no error
	}
	return guard.CheckURL(raw)
}

// markUnusable records why the credential cannot be used and returns that as an
// error. If there is a newer credential it records nothing: that one is to be
// tried.
func (t *Tokens) markUnusable(ctx context.Context, h *storedIntegration, status action.IntegrationStatus, reason string) error {
	if !t.setStatus(ctx, h.in, status, reason) {
		return changedError()
	}
	dead := h.in
	dead.Status, dead.Reason = status, reason
	return t.reconnectError(&dead)
}

// errChanged reports that the credential was replaced meanwhile.
var errChanged = errors.New("there is another credential")

func changedError() error {
	e := unavailable(sources.FaultCredential, nil, "The integration has just changed. Retry.")
	e.Err = errChanged
	return e
}

// gatewayActor is the actor in records of status changes that no person made.
const gatewayActor = "gateway"

// setStatus writes a status that the gateway determined. It reports whether the
// status applies to the current credential.
func (t *Tokens) setStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) bool {
	current, err := t.putStatus(ctx, in, status, reason)
	if err != nil {
		t.Log.Error("writing an integration's status", "integration", in.ID, "status", status, "error", err)
	}
	return current
}

func (t *Tokens) putStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) (current bool, err error) {
	ctx = context.WithoutCancel(ctx) // true even if the caller left
	changed, err := t.Store.SetIntegrationStatus(ctx, in.Organization, in.ID, in.Version, status, reason, gatewayActor)
	if errors.Is(err, action.ErrConflict) {
		t.evictAll(rowKey{in.Organization, in.ID})
		return false, nil
	}
	if err != nil {
		return true, err
	}
	t.evictAll(rowKey{in.Organization, in.ID})
	if changed {
		t.Log.Warn("an integration changed its status", "integration", in.ID, "provider", in.Provider, "status", status, "reason", reason)
		t.Changed(in.Organization)
	}
	return true, nil
}

// ApplyStatus records the status that a service or broker reported for an
// integration, even if its credential was renewed since in was read. It does
// nothing if the integration was deleted or already has that status.
// ErrConflict: it has another status or account by now, and the report must be
// evaluated again.
func (t *Tokens) ApplyStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) error {
	for range 3 {
		now, err := t.Store.IntegrationCredential(ctx, in.Organization, in.ID)
		switch {
		case errors.Is(err, action.ErrNotFound) || err == nil && now.Status == status:
			return nil
		case err != nil:
			return fmt.Errorf("reading integration %s: %w", in.ID, err)
		case now.Account != in.Account || now.Status != in.Status:
			return movedError(in.ID)
		}
		if written, err := t.putStatus(ctx, now, status, reason); written {
			return err
		}
	}
	return movedError(in.ID)
}

func movedError(id string) error {
	return action.Errorf(action.ErrConflict, "integration_moved", "Integration %s has just changed. Retry.", id)
}

// Recheck follows a hint that the stored status is outdated: it verifies the
// credential and records the result, as [Tokens.Check] does. An error says why
// that was not possible.
func (t *Tokens) Recheck(ctx context.Context, in action.Integration) error {
	_, err := t.Check(ctx, in)
	if errors.Is(err, action.ErrNotFound) {
		return nil // it was disconnected
	}
	return err
}
