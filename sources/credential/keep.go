package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/sources"
)

// keep saves a credential that was verified, in the place of what its account
// had before.
func (t *Tokens) keep(ctx context.Context, m *sources.Module, w action.Wanted, account sources.Account, c *cred) (action.Integration, error) {
	settings, err := laid(account.Settings, w.Settings)
	if err != nil {
		return action.Integration{}, err
	}
	w.Settings = settings
	if w.Account != "" && w.Account != account.ID {
		return action.Integration{}, action.Errorf(action.ErrConflict, codeAccount,
			"This credential is of another account (%s); connect that one as an integration of its own.", sources.Printable(account.Name, 100))
	}
	holder := ""
	if w.Own || w.Visibility == action.VisiblePrivate {
		holder = w.By
	}
	for attempt := 1; ; attempt++ {
		in, err := t.Store.IntegrationOf(ctx, w.Organization, w.Provider, holder, account.ID, w.Own)
		if errors.Is(err, action.ErrNotFound) {
			in, err = newIntegration(&w, account.ID)
		}
		if err != nil {
			return in, fmt.Errorf("reading the integrations of %s: %w", w.Provider, err)
		}
		in, err = t.put(ctx, m, in, &w, &account, c)
		if err == nil || attempt == 3 || !errors.Is(err, action.ErrConflict) {
			in.Sealed = nil
			return in, err
		}
	}
}

func newIntegration(w *action.Wanted, account string) (action.Integration, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return action.Integration{}, fmt.Errorf("making an id: %w", err)
	}
	return action.Integration{ID: id.String(), Organization: w.Organization, Provider: w.Provider, Account: account, CreatedBy: w.By}, nil
}

// put writes the integration with what is wanted and the credential. What is
// not said stays as it was, also where it was disconnected meanwhile: sessions
// are still bound to it, and its settings say what they may not do.
func (t *Tokens) put(ctx context.Context, m *sources.Module, in action.Integration, w *action.Wanted, account *sources.Account, c *cred) (saved action.Integration, err error) {
	before := in
	in.Kind, in.Broker, in.Visibility, in.BaseURL = w.Kind, w.Broker, w.Visibility, w.BaseURL
	in.Status, in.Reason, in.Scopes, in.ExpiresAt, in.Sealed = action.IntegrationActive, "", account.Scopes, nil, nil
	in.AccountName = sources.Printable(account.Name, 200)
	if w.Own {
		in.User = w.By
	}
	if w.TimeoutSeconds > 0 {
		in.TimeoutSeconds = w.TimeoutSeconds
	}
	if in.Settings, err = laid(before.Settings, w.Settings); err != nil {
		return in, err
	}
	if err := m.CheckSettings(in.Settings); err != nil {
		return in, err
	}
	if in.Name = w.Name; in.Name == "" {
		in.Name = before.Name
	}
	if in.Name == "" {
		in.Name = named(m, in.AccountName)
	}
	now := t.Now().UTC()
	if in.UpdatedAt = now; before.Version == 0 {
		in.CreatedAt = now
	}
	if c != nil {
		if in.Scopes == nil {
			in.Scopes = scopeList(c.Granted)
		}
		if !c.ExpiresAt.IsZero() {
			in.ExpiresAt = &c.ExpiresAt
		}
		if in.Sealed, err = seal(t.Vault, integrationRef(in.Organization, in.ID), c); err != nil {
			return in, err
		}
	}
	at, replaced := place{in.Organization, in.ID}, t.replaced(ctx, &in)
	err = t.alone(ctx, at, func() (err error) {
		saved, err = t.Store.PutIntegration(ctx, in, w.By)
		return err
	})
	if err != nil {
		return in, fmt.Errorf("writing integration %s: %w", in.ID, err)
	}
	for _, h := range replaced {
		t.giveBack(context.WithoutCancel(ctx), &h)
		t.drop(h.place())
	}
	t.drop(at)
	t.Changed(in.Organization)
	return saved, nil
}

// replaced returns the user's own connections of other accounts, with their
// credentials: the store ends them when it writes in, and knows no services.
func (t *Tokens) replaced(ctx context.Context, in *action.Integration) (list []owned) {
	if in.User == "" {
		return nil
	}
	all, err := t.Store.Integrations(ctx, in.Organization)
	for _, other := range all {
		if other.User != in.User || other.Provider != in.Provider || other.ID == in.ID {
			continue
		}
		var h owned
		if h, err = t.owned(ctx, place{other.Organization, other.ID}); err == nil {
			list = append(list, h)
		}
	}
	if err != nil {
		t.Log.Warn("a credential is replaced that cannot be given back", "integration", in.ID, "error", err)
	}
	return list
}

func named(m *sources.Module, account string) string {
	if account == "" {
		return m.Title
	}
	return sources.Printable(m.Title+" ("+account+")", 100)
}

// laid lays settings over others, by their names. Nil: there are none.
func laid(under, over json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, raw := range []json.RawMessage{under, over} {
		some := map[string]json.RawMessage{}
		if len(raw) > 0 && json.Unmarshal(raw, &some) != nil {
			return nil, invalid("/settings", "The settings must be a JSON object.")
		}
		maps.Copy(all, some)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

// scopeList puts scopes in one order, so that they can be compared.
func scopeList(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
