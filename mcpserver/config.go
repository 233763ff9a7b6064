package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sallyport/action"
	"sallyport/internal/defaults"
)

// Gate is the part of [gate.Gate] that this package uses.
type Gate interface {
	Call(ctx context.Context, c *action.Call) (*action.Outcome, error)
	Wait(ctx context.Context, s *action.Session, id string, w action.Waiting) (*action.Outcome, error)
	Status(ctx context.Context, s *action.Session, id string) (action.Invocation, error)
	Peek(ctx context.Context, s *action.Session, id string, can action.ClientFeatures) (*action.Outcome, error)
	Withdraw(ctx context.Context, s *action.Session, id string) error
	Delivered(o *action.Outcome)
	Available(ctx context.Context, s *action.Session) (list []action.Available, version string, err error)
	Denied(ctx context.Context, s *action.Session) ([]action.DeniedTools, error)
	Reply(ctx context.Context, s *action.Session, round string, replies map[string]action.Reply, final bool) (invocation string, err error)
	Offerings(ctx context.Context, s *action.Session) (*action.Offerings, error)
	Complete(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Answer, error)
	Subscribe(ctx context.Context, s *action.Session, source, uri string, on bool) error
	Admit(ctx context.Context, s *action.Session) error
	// CountRefusal records that a call was refused before it reached the Gate.
	CountRefusal(s *action.Session, kind action.RefusalKind, source, name string)
}

// Resolver looks up a name as agents see it. It also finds names that the session's
// list does not show, because policy denies them or because they are new. An error of
// kind ErrNotFound means that no source has the name.
type Resolver interface {
	// Resolve finds the action of a tool.
	Resolve(ctx context.Context, s *action.Session, tool string) (source, name string, err error)
	// ResolveResource finds the source of a resource or a resource template, and
	// its URI or template at that source. A URI that only matches a template is
	// found, too. If several sources have it, the error is ErrInvalid with the code
	// "ambiguous_resource" and lists the URIs to use instead.
	ResolveResource(ctx context.Context, s *action.Session, uri string) (source, name string, err error)
	// ResolvePrompt finds a prompt.
	ResolvePrompt(ctx context.Context, s *action.Session, name string) (source, prompt string, err error)
}

// Config configures a [Server]. A tag has the value that zero stands for.
type Config struct {
	Gate     Gate     // required
	Resolver Resolver // required
	// Authenticate returns the session of a bearer token; it is called on every
	// request. An error of kind ErrUnauthenticated is answered with 401, of kind
	// ErrForbidden with 403, any other with 503. The server does not modify the
	// session. Required.
	Authenticate func(ctx context.Context, bearer string) (*action.Session, error)
	// Hints notifies the server that lists may have changed. Required.
	Hints action.Hints
	// RequestGrant stores a session's request for a grant, which a person has to
	// approve. Errors: ErrInvalid with the field of t, ErrTooMany, and those of
	// looking up the action. Nil: the tool grant_request is not offered.
	RequestGrant func(ctx context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error)
	// Snapshot returns what the session may do, for the resource
	// sallyport://capabilities. Nil: the resource is not offered.
	Snapshot func(ctx context.Context, s *action.Session) (action.Snapshot, error)

	// Outages returns the sources of an organization that cannot be reached, which
	// agents are told of. Nil: none.
	Outages func(organization string) []action.Outage

	// Trace returns ctx with the W3C trace context that a client sent in _meta.
	// Nil: calls are not traced.
	Trace func(ctx context.Context, traceparent string) context.Context

	// Tools is the tool listing of sessions that do not configure one. Empty: every
	// tool.
	Tools action.ToolListing

	// AllowedHosts are accepted in the Host header, with or without a port; an entry
	// without a port allows every port. Always allowed are the host of PublicURL, the
	// local address of the connection, and names of the loopback interface for
	// connections over it. Empty: only those.
	AllowedHosts []string
	// AllowedOrigins are origins, such as https://app.example.com, whose pages may
	// send requests. The server's own origin and that of PublicURL are always allowed.
	AllowedOrigins []string
	// PublicURL is the URL under which clients reach the gateway. Empty: unknown.
	PublicURL string

	Timing

	// Pickup is how long a result is available after the end of its call, which is
	// reported as the time to live of tasks.
	Pickup time.Duration `default:"15m"`
	// UnattendedPickup is the same in an unattended session.
	UnattendedPickup time.Duration `default:"24h"`
	// DenialHolds is how long a person's denial refuses the same call; agents are told
	// so.
	DenialHolds time.Duration `default:"15m"`
	// SessionKey signs MCP session ids; at least 32 bytes. Instances that share it
	// continue each other's sessions, and their own after a restart. Nil: a random
	// key, so that sessions end with the process.
	SessionKey []byte
	// Peers are the other instances that share the key. Nil: a single instance.
	Peers Peers
	// MaxSessions is how many MCP sessions of one principal stay in memory; the least
	// recently used one is evicted. It also limits the subscriptions/listen that a
	// principal may have open, of which none is evicted.
	MaxSessions int `default:"64"`
	// MaxBody is the largest request in bytes.
	MaxBody int64 `default:"4194304"`
	// Version of the gateway, as reported to clients. Empty: "dev".
	Version string
	// Now is the clock.
	Now func() time.Time `default:"time.Now"`
	// Log receives details that callers must not see.
	Log *slog.Logger `default:"discard"`
}

