package credential

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// installation is what GitHub says of one.
type installation struct {
	ID      int64 `json:"id"`
	Account struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
	} `json:"account"`
	SuspendedAt *time.Time        `json:"suspended_at"`
	Permissions map[string]string `json:"permissions"`
}

// account is whose installation it is. Its own id changes when the app is
// installed anew, that of the account does not. Servers of others than GitHub
// count them from 1, each.
func (i *installation) account(m *sources.Module, api string) (sources.Account, error) {
	base, err := url.Parse(api)
	if err != nil {
		return sources.Account{}, fmt.Errorf("the URL of the app: %w", err)
	}
	cloud, err := url.Parse(m.BaseURL)
	if err != nil {
		return sources.Account{}, fmt.Errorf("the URL of module %s: %w", m.ID, err)
	}
	var scopes []string
	for name, level := range i.Permissions {
		scopes = append(scopes, sources.Printable(name+":"+level, 100))
	}
	id := sources.AccountID(base, cloud.Host, strconv.FormatInt(i.Account.ID, 10))
	return sources.Account{ID: id, Name: i.Account.Login, Scopes: scopeList(scopes)}, nil
}

// installationOf asks GitHub about an installation, as the app; nil: there is no
// such one.
func (t *Tokens) installationOf(ctx context.Context, app *registration, api, id string) (*installation, error) {
	a, err := t.asApp(ctx, app, api, http.MethodGet, id, "")
	if err != nil {
		return nil, err
	}
	i := &installation{}
	switch {
	case a.Status == http.StatusNotFound:
		return nil, nil //nolint:nilnil // there is none, which is no error
	case a.Status != http.StatusOK:
		return nil, t.appRefused(a)
	case json.Unmarshal(a.Body, i) != nil || strconv.FormatInt(i.ID, 10) != id || i.Account.ID == 0:
		return nil, failing(sources.FaultProtocol, nil, "GitHub's answer about the installation cannot be read; try again later.")
	}
	return i, nil
}

// installed asks GitHub whether the installation is there, and in use.
func (t *Tokens) installed(ctx context.Context, h *owned) error {
	app, api, err := t.livingApp(ctx, h)
	if err != nil {
		return err
	}
	i, err := t.installationOf(ctx, app, api, h.cred.Installation)
	switch {
	case err != nil:
		return err
	case i == nil:
		return t.uninstalled(ctx, h)
	case i.SuspendedAt != nil:
		return t.suspended(ctx, h)
	}
	return nil
}

func (t *Tokens) uninstalled(ctx context.Context, h *owned) error {
	return t.bury(ctx, h, action.IntegrationRevoked, "The GitHub App is not installed there any more; install it again.")
}

func (t *Tokens) suspended(ctx context.Context, h *owned) error {
	return t.bury(ctx, h, action.IntegrationSuspended, "The installation of the GitHub App is suspended; its owner must unsuspend it at GitHub, then have it checked here.")
}

// installationToken has GitHub give a token.
func (t *Tokens) installationToken(ctx context.Context, h *owned) (m minted, err error) {
	app, api, err := t.livingApp(ctx, h)
	if err != nil {
		return m, err
	}
	a, err := t.asApp(ctx, app, api, http.MethodPost, h.cred.Installation, "access_tokens")
	if err != nil {
		return m, err
	}
	var got struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	switch {
	case a.Status == http.StatusNotFound:
		return m, t.uninstalled(ctx, h)
	case a.Status == http.StatusForbidden && strings.Contains(strings.ToLower(string(a.Body)), "suspended"):
		return m, t.suspended(ctx, h)
	case a.Status != http.StatusCreated:
		return m, t.appRefused(a)
	case json.Unmarshal(a.Body, &got) != nil || got.Token == "" || strings.ContainsFunc(got.Token, notToken):
		return m, failing(sources.FaultProtocol, nil, "GitHub's answer holds no token; try again later.")
	}
	m.token, m.until = got.Token, t.Now().Add(t.AppTokenLife)
	if last := got.ExpiresAt.Add(-time.Minute); !got.ExpiresAt.IsZero() && last.Before(m.until) {
		m.until = last
	}
	return m, nil
}

