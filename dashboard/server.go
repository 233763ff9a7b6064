package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/guard"
	"sallyport/internal/redact"
	"sallyport/internal/token"
)

// Server serves the API and the page. It is safe for concurrent use.
type Server struct {
	Config
	public         *url.URL
	hosts          map[string]bool
	roles          map[string]api.Access
	API            huma.API // describes and serves the operations
	statistics     *statisticsCache
	linkLimiter    *rateLimiter // of new links, by person
	attemptLimiter *rateLimiter // of invalid codes, by client address
	http           http.Handler

	oidc       *oidcProvider // nil: disabled
	hostTokens *hostVerifier // nil: disabled

	mounted map[string]api.Access // who may use each mounted route

	closing   chan struct{} // closed when streams and waits must end
	closeOnce sync.Once
}

// Part adds routes to a server: the JSON API or the web page.
type Part func(s *Server, mux *http.ServeMux) error

// New returns a server with the given parts, the sign-in, /healthz and /readyz.
// The parts together must serve every route that has a role.
func New(c Config, parts ...Part) (*Server, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	public, err := url.Parse(c.PublicURL)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Config: c, public: public, closing: make(chan struct{}),
		hosts: map[string]bool{strings.ToLower(public.Host): true}, roles: roleTable(), mounted: map[string]api.Access{},
		statistics:  &statisticsCache{counting: make(chan struct{}, 1), entries: map[statisticsKey]cachedStatistics{}},
		linkLimiter: newRateLimiter(linkEvery, linksAtOnce), attemptLimiter: newRateLimiter(tryEvery, triesAtOnce),
	}
	if action.Loopback(public.Hostname()) { // its other names cannot be rebound by DNS
		for _, name := range []string{"localhost", "127.0.0.1", "[::1]"} {
			s.hosts[strings.TrimSuffix(name+":"+public.Port(), ":")] = true
		}
	}
	for _, h := range c.AllowedHosts {
		s.hosts[strings.ToLower(h)] = true
	}
	if s.oidc, err = newOIDCProvider(c.OIDC, s.Now); err != nil {
		return nil, err
	}
	if s.hostTokens, err = newHostVerifier(c.UserJWT, s.Now); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	if err := s.mount(mux, parts); err != nil {
		return nil, err
	}
	s.http = s.guard(mux)
	return s, nil
}

// Handler returns the server as one handler.
func (s *Server) Handler() http.Handler { return s.http }

// Close ends event streams and waiting requests, so that the HTTP server can
// shut down. It may be called more than once.
func (s *Server) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

// Done is closed when event streams and waits must end.
func (s *Server) Done() <-chan struct{} { return s.closing }

// Now returns the current time in UTC.
func (s *Server) Now() time.Time { return s.Config.Now().UTC() }

// Hint notifies the other parts of the gateway of a change.
func (s *Server) Hint(kind action.HintKind, organization, session string) {
	s.Hints.Publish(action.Hint{Kind: kind, Organization: organization, Session: session})
}

// UntilClosing returns a context that ends with ctx or when the server closes.
func (s *Server) UntilClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.closing:
			cancel(action.ErrCallerGone)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-done }
}

