package credential

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
