package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/redact"
	"sallyport/sources"
)

// Codes of errors of connecting.
const (
	codeWanted  = "invalid_integration"
	codeRefused = "credential_refused" // the service does not take it
	codeAccount = "other_account"      // it is of another account than the one that is meant
	codeNoApp   = "no_app"             // the gateway is not registered at the service
)

// maxSecret bounds a key, in bytes.
const maxSecret = 8 << 10

// Connect verifies a key or a bot's token at its service and saves it: as a new
// integration, or in the place of what its account had before. Errors of kind
// ErrInvalid name the field.
func (t *Tokens) Connect(ctx context.Context, w action.Wanted) (action.Integration, error) {
	m, _, err := t.need(&w)
	if err != nil {
		return action.Integration{}, err
	}
	if w.Kind == action.KindOAuth2 || w.Kind == action.KindApp {
		return action.Integration{}, invalid("/kind", "%s is connected with %s in a browser; begin it there, on the page of integrations.", m.Title, w.Kind)
	}
	if err := w.Check(); err != nil {
		return action.Integration{}, err
	}
	base, host, err := t.wantedBase(m, &w, "")
	if err != nil {
		return action.Integration{}, err
	}
	w.BaseURL = base
	if err := m.CheckSomeSettings(w.Settings); err != nil {
		return action.Integration{}, err
	}
	w.Secret = strings.TrimSpace(w.Secret)
	if err := checkSecret(m, &w); err != nil {
		return action.Integration{}, err
	}
	c := &cred{Host: host, Value: w.Secret}
	if w.Kind == action.KindNone {
		c = nil
	}
	return t.verified(ctx, m, w, c, w.Secret)
}

// need checks what is wanted against what the module offers, and fills in what
// was left out.
func (t *Tokens) need(w *action.Wanted) (*sources.Module, sources.Need, error) {
	m := t.modules[w.Provider]
	if m == nil {
		return nil, sources.Need{}, invalid("/provider", "There is no service %q to connect to; there are %s.", sources.Printable(w.Provider, 40), t.providers())
	}
	if w.Kind == "" && len(m.Needs) > 0 {
		w.Kind = m.Needs[0].Kind
	}
	i := slices.IndexFunc(m.Needs, func(n sources.Need) bool { return n.Kind == w.Kind })
	switch {
	case i < 0:
		return m, sources.Need{}, invalid("/kind", "%s cannot be connected with %q; use %s.", m.Title, sources.Printable(string(w.Kind), 40), kinds(m.Needs))
	case w.Own && !slices.ContainsFunc(m.Needs[i:], func(n sources.Need) bool { return n.Kind == w.Kind && n.Users }):
		return m, sources.Need{}, invalid("/own", "%s is connected with %s for the whole organization only; leave `own` out.", m.Title, w.Kind)
	}
	return m, m.Needs[i], nil
}

func (t *Tokens) providers() string {
	var ids []string
	for id := range t.modules {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

func kinds(needs []sources.Need) string {
	var list []string
	for _, n := range needs {
		list = append(list, string(n.Kind))
	}
	return strings.Join(slices.Compact(list), " or ")
}

// wantedBase returns the base URL to keep, empty where it is the module's own,
// and the host that the credential is for. registered is that of the gateway's
// registration at the service.
func (t *Tokens) wantedBase(m *sources.Module, w *action.Wanted, registered string) (base, host string, err error) {
	base = w.BaseURL
	if base == "" {
		base = registered
	}
	if base == "" {
		base = m.BaseURL
	}
	if base == "" {
		return "", "", nil
	}
	u, err := guard.CheckBaseURL(base)
	if err != nil {
		return "", "", err
	}
	if base == m.BaseURL {
		base = ""
	}
	return base, guard.Host(u), nil
}

func checkSecret(m *sources.Module, w *action.Wanted) error {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case w.Kind == action.KindNone:
		return nil
	case w.Secret == "":
		return invalid("/secret", "Give the credential for %s.", m.Title)
	case len(w.Secret) > maxSecret || strings.ContainsFunc(w.Secret, odd):
		return invalid("/secret", "The credential has blanks or other characters that cannot be sent, or more than %d of them; copy it again.", maxSecret)
	}
	return nil
}

// verified asks the service whose the credential is, and saves it. Without a
// cred there is nothing to ask.
func (t *Tokens) verified(ctx context.Context, m *sources.Module, w action.Wanted, c *cred, token string) (action.Integration, error) {
	var account sources.Account
	if c != nil && m.Account != nil {
		base, err := t.base(&action.Integration{Provider: w.Provider, BaseURL: w.BaseURL})
		if err != nil {
			return action.Integration{}, err
		}
		conn := &sources.Conn{Kind: w.Kind, Token: token, Settings: w.Settings}
		if base != nil {
			conn.HTTP = t.HTTP.Client("connect:"+w.Organization+":"+w.Provider, base, token)
		}
		ctx, stop := context.WithTimeout(ctx, t.Timeout)
		defer stop()
		if account, err = m.Account(ctx, conn); err != nil {
			return action.Integration{}, unverified(m, &w, token, err)
		}
		if account, err = harmlessAccount(account, token); err != nil {
			return action.Integration{}, err
		}
	}
	if account.ID == "" { // there is one: of the service as such
		account.ID = w.Provider
	}
	return t.keep(ctx, m, w, account, c)
}

// harmlessAccount is an account in which the token cannot be, whatever the
// service repeats.
func harmlessAccount(a sources.Account, token string) (sources.Account, error) {
	a.ID, a.Name = without(a.ID, token), without(a.Name, token)
	for i, scope := range a.Scopes {
		a.Scopes[i] = without(scope, token)
	}
	if a.Settings == nil {
		return a, nil
	}
	settings, err := harmless(a.Settings, token)
	a.Settings = settings
	return a, err
}

// unverified says that the service does not take what is to be saved.
func unverified(m *sources.Module, w *action.Wanted, token string, err error) error {
	var no *sources.Refusal
	if !errors.As(err, &no) {
		return unanswered(m.Title, err)
	}
	message := clean(no.Message, token)
	if no.Credential { // the module's words are for one that was good before
		message = "Copy it again, whole, and see that it is meant for this and has not ended."
	}
	e := action.Errorf(action.ErrInvalid, codeRefused, "%s did not take the credential (%s): %s", m.Title, refusalCode(no, token), message)
	e.Field = "/secret"
	if w.Kind == action.KindOAuth2 {
		e.Field = ""
	}
	return e
}

// refusalCode is a service's code. It is foreign, too.
func refusalCode(no *sources.Refusal, token string) string {
	if no.Code != "" {
		return sources.Printable(without(no.Code, token), 60)
	}
	return fmt.Sprint(no.Status)
}

// clean is foreign text for people, in which the token cannot be.
func clean(text, token string) string { return sources.Printable(without(text, token), 400) }

// without is foreign text in which the token cannot be, in no form that services
// repeat it in.
func without(text, token string) string {
	if token == "" {
		return text
	}
	text = string(redact.NewReplacer(token).Replace([]byte(text)))
	return strings.ReplaceAll(text, token, "…") // also a short one
}

func invalid(field, format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, codeWanted, format, args...)
	e.Field = field
	return e
}

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
