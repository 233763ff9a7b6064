package connector

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// Config configures a [Source].
type Config struct {
	ID  string // source ID, "connector:<uuid>"; required
	URL string // required

	// Secret returns the credential and the host, with its port if any, that it
	// was set for. It is called for every request. Nil: there is none.
	Secret func(ctx context.Context) (value, host string, err error)
	Header string // header for the credential; empty: Authorization
	Prefix string // precedes the credential, such as "Bearer "
	// Headers are sent unchanged with every request. They contain no secret.
	Headers map[string]string
	// Refused reports that the server answered 401 or 403 to the secret used,
	// with these challenges. With again, the secret is read again and the
	// request sent once more. If Refused fails, so does the request, with its
	// error. Nil: the request fails.
	Refused func(ctx context.Context, used string, status int, challenges []string) (again bool, err error)

	// MayAsk are the kinds of question that the server can ask callers; empty:
	// none.
	MayAsk []action.AskKind
	// PerAgent gives each agent session a session of its own at the server, as
	// MayAsk does.
	PerAgent bool

	// Traceparent returns the W3C trace context of a request, which is sent in
	// the header and in _meta. Empty: no trace. Nil: never.
	Traceparent func(ctx context.Context) string

	Guard   guard.Config // restricts outbound connections; zero: public addresses only
	Version string       // of the gateway, sent to the server; empty: "dev"

	ConnectTimeout time.Duration // of the handshake; zero: 10 s
	MaxAnswer      int64         // bytes of one answer; zero: 16 MiB
	MaxListing     int64         // bytes of all pages of a list; zero: 32 MiB
	MaxTools       int           // in a list, further tools are dropped; zero: 2,000
	IdleAgent      time.Duration // idle timeout of an agent's own session; zero: 10 min
	TripAfter      int           // consecutive failures that open the circuit; zero: 5
	Backoff        time.Duration // first pause after a failure, which doubles; zero: 1 s
	Log            *slog.Logger  // bodies are never logged; nil: slog.Default
}

func (c Config) complete() (Config, *url.URL, error) {
	if c.ID == "" {
		return c, nil, errors.New("connector: Config.ID is required")
	}
	u, err := guard.CheckURL(c.URL)
	if err != nil {
		return c, nil, err
	}
	if c.Header == "" {
		c.Header = "Authorization"
	}
	if err := c.checkHeaders(); err != nil {
		return c, nil, err
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	if c.MaxAnswer <= 0 {
		c.MaxAnswer = 16 << 20
	}
	if c.MaxListing <= 0 {
		c.MaxListing = 32 << 20
	}
	if c.MaxTools <= 0 {
		c.MaxTools = 2_000
	}
	if c.IdleAgent <= 0 {
		c.IdleAgent = 10 * time.Minute
	}
	if c.TripAfter <= 0 {
		c.TripAfter = 5
	}
	if c.Backoff <= 0 {
		c.Backoff = time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, u, nil
}

// checkHeaders refuses headers that no connector can have.
func (c *Config) checkHeaders() error {
	err := action.CheckHeaders(c.Header, c.Prefix, c.Headers)
	if err == nil {
		return nil
	}
	fault := *action.Public(err)
	fault.Code = sources.FaultConfig
	return &fault
}