// appRefused is GitHub's no to the app itself.
func (t *Tokens) appRefused(a *outbound.Response) error {
	if a.Status == http.StatusUnauthorized {
		return failing(sources.FaultAuth, nil, "GitHub does not take the App's signature; an owner or admin must set its id and private key again.")
	}
	return failing(sources.FaultFailed, nil, "GitHub did not answer about the installation (%d); try again later.", a.Status)
}

// appOf returns the app of an integration and the URL of the API that it is
// used at: the app's own, or the module's.
func (t *Tokens) appOf(ctx context.Context, h *owned) (app *registration, api string, err error) {
	if app, err = t.registration(ctx, h.in.Organization, h.in.Provider); err != nil {
		return nil, "", err
	}
	api = t.appAPI(app)
	if hostOf(api) != h.cred.Host {
		return nil, "", foreign("The GitHub App's base URL was changed since; install the app again.")
	}
	return app, api, nil
}

// livingApp is appOf for what is to be used: an app that is another by now ends
// the integration.
func (t *Tokens) livingApp(ctx context.Context, h *owned) (app *registration, api string, err error) {
	app, api, err = t.appOf(ctx, h)
	if errors.Is(err, errForeign) {
		err = t.bury(ctx, h, action.IntegrationExpired, action.Public(err).Message)
	}
	return app, api, err
}

func (t *Tokens) appAPI(app *registration) string {
	api := app.BaseURL
	if m := t.modules[app.Provider]; api == "" && m != nil {
		api = m.BaseURL
	}
	return strings.TrimSuffix(api, "/")
}

// asApp makes a request about an installation, signed by the app.
func (t *Tokens) asApp(ctx context.Context, app *registration, api, method, id, what string) (*outbound.Response, error) {
	signed, err := t.appJWT(app)
	if err != nil {
		return nil, err
	}
	header := http.Header{
		"Authorization": {"Bearer " + signed}, "X-Github-Api-Version": {"2022-11-28"}, "Content-Type": {"application/json"},
	}
	path := outbound.Path("app", "installations", id)
	if what != "" {
		path += outbound.Path(what)
	}
	return t.send(ctx, "app:"+app.Organization+":"+app.Provider, api+path, &outbound.Request{Method: method, Header: header, Repeatable: method == http.MethodGet}, signed)
}

// appJWT signs as the app, for ten minutes less a minute in all: GitHub takes no
// longer ones, and clocks differ.
func (t *Tokens) appJWT(app *registration) (string, error) {
	pem, err := app.need(action.AppPrivateKey)
	if err != nil {
		return "", err
	}
	who := cmp.Or(app.AppID, app.ClientID)
	key, err := privateKey(pem)
	if err != nil || who == "" { // the error may hold the key
		return "", noApp(app.Provider, "The registration at %s has no app id, or no private key that can be used.", app.Provider)
	}
	begin := t.Now().Add(-30 * time.Second)
	signed, err := signRS256(key, map[string]any{"iss": who, "iat": begin.Unix(), "exp": begin.Add(9 * time.Minute).Unix()})
	if err != nil {
		return "", failing(sources.FaultCredential, nil, "The private key of the App at %s cannot sign; an owner or admin must set it again.", app.Provider)
	}
	return signed, nil
}

// signRS256 returns the claims as a signed JSON Web Token (RFC 7515 and RFC 7518,
// section 3.3).
func signRS256(key *rsa.PrivateKey, claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	encoded := base64.RawURLEncoding.EncodeToString
	input := encoded([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encoded(payload)
	digest := sha256.Sum256([]byte(input))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		return "", err
	}
	return input + "." + encoded(signature), nil
}

// installURL is where a person installs the app.
func installURL(app *registration, state string) string {
	u := &url.URL{Scheme: "https", Host: "github.com", Path: "/apps/" + app.Slug + "/installations/new"}
	if base, err := guard.CheckURL(app.BaseURL); err == nil {
		u.Scheme, u.Host, u.Path = base.Scheme, base.Host, "/github-apps/"+app.Slug+"/installations/new"
	}
	u.RawQuery = url.Values{"state": {state}}.Encode()
	return u.String()
}

// installationID is a number, in the browser's answer.
func installationID(raw string) bool {
	return raw != "" && len(raw) <= 19 && !strings.ContainsFunc(raw, func(r rune) bool { return r < '0' || r > '9' })
}
