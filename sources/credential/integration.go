package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/redact"
	"sallyport/sources"
)

// storedIntegration is an integration's row and its unsealed credential.
type storedIntegration struct {
	in      action.Integration
	secrets *secrets
}

func (h *storedIntegration) key() rowKey { return rowKey{h.in.Organization, h.in.ID} }

// same reports whether the credential still has the kind and the host of before.
func (h *storedIntegration) same(before *storedIntegration) bool {
	return h.in.Kind == before.in.Kind && h.in.Broker == before.in.Broker && h.secrets.Host == before.secrets.Host
}

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
		t.Log.Error("could not write the status of an integration", "integration", in.ID, "status", status, "error", err)
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
		t.Log.Warn("the status of an integration changed", "integration", in.ID, "provider", in.Provider, "status", status, "reason", reason)
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

// Check verifies the credential at the service, and at the broker if there is
// one, records the result and returns the updated integration. It takes at most
// one Timeout. An error says why the check was not possible.
func (t *Tokens) Check(ctx context.Context, in action.Integration) (action.Integration, error) {
	key := rowKey{in.Organization, in.ID}
	m := t.modules[in.Provider]
	asking, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	err := t.check(asking, m, key, true)
	h, readErr := t.reload(ctx, key)
	if readErr != nil {
		return in, readErr
	}
	h.in.Sealed = nil
	var shown *action.Error
	if h.in.Status != action.IntegrationActive && errors.As(err, &shown) && shown.Code == sources.FaultReconnect {
		err = nil // the row has the reason
	}
	return h.in, err
}

func (t *Tokens) check(ctx context.Context, m *sources.Module, key rowKey, again bool) error {
	h, err := t.reload(ctx, key)
	if err != nil || h.in.Kind == action.KindNone || m == nil || m.Account == nil {
		return err
	}
	if err := t.checkKeeper(ctx, &h); err != nil {
		return err
	}
	c, err := t.conn(ctx, &h)
	if err != nil {
		return err
	}
	_, err = m.Account(ctx, c)
	var no *sources.Refusal
	switch {
	case err == nil:
		h, err := t.reload(ctx, key) // it can have been renewed during the check
		if err == nil && h.in.Status != action.IntegrationActive {
			t.setStatus(ctx, h.in, action.IntegrationActive, "")
		}
		return err
	case errors.As(err, &no) && no.Credential:
		better, err := t.Refused(ctx, h.in, c.Token, refusalCode(no, c.Token))
		if better && again {
			return t.check(ctx, m, key, false)
		}
		return err
	case errors.As(err, &no):
		return t.refusedError(m, no, c.Token)
	}
	return requestError(m.Title, err)
}

// checkKeeper asks the broker or GitHub whether the credential still exists: a
// cached token can outlive it.
func (t *Tokens) checkKeeper(ctx context.Context, h *storedIntegration) error {
	var err error
	switch {
	case h.in.Kind == action.KindApp:
		err = t.checkInstallation(ctx, h)
	case h.in.Broker == action.BrokerNango:
		_, err = t.nangoToken(ctx, h, false)
	default:
		return nil
	}
	if err == nil {
		t.evict(h.key()) // an earlier failure no longer delays a renewal
	}
	return asUnavailable(err)
}

// Metadata returns data for forms: the module's answer to the query, as JSON.
func (t *Tokens) Metadata(ctx context.Context, in action.Integration, q url.Values) (json.RawMessage, error) {
	m := t.modules[in.Provider]
	if m == nil || m.Metadata == nil {
		return nil, action.NewError("no_metadata", t.title(in.Provider))
	}
	for again := true; ; again = false {
		c, err := t.Conn(ctx, in)
		if err != nil {
			return nil, err
		}
		answer, err := m.Metadata(ctx, c, q)
		var no *sources.Refusal
		switch {
		case err == nil:
			return redactedJSON(answer, c.Token)
		case !errors.As(err, &no):
			return nil, requestError(m.Title, err)
		case !no.Credential:
			return nil, t.refusedError(m, no, c.Token)
		}
		if better, err := t.Refused(ctx, in, c.Token, refusalCode(no, c.Token)); err != nil || !better || !again {
			if err == nil {
				err = t.refusedError(m, no, c.Token)
			}
			return nil, err
		}
	}
}

// redactedJSON encodes an answer and redacts the credential, which a service
// can echo.
func redactedJSON(answer any, token string) (json.RawMessage, error) {
	raw, err := json.Marshal(answer)
	return redact.NewReplacer(token).Replace(raw), err
}

// refusedError returns a service's refusal as an error for people.
func (t *Tokens) refusedError(m *sources.Module, no *sources.Refusal, token string) error {
	return unavailable(sources.FaultRefused, nil, "%s refused (%s): %s", m.Title, refusalCode(no, token), redactText(no.Message, token))
}
