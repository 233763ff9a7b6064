package credential

import (
	"context"
	"fmt"
	"net/url"

	"sallyport/action"
	"sallyport/internal/guard"
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
