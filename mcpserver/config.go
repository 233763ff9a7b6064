package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sallyport/action"
)

// Gate is what this package needs of [gate.Gate], whose methods say what
// they promise.
type Gate interface {
	Call(ctx context.Context, c *action.Call) (*action.Outcome, error)
	Wait(ctx context.Context, s *action.Session, id string, w action.Waiting) (*action.Outcome, error)
	Status(ctx context.Context, s *action.Session, id string) (action.Invocation, error)
	Look(ctx context.Context, s *action.Session, id string, can action.ClientFeatures) (*action.Outcome, error)
	Withdraw(ctx context.Context, s *action.Session, id string) error
	Delivered(o *action.Outcome)
	Available(ctx context.Context, s *action.Session) (list []action.Available, version string, err error)
	Reply(ctx context.Context, s *action.Session, round string, replies map[string]action.Reply, final bool) (invocation string, err error)
	Offerings(ctx context.Context, s *action.Session) (*action.Offerings, error)
	Complete(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Answer, error)
	Subscribe(ctx context.Context, s *action.Session, source, uri string, on bool) error
	Admit(ctx context.Context, s *action.Session) error
}

// Resolver finds what is behind a name as agents see it, also one that the
// session's list does not show, because it is denied or because it is new. An
// error of kind ErrNotFound means that no source has it.
type Resolver interface {
	// Resolve finds the action of a tool.
	Resolve(ctx context.Context, s *action.Session, tool string) (source, name string, err error)
	// ResolveResource finds the source of a resource or a resource template,
	// and the URI or the template as it is there. A URI that only fits a
	// template is found too. ErrInvalid with the code "ambiguous_resource" names
	// the forms to use for one that several sources have.
	ResolveResource(ctx context.Context, s *action.Session, uri string) (source, name string, err error)
	// ResolvePrompt finds a prompt.
	ResolvePrompt(ctx context.Context, s *action.Session, name string) (source, prompt string, err error)
}

// Config says how a [Server] works.
type Config struct {
	Gate     Gate     // required
	Resolver Resolver // required
	// Authenticate returns the session whose token bearer is. It is asked on
	// every request. An error of kind ErrUnauthenticated is answered 401, of
	// kind ErrForbidden 403, any other 503. The session may be shared: it is
	// not changed here. Required.
	Authenticate func(ctx context.Context, bearer string) (*action.Session, error)
	// Hints tell when lists may have changed. Required.
	Hints action.Hints
	// RequestGrant writes down a session's wish for a grant, as the tool
	// grant_request has it; only a person makes a grant of it. Errors: ErrInvalid
	// with the field of t, ErrTooMany, and those of finding the action. Nil: there
	// is no such tool.
	RequestGrant func(ctx context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error)
	// Snapshot returns what the session may do, for the resource
	// sallyport://capabilities. Nil: there is no such resource.
	Snapshot func(ctx context.Context, s *action.Session) (action.Snapshot, error)

	// Trace returns ctx as part of the trace that a client named in _meta, in the
	// form of W3C, for a call. Nil: calls are not traced.
	Trace func(ctx context.Context, traceparent string) context.Context

	// Tools is what sessions list that do not say: every tool, or those that find
	// and call the others. Empty: every tool.
	Tools action.ToolListing

	// AllowedHosts may stand in the Host header, with or without a port; an
	// entry without one allows every port. The host of PublicURL is always
	// allowed, the names of the loopback interface when the request came in
	// over it, and the address that the connection was made to. Empty: no more
	// than those.
	AllowedHosts []string
	// AllowedOrigins are the origins, such as https://app.example.com, whose
	// pages may call; the server's own and that of PublicURL always may.
	AllowedOrigins []string
	// PublicURL is where clients reach the gateway. Empty: as they do.
	PublicURL string

	// PendingAfter is how long a held call of a client that cannot be told of
	// progress waits before it is answered "pending". Zero: 45 s.
	PendingAfter time.Duration
	// UnattendedPendingAfter is the same for a client of an unattended session
	// that can. Zero: 10 min.
	UnattendedPendingAfter time.Duration
	// Pickup is how long a result can be picked up after the end of its call, as
	// clients are told of tasks. Zero: 15 min.
	Pickup time.Duration
	// UnattendedPickup is the same in an unattended session. Zero: 24 h.
	UnattendedPickup time.Duration
	// DenialHolds is how long a person's denial refuses the same call, as agents
	// are told. Zero: 15 min.
	DenialHolds time.Duration
	// KeepAliveEvery is how often a silent answer carries a comment, so that
	// nothing on the way takes the connection for dead. Zero: 15 s.
	KeepAliveEvery time.Duration
	// SessionKey signs MCP session ids; at least 32 bytes. Every instance that
	// shares it goes on with the sessions of the others, and of itself before a
	// restart. Nil: a random one, so that sessions end with the process.
	SessionKey []byte
	// SessionLife is how long an MCP session id is good. Zero: 24 h.
	SessionLife time.Duration
	// Peers are the other instances that share the key. Nil: there are none.
	Peers Peers
	// IdleSession is how long an MCP session is remembered without a request,
	// a call in flight or an event stream. It can be used after that too: its
	// id says all that is needed. Zero: 30 min.
	IdleSession time.Duration
	// MaxSessions is how many MCP sessions of one principal are remembered;
	// the one that rested longest makes room. It is also how many
	// subscriptions/listen of the stateless era a principal may have open, of
	// which none makes room. Zero: 64.
	MaxSessions int
	// MaxBody is the largest request in bytes. Zero: 4 MiB.
	MaxBody int64
	// Version of the gateway, told to clients. Empty: "dev".
	Version string
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log receives what callers may not see. Nil: nothing is logged.
	Log *slog.Logger
}

const minSessionKey = 32

// complete checks what is required and fills in the rest.
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
	orElse(&c.SessionLife, 24*time.Hour)
	orElse(&c.PendingAfter, 45*time.Second)
	orElse(&c.UnattendedPendingAfter, 10*time.Minute)
	orElse(&c.Pickup, 15*time.Minute)
	orElse(&c.UnattendedPickup, 24*time.Hour)
	orElse(&c.DenialHolds, 15*time.Minute)
	orElse(&c.KeepAliveEvery, 15*time.Second)
	orElse(&c.IdleSession, 30*time.Minute)
	orElse(&c.MaxSessions, 64)
	orElse(&c.MaxBody, 4<<20)
	orElse(&c.Version, "dev")
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// orElse sets *v to the default where it is zero.
func orElse[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}