// Timing is how long calls and sessions of clients may take, as flags of the
// server. Zero means the default.
type Timing struct {
	// PendingAfter is how long a call waits for approval before it is answered
	// "pending", if its client does not support progress.
	PendingAfter time.Duration `default:"45s" help:"Time before a client without progress support gets the answer pending (default: ${default})." placeholder:"D"`
	// UnattendedPendingAfter is the same for clients of unattended sessions that
	// support progress.
	UnattendedPendingAfter time.Duration `default:"10m" help:"Time before an unattended session gets the answer pending (default: ${default})." name:"pending-after-unattended" placeholder:"D"`
	// KeepAliveEvery is the interval of keep-alive comments in idle responses, so that
	// proxies do not close the connection.
	KeepAliveEvery time.Duration `default:"15s" help:"Interval of keep-alive comments on idle streams (default: ${default})." name:"keep-alive" placeholder:"D"`
	// IdleSession is how long an MCP session stays in memory without a request, a
	// call in flight or an event stream. Its id remains valid and restores it.
	IdleSession time.Duration `default:"30m" help:"Time before the memory of an unused MCP session is freed (default: ${default})." placeholder:"D"`
	// SessionLife is how long an MCP session id is valid.
	SessionLife time.Duration `default:"24h" help:"Lifetime of an MCP session (default: ${default})." name:"mcp-session-life" placeholder:"D"`
}

const minSessionKey = 32

// complete checks required fields and sets defaults.
func (c *Config) complete() error {
	switch {
	case c.Gate == nil:
		return errors.New("mcpserver: Config.Gate is required")
	case c.Resolver == nil:
		return errors.New("mcpserver: Config.Resolver is required")
	case c.Authenticate == nil:
		return errors.New("mcpserver: Config.Authenticate is required")
	case c.Hints == nil:
		return errors.New("mcpserver: Config.Hints is required")
	}
	if c.SessionKey == nil {
		c.SessionKey = make([]byte, minSessionKey)
		rand.Read(c.SessionKey) //nolint:errcheck // never fails: it ends the process instead
	}
	if len(c.SessionKey) < minSessionKey {
		return fmt.Errorf("mcpserver: Config.SessionKey has %d bytes; give at least %d random ones", len(c.SessionKey), minSessionKey)
	}
	defaults.Set(c)
	c.Version = cmp.Or(c.Version, "dev")
	return nil
}
