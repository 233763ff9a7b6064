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

// owned is an integration's row, and what is sealed in it.
type owned struct {
	in   action.Integration
	cred *cred
}

func (h *owned) place() place { return place{h.in.Organization, h.in.ID} }

// cred is what is sealed of an integration.
type cred struct {
	// Host is the one that the credential is sent to, as [guard.Host] has it:
	// who can write the row's base URL must not have it sent elsewhere.
	Host  string `json:"host,omitempty"`
	Value string `json:"value,omitempty"` // a key, or a bot's token

	issued        // of our own OAuth
	Token  string `json:"token_endpoint,omitempty"`
	Client string `json:"client_id,omitempty"` // to which they were issued

	Connection string `json:"connection,omitempty"` // at the broker
	Key        string `json:"key,omitempty"`        // the broker's name of the provider

	Installation string `json:"installation,omitempty"` // of an app
}

func integrationRef(organization, id string) action.Ref {
	return action.Ref{Organization: organization, Table: "integrations", Row: id, Column: "sealed"}
}

// owned returns an integration as its row has it now; ErrNotFound.
func (t *Tokens) owned(ctx context.Context, at place) (h owned, err error) {
	in, err := t.Store.IntegrationCredential(ctx, at.organization, at.id)
	if err != nil {
		return h, fmt.Errorf("reading the credential of integration %s: %w", at.id, err)
	}
	h = owned{in: in, cred: &cred{}}
	if len(in.Sealed) == 0 {
		return h, nil
	}
	if err := unseal(t.Vault, integrationRef(at.organization, at.id), in.Sealed, h.cred); err != nil {
		return h, fmt.Errorf("opening the credential of integration %s: %w", at.id, err)
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

// bury writes why the integration's credential cannot be used, and returns the
// error that says so. Where there is another credential by now, it buries
// nothing: that one is to be tried.
func (t *Tokens) bury(ctx context.Context, h *owned, status action.IntegrationStatus, reason string) error {
	if !t.setStatus(ctx, h.in, status, reason) {
		return newer()
	}
	dead := h.in
	dead.Status, dead.Reason = status, reason
	return t.over(&dead)
}

// errNewer is a credential that is not the one that the caller knows.
var errNewer = errors.New("there is another credential")

func newer() error {
	e := failing(sources.FaultCredential, nil, "The integration was changed just now; try again.")
	e.Err = errNewer
	return e
}

// itself is who changed a status that no person changed, in records.
const itself = "gateway"

// setStatus writes a status, as the gateway itself found it, and reports whether
// it was found of the credential that there still is.
func (t *Tokens) setStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) bool {
	current, err := t.putStatus(ctx, in, status, reason)
	if err != nil {
		t.Log.Error("writing an integration's status", "integration", in.ID, "status", status, "error", err)
	}
	return current
}

func (t *Tokens) putStatus(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) (current bool, err error) {
	ctx = context.WithoutCancel(ctx) // it is so, whoever still waits
	changed, err := t.Store.SetIntegrationStatus(ctx, in.Organization, in.ID, in.Version, status, reason, itself)
	if errors.Is(err, action.ErrConflict) {
		t.drop(place{in.Organization, in.ID})
		return false, nil
	}
	if err != nil {
		return true, err
	}
	t.drop(place{in.Organization, in.ID})
	if changed {
		t.Log.Warn("an integration changed its status", "integration", in.ID, "provider", in.Provider, "status", status, "reason", reason)
		t.Changed(in.Organization)
	}
	return true, nil
}

// Told writes what a service or a broker said of an integration that was read
// before, also where its credential was renewed meanwhile. It does nothing when
// the integration is gone, or has that status by now. ErrConflict when it has
// another one, or is of another account: what was said is to be looked at anew.
func (t *Tokens) Told(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) error {
	for range 3 {
		now, err := t.Store.IntegrationCredential(ctx, in.Organization, in.ID)
		switch {
		case errors.Is(err, action.ErrNotFound) || err == nil && now.Status == status:
			return nil
		case err != nil:
			return fmt.Errorf("reading integration %s: %w", in.ID, err)
		case now.Account != in.Account || now.Status != in.Status:
			return unsettled(in.ID)
		}
		if written, err := t.putStatus(ctx, now, status, reason); written {
			return err
		}
	}
	return unsettled(in.ID)
}

func unsettled(id string) error {
	return action.Errorf(action.ErrConflict, "integration_moved", "Integration %s was changed just now; try again.", id)
}

// Recheck follows a hint that an integration may do otherwise than its row says:
// it asks those who know, and writes what they answer, as [Tokens.Check] does. An
// error says why they could not be asked.
func (t *Tokens) Recheck(ctx context.Context, in action.Integration) error {
	_, err := t.Check(ctx, in)
	if errors.Is(err, action.ErrNotFound) {
		return nil // it was disconnected
	}
	return err
}
