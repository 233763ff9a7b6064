package sources

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sallyport/action"
)

// Config configures a [Catalog].
type Config struct {
	// Connectors returns the organization's connectors, including disabled
	// ones. Required.
	Connectors func(ctx context.Context, organization string) ([]action.Connector, error)
	// Open returns the source of an enabled connector without making a request.
	// It is called once for each revision. Required.
	Open func(c action.Connector) (Source, error)
	// Observe records the tools that an enabled connector lists, by their names
	// at its server: once per process and again whenever the list changes,
	// always before an agent sees any of the tools. While it fails, the list
	// counts as failed to fetch. Nil: not recorded.
	Observe func(ctx context.Context, c action.Connector, tools map[string]action.ToolVersion) error
	// Hints publishes changed lists. Nil: not published.
	Hints action.Hints
	// Modules are the services with built-in support. If there are any, the
	// next four fields are required.
	Modules []*Module
	// Platform has the gateway's own tools. Nil: none.
	Platform *Platform
	// Integrations returns an organization's integrations that are not deleted.
	Integrations func(ctx context.Context, organization string) ([]action.Integration, error)
	// Session returns a session by its ID. Callers do not modify it.
	Session func(ctx context.Context, id string) (*action.Session, error)
	// Connect returns the connection with which a module acts for an
	// integration.
	Connect func(ctx context.Context, in action.Integration) (*Conn, error)
	// CredentialRefused reports that the service refused the integration's
	// credential, which was token. Again: there is a new one to try once.
	CredentialRefused func(ctx context.Context, in action.Integration, token, why string) (again bool, err error)
	// Reserved are tool names that no source may use.
	Reserved []string
	// ReservedPrompts are prompt names that no source may use.
	ReservedPrompts []string

	Reload   time.Duration // how long connectors are cached; zero: 1 s
	TTL      time.Duration // how long a source's list is cached; zero: 5 min
	Fresh    time.Duration // and how long it counts as fresh; zero: 1 s
	Patience time.Duration // how long List waits for sources; zero: 3 s
	Timeout  time.Duration // of one request for a list; zero: 15 s
	Retry    time.Duration // delay before a failed source is retried, doubled after each failure up to 2 min, and up to 10 min if the source asks for it; zero: 5 s
	Call     time.Duration // timeout of a module call if the integration sets none; zero: 30 s
	Budget   time.Duration // of one check against an expensive schema; zero: 250 ms

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: slog.Default
}

// Upper bounds of the delay before a failed source is retried: by default, and
// at the source's request.
const (
	maxRetry = 2 * time.Minute
	maxAsked = 10 * time.Minute
)

// askTimeout bounds a call whose source may ask the caller a question: the
// answer takes a person's time.
const askTimeout = 2 * time.Minute

func (c Config) complete() (Config, error) {
	if c.Connectors == nil || c.Open == nil {
		return c, errors.New("sources: Config.Connectors and Config.Open are required")
	}
	if len(c.Modules) > 0 && (c.Integrations == nil || c.Session == nil || c.Connect == nil || c.CredentialRefused == nil) {
		return c, errors.New("sources: with Config.Modules, Config.Integrations, Session, Connect and Refused are required")
	}
	for _, d := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&c.Reload, time.Second},
		{&c.TTL, 5 * time.Minute},
		{&c.Fresh, time.Second},
		{&c.Patience, 3 * time.Second},
		{&c.Timeout, 15 * time.Second},
		{&c.Retry, 5 * time.Second},
		{&c.Call, 30 * time.Second},
		{&c.Budget, 250 * time.Millisecond},
	} {
		if *d.value <= 0 {
			*d.value = d.zero
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, nil
}
