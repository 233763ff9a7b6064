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
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// installation is an installation of a GitHub App.
type installation struct {
	ID      int64 `json:"id"`
	Account struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
	} `json:"account"`
	SuspendedAt *time.Time        `json:"suspended_at"`
	Permissions map[string]string `json:"permissions"`
}

// account returns the account of the installation. The installation's ID
// changes when the app is reinstalled, that of the account does not.
// Self-hosted servers each count from 1.
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
	return sources.Account{ID: id, Name: i.Account.Login, Scopes: sortedScopes(scopes)}, nil
}

// installation fetches an installation as the app. Nil: it does not exist.
func (t *Tokens) installation(ctx context.Context, app *registration, api, id string) (*installation, error) {
	a, err := t.requestAsApp(ctx, app, api, http.MethodGet, id, "", nil)
	if err != nil {
		return nil, err
	}
	i := &installation{}
	switch {
	case a.Status == http.StatusNotFound:
		return nil, nil //nolint:nilnil // there is none, which is no error
	case a.Status != http.StatusOK:
		return nil, t.appError(a)
	case json.Unmarshal(a.Body, i) != nil || strconv.FormatInt(i.ID, 10) != id || i.Account.ID == 0:
		return nil, unavailable(sources.FaultProtocol, nil, "GitHub's response about the installation is not valid. Retry later.")
	}
	return i, nil
}

// checkInstallation checks that the installation exists and is not suspended.
func (t *Tokens) checkInstallation(ctx context.Context, h *storedIntegration) error {
	app, api, err := t.activeApp(ctx, h)
	if err != nil {
		return err
	}
	i, err := t.installation(ctx, app, api, h.secrets.Installation)
	switch {
	case err != nil:
		return err
	case i == nil:
		return t.markUninstalled(ctx, h)
	case i.SuspendedAt != nil:
		return t.markSuspended(ctx, h)
	}
	return nil
}

func (t *Tokens) markUninstalled(ctx context.Context, h *storedIntegration) error {
	return t.markUnusable(ctx, h, action.IntegrationRevoked, "The GitHub App is no longer installed there. Install it again.")
}

func (t *Tokens) markSuspended(ctx context.Context, h *storedIntegration) error {
	return t.markUnusable(ctx, h, action.IntegrationSuspended, "The installation of the GitHub App is suspended. Its owner must unsuspend it at GitHub. Then check the integration here.")
}

// installationScope limits an installation token. Nil: everything that the
// installation may do.
type installationScope struct {
	Repositories []string          `json:"repositories"`
	Permissions  map[string]string `json:"permissions"`
}

// installationToken requests an installation token.
func (t *Tokens) installationToken(ctx context.Context, h *storedIntegration, scope *installationScope) (m cachedToken, err error) {
	app, api, err := t.activeApp(ctx, h)
	if err != nil {
		return m, err
	}
	var body []byte
	if scope != nil {
		if body, err = json.Marshal(scope); err != nil {
			return m, err
		}
	}
	a, err := t.requestAsApp(ctx, app, api, http.MethodPost, h.secrets.Installation, "access_tokens", body)
	if err != nil {
		return m, err
	}
	var got struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	switch {
	case a.Status == http.StatusNotFound:
		return m, t.markUninstalled(ctx, h)
	case a.Status == http.StatusForbidden && strings.Contains(strings.ToLower(string(a.Body)), "suspended"):
		return m, t.markSuspended(ctx, h)
	case a.Status == http.StatusUnprocessableEntity && scope != nil:
		return m, unavailable(sources.FaultRefused, nil, "The GitHub App is not installed for the repository %s, or lacks the permission %s. Its owner can change that at GitHub.",
			strings.Join(scope.Repositories, ", "), describePermissions(scope.Permissions))
	case a.Status != http.StatusCreated:
		return m, t.appError(a)
	case json.Unmarshal(a.Body, &got) != nil || got.Token == "" || strings.ContainsFunc(got.Token, invalidTokenChar):
		return m, unavailable(sources.FaultProtocol, nil, "GitHub's response has no token. Retry later.")
	}
	m.token, m.usableUntil = got.Token, t.Now().Add(t.AppTokenLife)
	if last := got.ExpiresAt.Add(-time.Minute); !got.ExpiresAt.IsZero() && last.Before(m.usableUntil) {
		m.usableUntil = last
	}
	return m, nil
}

