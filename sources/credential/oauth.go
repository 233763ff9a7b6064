// Package credential provides the tokens that the gateway sends. [OAuth] holds
// those of connectors: it signs in to the authorization servers of remote MCP
// servers with OAuth 2.1, started by an admin (authorization code) or on its
// own (client credentials), and renews tokens before they expire. [Tokens]
// holds those of integrations: API keys, bot tokens, OAuth sign-ins of the
// gateway or of Nango, GitHub App installations.
//
// It guarantees: tokens, client secrets and verifiers are stored sealed and
// appear in no error and no log; a token is sent only to the host and path it
// was issued for; a sign-in is completed once, by the person who began it, with
// an answer of the authorization server that was asked; a token is renewed once
// for all callers and instances, and a waiting caller can leave; all requests
// use the guarded client, with bounded size and time, and requests with a
// credential follow no redirects.
//
// It opens no browser and serves no page: the caller of Begin sends the person
// to the URL, and passes the result to Finish. It signs no assertions
// (private_key_jwt, DPoP).
//
// It does not use golang.org/x/oauth2: connectors and integrations share one
// token exchange, which needs resource indicators, discovered metadata and a
// guarded client with bounded bodies, and one definition of a permanent error.
package credential

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// Store stores the grants of connectors, integrations with their registrations,
// and pending flows.
type Store interface {
	// For [OAuth].

	// OAuthGrant returns a connector's grant, or ErrNotFound.
	OAuthGrant(ctx context.Context, organization, connector string) (action.OAuthGrant, error)
	// PutOAuthGrant overwrites the grant with the same Version, or inserts one
	// with Version zero. ErrConflict with code "oauth_moved": it was changed
	// meanwhile.
	PutOAuthGrant(ctx context.Context, g action.OAuthGrant) error
	// DeleteOAuthGrant deletes a grant on behalf of a person.
	DeleteOAuthGrant(ctx context.Context, organization, connector, by string) error
	// PutOAuthFlow stores a pending sign-in.
	PutOAuthFlow(ctx context.Context, f action.OAuthFlow) error
	// TakeOAuthFlow deletes and returns a flow, for one caller only;
	// ErrNotFound if there is no valid one.
	TakeOAuthFlow(ctx context.Context, stateHash string, now time.Time) (action.OAuthFlow, error)

	// For [Tokens].

	// IntegrationOf returns the integration of a provider's account with its
	// credential, including deleted ones; ErrNotFound. holder is its Owner;
	// own: it is the holder's own connection.
	IntegrationOf(ctx context.Context, organization, provider, holder, account string, own bool) (action.Integration, error)
	// Integrations returns an organization's integrations that are not deleted,
	// without credentials.
	Integrations(ctx context.Context, organization string) ([]action.Integration, error)
	// IntegrationCredential returns an integration with its credential;
	// ErrNotFound, also for a deleted one.
	IntegrationCredential(ctx context.Context, organization, id string) (action.Integration, error)
	// BrokeredIntegrations returns the integrations of all organizations whose
	// tokens the broker holds, with their credentials.
	BrokeredIntegrations(ctx context.Context, broker action.Broker) ([]action.Integration, error)
	// PutIntegration overwrites the integration with the same Version, or
	// inserts one with Version zero, and makes it active. ErrConflict: it was
	// changed meanwhile.
	PutIntegration(ctx context.Context, in action.Integration, by string) (action.Integration, error)
	// RenewIntegration writes Sealed, ExpiresAt, Scopes and UpdatedAt if the
	// Version is unchanged; ErrConflict.
	RenewIntegration(ctx context.Context, in action.Integration) error
	// SetIntegrationStatus writes the status and reason for the credential of
	// that version; zero: of any version. ErrConflict: the credential was
	// replaced. The deleted status removes the credential.
	SetIntegrationStatus(ctx context.Context, organization, id string, version int64, status action.IntegrationStatus, reason, by string) (changed bool, err error)
	// ProviderApp returns a registration with its secrets; ErrNotFound.
	ProviderApp(ctx context.Context, organization, provider string) (action.ProviderApp, error)
	// PutIntegrationFlow stores a pending connection.
	PutIntegrationFlow(ctx context.Context, f action.IntegrationFlow) error
	// TakeIntegrationFlow deletes and returns a flow that the user began with
	// that login, for one caller only; ErrNotFound if there is no valid one. A
	// flow of another login stays.
	TakeIntegrationFlow(ctx context.Context, organization, stateHash, by, login string, now time.Time) (action.IntegrationFlow, error)
}

