package sources

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sallyport/action"
)

// Config is what a [Catalog] needs.
type Config struct {
	// Connectors returns the organization's connectors, disabled ones too.
	// Required.
	Connectors func(ctx context.Context, organization string) ([]action.Connector, error)
	// Open returns the source of an enabled connector without asking it
	// anything. It is called once for each revision. Required.
	Open func(c action.Connector) (Source, error)
	// Observe is told what an enabled connector lists, by the names at its
	// server: once in the life of a process and then when the list is another,
	// and always before anybody sees one of the tools. While it fails the list
	// counts as one that could not be fetched. Nil: nobody looks.
	Observe func(ctx context.Context, c action.Connector, tools map[string]action.ToolVersion) error
	// Hints is told of lists that changed. Nil: nobody is.
	Hints action.Hints
	// Modules are the services that the gateway itself speaks to. With any, the
	// next four are required.
	Modules []*Module
	// Own is what the gateway itself does for agents. Nil: nothing.
	Platform *Platform
	// Integrations returns an organization's integrations that are not deleted.
	Integrations func(ctx context.Context, organization string) ([]action.Integration, error)
	// Session returns a session by its id, which nobody changes.
	Session func(ctx context.Context, id string) (*action.Session, error)
	// Connect returns what a module needs to speak for an integration.
	Connect func(ctx context.Context, in action.Integration) (*Conn, error)
	// Refused is told that the service did not take the integration's credential,
	// which was token. Again: there is another one by now, to try once.
	CredentialRefused func(ctx context.Context, in action.Integration, token, why string) (again bool, err error)
	// Reserved are names of tools that no source may have.
	Reserved []string
	// ReservedPrompts are names of prompts that no source may have.
	ReservedPrompts []string

	Reload   time.Duration // connectors are read again after it; zero: 1 s
	TTL      time.Duration // a source's list is good for it; zero: 5 min
	Fresh    time.Duration // and this fresh for it; zero: 1 s
	Patience time.Duration // List waits for sources no longer; zero: 3 s
	Timeout  time.Duration // of asking a source; zero: 15 s
	Retry    time.Duration // a source that failed is left alone for it, then for twice as long, up to 2 min, and for as long as it asks, up to 10 min; zero: 5 s
	Call     time.Duration // one call of a module for an integration that names no time; zero: 30 s
	Budget   time.Duration // of checking params against a costly schema; zero: 250 ms

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: slog.Default
}

// How long a source that failed is left alone at most: by itself, and because
// it asks to be.
const (
	maxRetry = 2 * time.Minute
	maxAsked = 10 * time.Minute
)

// askTimeout bounds a call whose source may ask its caller, whose answer takes
// a person's time.
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