// describePermissions returns permissions as "contents:write".
func describePermissions(all map[string]string) string {
	var list []string
	for name, level := range all {
		list = append(list, name+":"+level)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// scopedKey identifies a token of an installation for one repository.
type scopedKey struct {
	rowKey
	repository, permissions string
}

// maxScopedTokens bounds the cache: it is cleared when it is full.
const maxScopedTokens = 1_000

// RepositoryToken returns a token for requests about one repository, by its name
// without the owner. For a GitHub App it permits nothing else; other credentials
// cannot be limited. Errors are those of [Tokens.Token].
func (t *Tokens) RepositoryToken(ctx context.Context, in action.Integration, repository string, permissions map[string]string) (string, error) {
	h, err := t.active(ctx, in)
	if err != nil {
		return "", err
	}
	if _, err := t.boundBaseURL(&h); err != nil {
		return "", err
	}
	if h.in.Kind != action.KindApp {
		return t.token(ctx, &h)
	}
	key := scopedKey{h.key(), repository, describePermissions(permissions)}
	t.cachedMu.Lock()
	m, ok := t.scopedTokens[key]
	t.cachedMu.Unlock()
	if ok && m.version == h.in.Version && t.Now().Before(m.usableUntil) {
		return m.token, nil
	}
	if m, err = t.installationToken(ctx, &h, &installationScope{[]string{repository}, permissions}); err != nil {
		return "", asUnavailable(err)
	}
	m.version, m.issuedAt = h.in.Version, t.Now()
	t.cachedMu.Lock()
	defer t.cachedMu.Unlock()
	if len(t.scopedTokens) >= maxScopedTokens {
		clear(t.scopedTokens)
	}
	t.scopedTokens[key] = m
	return m.token, nil
}

// appError converts an error response about the app itself.
func (t *Tokens) appError(a *outbound.Response) error {
	if a.Status == http.StatusUnauthorized {
		return unavailable(sources.FaultAuth, nil, "GitHub does not accept the App's signature. An owner or admin must set its ID and private key again.")
	}
	return unavailable(sources.FaultFailed, nil, "GitHub returned no installation (%d). Retry later.", a.Status)
}

// appFor returns the app of an integration and its API URL: the app's own, or
// the module's.
func (t *Tokens) appFor(ctx context.Context, h *storedIntegration) (app *registration, api string, err error) {
	if app, err = t.registration(ctx, h.in.Organization, h.in.Provider); err != nil {
		return nil, "", err
	}
	api = t.appAPI(app)
	if hostKey(api) != h.secrets.Host {
		return nil, "", registrationChanged("The GitHub App's base URL has changed. Install the app again.")
	}
	return app, api, nil
}

// activeApp is appFor for requests that use the app: if the registration
// changed, the integration expires.
func (t *Tokens) activeApp(ctx context.Context, h *storedIntegration) (app *registration, api string, err error) {
	app, api, err = t.appFor(ctx, h)
	if errors.Is(err, errRegistrationChanged) {
		err = t.markUnusable(ctx, h, action.IntegrationExpired, action.Public(err).Message)
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

// requestAsApp sends a request about an installation, signed by the app.
func (t *Tokens) requestAsApp(ctx context.Context, app *registration, api, method, id, what string, body []byte) (*outbound.Response, error) {
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
	return t.send(ctx, "app:"+app.Organization+":"+app.Provider, api+path, &outbound.Request{Method: method, Header: header, Body: body, Repeatable: method == http.MethodGet}, signed)
}

// appJWT returns a JWT of the app. GitHub accepts a lifetime of ten minutes; it
// is a minute shorter because of clock skew.
func (t *Tokens) appJWT(app *registration) (string, error) {
	pem, err := app.secret(action.AppPrivateKey)
	if err != nil {
		return "", err
	}
	who := cmp.Or(app.AppID, app.ClientID)
	key, err := privateKey(pem)
	if err != nil || who == "" { // the error can contain the key
		return "", noApp(app.Provider, "The registration at %s has no app ID or no valid private key.", app.Provider)
	}
	begin := t.Now().Add(-30 * time.Second)
	signed, err := signRS256(key, map[string]any{"iss": who, "iat": begin.Unix(), "exp": begin.Add(9 * time.Minute).Unix()})
	if err != nil {
		return "", unavailable(sources.FaultCredential, nil, "The private key of the App at %s cannot sign. An owner or admin must set it again.", app.Provider)
	}
	return signed, nil
}

// signRS256 returns the claims as a signed JSON Web Token (RFC 7515 and RFC
// 7518, section 3.3).
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
