package credential

import (
	"cmp"
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

// Error codes of connecting.
const (
	codeWanted  = "invalid_integration"
	codeRefused = "credential_refused" // the service refused it
	codeAccount = "other_account"      // it belongs to another account than the intended one
	codeNoApp   = "no_app"             // the gateway is not registered at the service
)

// maxSecret bounds an API key, in bytes.
const maxSecret = 8 << 10

// Connect verifies an API key or bot token at its service and saves it, as a
// new integration or as a replacement for the account's existing one. Errors of
// kind ErrInvalid name the field.
func (t *Tokens) Connect(ctx context.Context, w action.ConnectRequest) (action.Integration, error) {
	m, _, err := t.checkRequest(&w)
	if err != nil {
		return action.Integration{}, err
	}
	if w.Kind == action.KindOAuth2 || w.Kind == action.KindApp {
		return action.Integration{}, invalid("/kind", "%s is connected with %s in a browser. Start on the integrations page.", m.Title, w.Kind)
	}
	if err := w.Check(); err != nil {
		return action.Integration{}, err
	}
	base, host, err := t.requestedBaseURL(m, &w, "")
	if err != nil {
		return action.Integration{}, err
	}
	w.BaseURL = base
	if err := m.CheckSomeSettings(w.Settings); err != nil {
		return action.Integration{}, err
	}
	w.Secret = strings.TrimSpace(w.Secret)
	c := &secrets{Host: host, Value: w.Secret}
	switch {
	case w.Kind == action.KindNone:
		c = nil
	case w.Secret == "":
		return action.Integration{}, invalid("/secret", "Enter the credential for %s.", m.Title)
	case len(w.Secret) > maxSecret || strings.ContainsFunc(w.Secret, invalidTokenChar):
		return action.Integration{}, invalid("/secret", "The credential contains blanks or other invalid characters, or is longer than %d bytes. Copy it again.", maxSecret)
	}
	return t.verifyAndSave(ctx, m, w, c, w.Secret)
}

// checkRequest validates the request against the module and fills in defaults.
func (t *Tokens) checkRequest(w *action.ConnectRequest) (*sources.Module, sources.Need, error) {
	m := t.modules[w.Provider]
	if m == nil {
		return nil, sources.Need{}, invalid("/provider", "Unknown service %q. Available: %s.", sources.Printable(w.Provider, 40), strings.Join(slices.Sorted(maps.Keys(t.modules)), ", "))
	}
	if w.Kind == "" && len(m.Needs) > 0 {
		w.Kind = m.Needs[0].Kind
	}
	i := slices.IndexFunc(m.Needs, func(n sources.Need) bool { return n.Kind == w.Kind })
	switch {
	case i < 0:
		var kinds []string
		for _, n := range m.Needs {
			kinds = append(kinds, string(n.Kind))
		}
		return m, sources.Need{}, invalid("/kind", "%s cannot be connected with %q. Use %s.", m.Title, sources.Printable(string(w.Kind), 40), strings.Join(slices.Compact(kinds), " or "))
	case w.Own && !slices.ContainsFunc(m.Needs[i:], func(n sources.Need) bool { return n.Kind == w.Kind && n.Users }):
		return m, sources.Need{}, invalid("/own", "%s can only be connected with %s for the whole organization. Omit `own`.", m.Title, w.Kind)
	}
	return m, m.Needs[i], nil
}

// requestedBaseURL returns the base URL to store, empty if it is the module's
// default, and the host of the credential. registered is the base URL of the
// gateway's registration.
func (t *Tokens) requestedBaseURL(m *sources.Module, w *action.ConnectRequest, registered string) (base, host string, err error) {
	if base = cmp.Or(w.BaseURL, registered, m.BaseURL); base == "" {
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

// verifyAndSave asks the service for the account of the credential and saves
// both. Without secrets there is nothing to verify.
func (t *Tokens) verifyAndSave(ctx context.Context, m *sources.Module, w action.ConnectRequest, c *secrets, token string) (action.Integration, error) {
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
			return action.Integration{}, verifyError(m, &w, token, err)
		}
		if account, err = redactAccount(account, token); err != nil {
			return action.Integration{}, err
		}
	}
	account.ID = cmp.Or(account.ID, w.Provider) // a single one for the service
	return t.save(ctx, m, w, account, c)
}

// redactAccount redacts the token in an account, since a service can echo it.
func redactAccount(a sources.Account, token string) (sources.Account, error) {
	a.ID, a.Name = removeToken(a.ID, token), removeToken(a.Name, token)
	for i, scope := range a.Scopes {
		a.Scopes[i] = removeToken(scope, token)
	}
	if a.Settings == nil {
		return a, nil
	}
	settings, err := redactedJSON(a.Settings, token)
	a.Settings = settings
	return a, err
}

// verifyError reports that the service refused a new credential.
func verifyError(m *sources.Module, w *action.ConnectRequest, token string, err error) error {
	var no *sources.Refusal
	if !errors.As(err, &no) {
		return requestError(m.Title, err)
	}
	message := redactText(no.Message, token)
	if no.Credential { // the module's message is about a credential that used to work
		message = "Copy the whole credential again, and check that it is of the right type and has not expired."
	}
	e := action.Errorf(action.ErrInvalid, codeRefused, "%s did not accept the credential (%s): %s", m.Title, refusalCode(no, token), message)
	e.Field = "/secret"
	if w.Kind == action.KindOAuth2 {
		e.Field = ""
	}
	return e
}

// refusalCode returns a service's error code, redacted: it is untrusted.
func refusalCode(no *sources.Refusal, token string) string {
	if no.Code != "" {
		return sources.Printable(removeToken(no.Code, token), 60)
	}
	return fmt.Sprint(no.Status)
}

// redactText makes untrusted text without the token printable.
func redactText(text, token string) string { return sources.Printable(removeToken(text, token), 400) }

// removeToken removes the token from untrusted text, in every encoding in which
// services echo it.
func removeToken(text, token string) string {
	if token == "" {
		return text
	}
	text = string(redact.NewReplacer(token).Replace([]byte(text)))
	return strings.ReplaceAll(text, token, "…") // the replacer ignores short ones
}

func invalid(field, format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, codeWanted, format, args...)
	e.Field = field
	return e
}