// Config configures the server. A field is required unless its comment says what
// zero means.
type Config struct {
	Gate  Gate
	Hints action.Hints
	// Decide returns the decision on a call, as the Gate makes it.
	Decide func(ctx context.Context, s *action.Session, a *action.Action, params json.RawMessage, current bool) (action.Decision, error)

	// The rows.
	People       People
	Sessions     Sessions
	Calls        Calls
	Policy       Policy
	Sources      Sources
	Inbound      Inbound
	Models       Models
	Workspaces   Workspaces
	Repositories Repositories

	Connectors  Connectors
	Connections Connections
	Providers   []api.Provider // not nil; may be empty
	Files       Files
	Tokens      *token.Signer
	Vault       action.Vault
	JSON        *redact.JSON

	EventProviders []api.EventProvider // empty, but not nil: none
	Times          Times

	// Snapshot returns what a session may do, with the whole catalog. A session
	// without an ID stands for all sessions of its group and task.
	Snapshot func(ctx context.Context, s *action.Session) (action.Snapshot, error)
	// AgentTools returns the names of the gateway's own MCP tools that a session
	// lists, so that its prompt names no others. Nil: none.
	AgentTools func(s *action.Session) []string
	// Outages returns the sources of an organization that cannot be reached.
	// Optional.
	Outages func(organization string) []action.Outage
	// Used is called on each use of a session's token and must not block. Nil:
	// not called.
	Used func(s *action.Session)
	// Withdrew publishes a hint for each pending call that ended with its session
	// or connector.
	Withdrew func(calls []action.Invocation)
	// RequestGrant checks and stores a session's request for a grant, and
	// publishes a policy hint that refreshes open inboxes.
	RequestGrant func(ctx context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error)
	// SealSecret seals the value of a secret for its row.
	SealSecret func(organization, key string, value []byte) ([]byte, error)
	// Rotate reseals everything with a new master key, or with the one that the
	// operator configured, and records by whom. Only organizations that may rotate
	// the key succeed.
	Rotate func(ctx context.Context, organization, by string) (api.Rotated, error)
	// VerifyAudit verifies an organization's audit chain, whose key only the store
	// has. Last is a head that was kept outside, or nil.
	VerifyAudit func(ctx context.Context, organization string, last *action.AuditHead) (action.AuditReport, error)
	// TestNotify sends a test notification through a channel and returns the
	// response; ErrNotFound.
	TestNotify func(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyTestResult, error)

	// Guard restricts the URLs that people configure for deliveries. Zero: no
	// private addresses.
	Guard guard.Config

	// PublicURL is where people reach the page: scheme and host, no path.
	// Every link is built from it and nothing else.
	PublicURL string
	// MCPURL is the MCP endpoint given to agents; empty: PublicURL + "/mcp".
	MCPURL string
	// AllowedHosts are additional accepted Host headers, with or without a port.
	// Empty: the public host only.
	AllowedHosts []string
	// Version of the program, shown on the page; empty: not shown.
	Version string
	// Presets are well-known MCP servers in display order; may be empty.
	Presets []api.Preset

	// Ready returns an error while calls cannot be served; nil: always ready.
	Ready func() error
	// SessionTTL is the lifetime of a session created without ttl; zero: 30 days.
	SessionTTL time.Duration
	// SeenEvery is the interval at which waiting callers of pending calls are
	// recorded; zero: 10 s.
	SeenEvery time.Duration
	// RunLife bounds a run that is claimed over the API; zero: 48 hours.
	RunLife time.Duration
	// OIDC configures sign-in with an OpenID provider; nil: disabled.
	OIDC *OIDC
	// UserJWT configures tokens of a host application; nil: disabled.
	UserJWT *UserJWT
	// LoginIdle ends a login after inactivity; zero: 8 hours. LoginLife ends any
	// login; zero: 7 days.
	LoginIdle, LoginLife time.Duration
	// KeepAlive is the interval of keep-alive comments on an event stream, at which
	// its credential is checked again; zero: 15 s.
	KeepAlive time.Duration
	Now       func() time.Time // nil: time.Now
	Log       *slog.Logger
}

// Limits of what the page and the API accept.
const (
	maxBody     = 1 << 20          // of a request
	MaxWait     = 10 * time.Minute // of ?wait=
	linkLife    = 10 * time.Minute // of a login link
	touchEvery  = time.Minute      // resolution of a login's SeenAt
	EventBuffer = 64               // live events buffered for one slow client
)

func (c *Config) fill() error {
	for name, missing := range map[string]bool{
		"Gate": c.Gate == nil, "Decide": c.Decide == nil, "Hints": c.Hints == nil, "People": c.People == nil, "Sessions": c.Sessions == nil, "Calls": c.Calls == nil,
		"Policy": c.Policy == nil, "Sources": c.Sources == nil, "Inbound": c.Inbound == nil,
		"Connectors": c.Connectors == nil, "Connections": c.Connections == nil, "Providers": c.Providers == nil, "Files": c.Files == nil,
		"Tokens": c.Tokens == nil, "Vault": c.Vault == nil, "JSON": c.JSON == nil, "Withdrew": c.Withdrew == nil, "Snapshot": c.Snapshot == nil, "RequestGrant": c.RequestGrant == nil,
		"SealSecret": c.SealSecret == nil, "Rotate": c.Rotate == nil, "VerifyAudit": c.VerifyAudit == nil, "TestNotify": c.TestNotify == nil,
		"EventProviders": c.EventProviders == nil, "Times": c.Times == nil, "Log": c.Log == nil,
	} {
		if missing {
			return fmt.Errorf("dashboard: Config.%s is required", name)
		}
	}
	if err := errors.Join(c.OIDC.check(), c.UserJWT.check()); err != nil {
		return err
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return errors.New("dashboard: Config.PublicURL must be scheme and host alone, such as https://gate.example.com")
	}
	c.PublicURL = u.Scheme + "://" + strings.ToLower(u.Host)
	c.MCPURL = cmp.Or(c.MCPURL, c.PublicURL+"/mcp")
	c.SessionTTL = cmp.Or(c.SessionTTL, 30*24*time.Hour)
	c.SeenEvery = cmp.Or(c.SeenEvery, 10*time.Second)
	c.RunLife = cmp.Or(c.RunLife, 48*time.Hour)
	c.LoginIdle = cmp.Or(c.LoginIdle, 8*time.Hour)
	c.LoginLife = cmp.Or(c.LoginLife, 7*24*time.Hour)
	c.KeepAlive = cmp.Or(c.KeepAlive, 15*time.Second)
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