// Config configures an [OAuth].
type Config struct {
	Store Store        // required
	Vault action.Vault // seals tokens; required
	// Lock acquires the named lock across all instances, or fails when ctx
	// ends. Required.
	Lock func(ctx context.Context, name string) (unlock func(), err error)
	// Guard restricts outbound connections. Loopback is only permitted for a
	// connector whose URL is on loopback.
	Guard guard.Config

	ClientName  string // shown to people who sign in; empty: "Sallyport"
	RedirectURL string // callback URL; required
	// MetadataURL is the https URL at which [OAuth.ClientMetadata] is served.
	// Empty: none, and the gateway registers itself instead.
	MetadataURL string

	// ClientSecret returns an organization's secret and the host, with its port
	// if any, that it was set for. Required.
	ClientSecret func(ctx context.Context, organization, key string) (value, host string, err error)

	RefreshBefore time.Duration // before a token expires; zero: 60 s
	FlowLife      time.Duration // time limit of a sign-in; zero: 10 min
	Timeout       time.Duration // of one request to an authorization server; zero: 10 s
	Now           func() time.Time
	Log           *slog.Logger
}

// OAuth provides the tokens of all connectors. It is safe for concurrent use.
type OAuth struct {
	Config

	*rowCache[grantRow]
}

// New returns an OAuth. It fails if the configuration is incomplete.
func New(c Config) (*OAuth, error) {
	if c.Store == nil || c.Vault == nil || c.Lock == nil || c.ClientSecret == nil {
		return nil, errors.New("credential: Config.Store, Vault, Lock and ClientSecret are required")
	}
	if _, err := guard.CheckURL(c.RedirectURL); err != nil {
		return nil, errors.New("credential: Config.RedirectURL is not a URL")
	}
	if u, err := url.Parse(c.MetadataURL); err != nil || c.MetadataURL != "" && (u.Scheme != "https" || len(u.Path) < 2) {
		return nil, errors.New("credential: Config.MetadataURL must be an https URL with a path, or empty")
	}
	c.ClientName, c.Log = cmp.Or(c.ClientName, "Sallyport"), cmp.Or(c.Log, slog.Default())
	c.RefreshBefore, c.FlowLife, c.Timeout = cmp.Or(c.RefreshBefore, time.Minute), cmp.Or(c.FlowLife, 10*time.Minute), cmp.Or(c.Timeout, 10*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	o := &OAuth{Config: c}
	o.rowCache = &rowCache[grantRow]{name: "oauth", lock: c.Lock, read: o.loadGrant, timeout: c.Timeout, now: c.Now}
	o.start()
	return o, nil
}

// Close waits for renewals in progress, even if their callers left: a refresh
// token can be valid only once, so that its result must be stored. No renewal
// starts afterwards, not even one that is already waiting.
func (o *OAuth) Close() error {
	o.close()
	return nil
}

// maxAnswer bounds responses of authorization servers.
const maxAnswer = 64 << 10

// oauthClient sends requests on behalf of one connector: its URL is the only
// one that an admin chose, all others are untrusted.
type oauthClient struct {
	*OAuth
	server *url.URL
}

func (o *OAuth) clientFor(server string) (oauthClient, error) {
	u, err := guard.CheckURL(server)
	return oauthClient{o, u}, err
}

// response is a response with its body read.
type response struct {
	status int
	header http.Header
	body   []byte
}

// checkEndpoint parses a URL that a server named. It must use https unless the
// connector does not, and can be on loopback only if the connector is.
func (r oauthClient) checkEndpoint(raw, what string) (*url.URL, error) {
	u, err := guard.CheckURL(raw)
	var why *action.Error
	switch {
	case errors.As(err, &why):
		return nil, discoveryError("The %s that the server names cannot be used. %s", what, why.Message)
	case guard.Loopback(u) && !guard.Loopback(r.server):
		return nil, discoveryError("The %s that the server names is on loopback, which the gateway does not connect to for it.", what)
	case u.Scheme != "https" && (r.server.Scheme == "https" || !guard.Loopback(u) && guard.Host(u) != guard.Host(r.server)):
		return nil, discoveryError("The %s that the server names does not use https. Its operator must enable https.", what)
	}
	return u, nil
}

func discoveryError(format string, args ...any) *action.Error {
	return action.Errorf(action.ErrUnavailable, codeDiscovery, format, args...)
}

// post sends JSON or a form. It follows no redirect, which would forward the
// body and its secrets.
func (r oauthClient) post(ctx context.Context, raw, what, kind string, body io.Reader, header http.Header) (*response, error) {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", kind)
	if header.Get("Accept") == "" {
		header.Set("Accept", "application/json")
	}
	return r.send(ctx, http.MethodPost, raw, what, body, header)
}

func (r oauthClient) send(ctx context.Context, method, raw, what string, body io.Reader, header http.Header) (*response, error) {
	u, err := r.checkEndpoint(raw, what)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, r.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, discoveryError("The %s that the server names cannot be used.", what)
	}
	req.Header = header
	req.Header.Set("User-Agent", "sallyport")
	client := guard.Client(r.Guard, u)
	defer client.CloseIdleConnections()
	if method != http.MethodGet {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, connectionError(ctx, u, err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return &response{status: resp.StatusCode, header: resp.Header}, nil
	}
	whole, err := io.ReadAll(guard.LimitBody(resp.Body, maxAnswer))
	if err != nil {
		return nil, connectionError(ctx, u, err)
	}
	return &response{status: resp.StatusCode, header: resp.Header, body: whole}, nil
}

// getDocument fetches JSON into v. found is false if there is none: a 4xx
// response, or one that is not a JSON object, such as a catch-all page.
func (r oauthClient) getDocument(ctx context.Context, raw, what string, v any) (found bool, err error) {
	a, err := r.send(ctx, http.MethodGet, raw, what, nil, http.Header{"Accept": {"application/json"}})
	switch {
	case err != nil:
		return false, err
	case a.status >= 500 || a.status == http.StatusTooManyRequests:
		return false, action.Errorf(action.ErrUnavailable, codeDiscovery, "The %s is currently unavailable (%d). Retry later.", what, a.status)
	case a.status != http.StatusOK:
		return false, nil
	}
	return json.Unmarshal(a.body, v) == nil, nil
}

// Error codes that package sources does not define.
const (
	codeDiscovery = "oauth_discovery"    // the OAuth metadata of a server cannot be used
	codeClient    = "oauth_client"       // the client is unknown or cannot be used
	codeMoved     = "oauth_issuer_moved" // the server names another authorization server than before
	codeFlow      = "oauth_flow"         // the sign-in cannot be completed
)

// signInRequired returns an error that asks a person to act, after the reason.
func signInRequired(c *action.Connector, why string) *action.Error {
	if c.OAuth.Kind == action.OAuthClient {
		return action.Errorf(action.ErrUnavailable, sources.FaultReconnect, "%s An owner or admin must check the OAuth settings of %q.", why, c.Name)
	}
	return action.Errorf(action.ErrUnavailable, sources.FaultReconnect,
		"%s An owner or admin must sign in to %q on the connector's page.", why, c.Name)
}

// connectionError says why a request got no response.
func connectionError(ctx context.Context, u *url.URL, err error) error {
	var shown *action.Error
	var dns *net.DNSError
	if u := (*url.Error)(nil); errors.As(err, &u) { // its query can contain a key
		err = u.Err
	}
	e := &action.Error{Kind: action.ErrUnavailable, Code: sources.FaultUnreachable, Err: err}
	switch {
	case errors.As(err, &shown) && shown.Code == "address_blocked":
		e.Code, e.Message = sources.FaultBlocked, shown.Message
	case errors.As(err, &shown):
		e.Code, e.Message = codeDiscovery, shown.Message
	case errors.As(err, &dns):
		e.Code, e.Message = sources.FaultDNS, "The name does not resolve. Check the authorization server in the server's metadata."
	case ctx.Err() != nil:
		e.Code, e.Message = sources.FaultTimeout, "It did not answer in time. Retry later."
	default:
		e.Message = "The connection failed, or is not secure. Retry later."
	}
	e.Message = "The sign-in request to " + sources.Printable(u.Host, 100) + " failed. " + e.Message
	return e
}

// errorCode returns a valid OAuth error code, or a placeholder: untrusted text
// can echo the request.
func errorCode(code string) string {
	plain := func(r rune) bool { return r == '_' || 'a' <= r && r <= 'z' }
	if code == "" || len(code) > 40 || strings.ContainsFunc(code, func(r rune) bool { return !plain(r) }) {
		return "an unknown error"
	}
	return code
}
