package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/guard"
	"sallyport/internal/redact"
	"sallyport/internal/token"
)

// Config is what the server needs. Every field is required but those whose
// comment says what zero means.
type Config struct {
	Gate  Gate
	Hints action.Hints
	// Decide is as the Gate's.
	Decide func(ctx context.Context, s *action.Session, a *action.Action, params json.RawMessage, current bool) (action.Decision, error)

	// The rows.
	People   People
	Sessions Sessions
	Calls    Calls
	Policy   Policy
	Sources  Sources
	Inbound  Inbound

	Connectors  Connectors
	Connections Connections
	Providers   []api.Provider // empty, but not nil: none
	Files       Files
	Tokens      *token.Signer
	Vault       action.Vault
	JSON        *redact.JSON

	EventProviders []api.EventProvider // empty, but not nil: none
	Times          Times

	// Snapshot says what a session may do, with the whole catalog. A session
	// without an id stands for all of its group and task.
	Snapshot func(ctx context.Context, s *action.Session) (action.Snapshot, error)
	// AgentTools are the names of the gateway's own MCP tools that a session
	// lists, so that its prompt names no others. Nil: it lists none.
	AgentTools func(s *action.Session) []string
	// Used is told of each use of a session's token, and does not block. Nil:
	// nobody wants to know.
	Used func(s *action.Session)
	// Withdrew is told of held calls that ended with their session or connector, and
	// publishes a hint of each.
	Withdrew func(calls []action.Invocation)
	// RequestGrant checks and writes down a session's wish for a grant, and
	// publishes a hint of policy, by which inboxes learn of it.
	RequestGrant func(ctx context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error)
	// SealSecret seals the value of a secret for its row.
	SealSecret func(organization, key string, value []byte) ([]byte, error)
	// Rotate seals everything with a new master key, or with the one that an
	// operator has set; for the owner of an organization that may. It is on
	// record by whom.
	Rotate func(ctx context.Context, organization, by string) (api.Rotated, error)
	// VerifyAudit looks through an organization's chain, whose key is not known
	// here; last is a head that somebody kept, or nil.
	VerifyAudit func(ctx context.Context, organization string, last *action.AuditHead) (action.AuditReport, error)
	// TestNotify sends a test by a channel of an organization, and says what was
	// answered; ErrNotFound.
	TestNotify func(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyAnswer, error)

	// Guard is what may be reached of the URLs that people set for deliveries.
	// Zero: nothing private.
	Guard guard.Config

	// PublicURL is where people reach the page: scheme and host, no path.
	// Every link is built from it and nothing else.
	PublicURL string
	// MCPURL is what agents are told; empty: PublicURL + "/mcp".
	MCPURL string
	// AllowedHosts are further names in a Host header that are answered, with
	// or without a port. Empty: the public host alone.
	AllowedHosts []string
	// Version of the program, which the page names; empty: it does not.
	Version string
	// Presets are known servers, in the order to show them. Empty: none.
	Presets []api.Preset

	// Ready tells whether calls can be served; nil: always.
	Ready func() error
	// SessionTTL is how long a session lives that was minted without ttl;
	// zero: 30 days.
	SessionTTL time.Duration
	// SeenEvery is how often it is noted that callers of held calls still wait;
	// zero: 10 s.
	SeenEvery time.Duration
	// RunLife is how long a run may take that is claimed over the API; zero: 48
	// hours.
	RunLife time.Duration
	// OIDC has people sign in with an OpenID provider; nil: nobody does.
	OIDC *OIDC
	// UserJWT takes tokens of a host application; nil: none.
	UserJWT *UserJWT
	// LoginIdle ends a login that is not used for so long; zero: 8 hours.
	// LoginLife ends each; zero: 7 days.
	LoginIdle, LoginLife time.Duration
	// KeepAlive is the pause between two comments of an event stream, at which
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
	touchEvery  = time.Minute      // how exact a login's SeenAt is
	EventBuffer = 64               // live events that wait for one slow client
)

func (c *Config) fill() error {
	if err := c.complete(); err != nil {
		return err
	}
	if err := errors.Join(c.OIDC.check(), c.UserJWT.check()); err != nil {
		return err
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return errors.New("dashboard: Config.PublicURL must be scheme and host alone, such as https://gate.example.com")
	}
	c.PublicURL = u.Scheme + "://" + strings.ToLower(u.Host)
	if c.MCPURL == "" {
		c.MCPURL = c.PublicURL + "/mcp"
	}
	if c.SessionTTL == 0 {
		c.SessionTTL = 30 * 24 * time.Hour
	}
	if c.SeenEvery == 0 {
		c.SeenEvery = 10 * time.Second
	}
	if c.RunLife == 0 {
		c.RunLife = 48 * time.Hour
	}
	if c.LoginIdle == 0 {
		c.LoginIdle = 8 * time.Hour
	}
	if c.LoginLife == 0 {
		c.LoginLife = 7 * 24 * time.Hour
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = 15 * time.Second
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// complete refuses a configuration that lacks something.
func (c *Config) complete() error {
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
	return nil
}