// save stores a verified credential. It replaces the account's previous one.
func (t *Tokens) save(ctx context.Context, m *sources.Module, w action.ConnectRequest, account sources.Account, c *secrets) (action.Integration, error) {
	settings, err := mergeSettings(account.Settings, w.Settings)
	if err != nil {
		return action.Integration{}, err
	}
	w.Settings = settings
	if w.Account != "" && w.Account != account.ID {
		return action.Integration{}, action.Errorf(action.ErrConflict, codeAccount,
			"This credential belongs to another account (%s). Connect that account as a separate integration.", sources.Printable(account.Name, 100))
	}
	holder := ""
	if w.Own || w.Visibility == action.VisiblePrivate {
		holder = w.By
	}
	for attempt := 1; ; attempt++ {
		in, err := t.Store.IntegrationOf(ctx, w.Organization, w.Provider, holder, account.ID, w.Own)
		if errors.Is(err, action.ErrNotFound) {
			var id uuid.UUID
			id, err = uuid.NewV7()
			in = action.Integration{ID: id.String(), Organization: w.Organization, Provider: w.Provider, Account: account.ID, CreatedBy: w.By}
		}
		if err != nil {
			return in, fmt.Errorf("reading the integrations of %s: %w", w.Provider, err)
		}
		in, err = t.write(ctx, m, in, &w, &account, c)
		if err == nil || attempt == 3 || !errors.Is(err, action.ErrConflict) {
			in.Sealed = nil
			return in, err
		}
	}
}

// write stores the integration with the requested settings and the credential.
// Omitted settings stay unchanged, even of an integration that was
// disconnected: sessions are still bound to it, and its settings restrict what
// they can do.
func (t *Tokens) write(ctx context.Context, m *sources.Module, in action.Integration, w *action.ConnectRequest, account *sources.Account, c *secrets) (saved action.Integration, err error) {
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
	if in.Settings, err = mergeSettings(before.Settings, w.Settings); err != nil {
		return in, err
	}
	if err := m.CheckSettings(in.Settings); err != nil {
		return in, err
	}
	if in.Name = cmp.Or(w.Name, before.Name, m.Title); w.Name == "" && before.Name == "" && in.AccountName != "" {
		in.Name = sources.Printable(m.Title+" ("+in.AccountName+")", 100)
	}
	now := t.Now().UTC()
	if in.UpdatedAt = now; before.Version == 0 {
		in.CreatedAt = now
	}
	if c != nil {
		if in.Scopes == nil {
			in.Scopes = sortedScopes(c.Granted)
		}
		if !c.ExpiresAt.IsZero() {
			in.ExpiresAt = &c.ExpiresAt
		}
		if in.Sealed, err = seal(t.Vault, integrationRef(in.Organization, in.ID), c); err != nil {
			return in, err
		}
	}
	key, replaced := rowKey{in.Organization, in.ID}, t.replacedConnections(ctx, &in)
	err = t.exclusive(ctx, key, func() (err error) {
		saved, err = t.Store.PutIntegration(ctx, in, w.By)
		return err
	})
	if err != nil {
		return in, fmt.Errorf("writing integration %s: %w", in.ID, err)
	}
	for _, h := range replaced {
		t.revoke(context.WithoutCancel(ctx), &h)
		t.evictAll(h.key())
	}
	t.evictAll(key)
	t.Changed(in.Organization)
	return saved, nil
}

// replacedConnections returns the user's own connections to other accounts,
// with their credentials. The store deletes them when it writes in, but cannot
// revoke credentials.
func (t *Tokens) replacedConnections(ctx context.Context, in *action.Integration) (list []storedIntegration) {
	if in.User == "" {
		return nil
	}
	all, err := t.Store.Integrations(ctx, in.Organization)
	for _, other := range all {
		if other.User != in.User || other.Provider != in.Provider || other.ID == in.ID {
			continue
		}
		var h storedIntegration
		if h, err = t.readIntegration(ctx, rowKey{other.Organization, other.ID}); err == nil {
			list = append(list, h)
		}
	}
	if err != nil {
		t.Log.Warn("could not revoke a credential before replacing it", "integration", in.ID, "error", err)
	}
	return list
}

// mergeSettings returns the settings in under, overridden by those in over.
// Nil: none.
func mergeSettings(under, over json.RawMessage) (json.RawMessage, error) {
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

// sortedScopes sorts scopes, so that they can be compared.
func sortedScopes(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
