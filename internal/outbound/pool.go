package outbound

import (
	"cmp"
	"container/list"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sallyport/internal/defaults"
	"sallyport/internal/guard"
)

// Config configures a [Pool]. The tags have the defaults of zero values.
type Config struct {
	Guard guard.Config // restricts outbound connections; loopback only for a base URL on loopback

	Timeout     time.Duration `default:"30s"`     // of a request whose context has no deadline
	MaxBody     int64         `default:"8388608"` // of a response
	MaxWait     time.Duration `default:"5s"`      // maximum delay by the service that a request waits for; it fails if the delay is longer
	Attempts    int           `default:"3"`       // of one request
	PerHost     int           `default:"32"`      // concurrent requests to one host, of all clients
	PerClient   int           `default:"8"`       // concurrent requests of one client
	IdleClients int           `default:"1000"`    // unused clients whose rate limits are kept
	UserAgent   string        // empty: "sallyport"

	// Traceparent returns the W3C trace context of a request, or "" for no trace. Nil
	// disables traces.
	Traceparent func(ctx context.Context) string

	Now func() time.Time `default:"time.Now"`
	Log *slog.Logger     // nil: slog.Default
}

// Pool creates clients, which share connections and rate limits. It is safe for
// concurrent use.
type Pool struct {
	Config

	public, loopback *http.Transport
	limiters         *limiterCache

	mu    sync.Mutex
	hosts map[string]*hostSlots // in use
}

// New returns a pool.
func New(c Config) *Pool {
	defaults.Set(&c)
	c.UserAgent = cmp.Or(c.UserAgent, "sallyport")
	c.Log = cmp.Or(c.Log, slog.Default())
	public, loopback := c.Guard, c.Guard
	public.AllowLoopback, loopback.AllowLoopback = false, true
	return &Pool{
		Config: c, public: guard.NewTransport(public), loopback: guard.NewTransport(loopback),
		limiters: &limiterCache{concurrency: c.PerClient, idle: c.IdleClients, byKey: map[string]*limiter{}, unused: list.New()}, hosts: map[string]*hostSlots{},
	}
}

// Close closes idle connections.
func (p *Pool) Close() {
	p.public.CloseIdleConnections()
	p.loopback.CloseIdleConnections()
}

// Client returns the client for a base URL and the owner of the credential (an
// integration's ID), whose rate limits it shares. Secrets are redacted from
// errors.
func (p *Pool) Client(owner string, base *url.URL, secrets ...string) *Client {
	transport := p.public
	if guard.Loopback(base) {
		transport = p.loopback
	}
	return &Client{
		pool: p, base: base, http: guard.Over(transport, base), hostKey: guard.Host(base),
		limiterKey: owner + "\x00" + strings.ToLower(base.Scheme) + "\x00" + guard.Host(base),
		secrets:    secrets,
	}
}

// Client sends requests to one base URL with one credential. It is safe for
// concurrent use, and cheap to create.
type Client struct {
	pool                *Pool
	base                *url.URL
	http                *http.Client
	hostKey, limiterKey string // keys of shared state
	secrets             []string
}

// Base returns the base URL. Callers must not modify it.
func (c *Client) Base() *url.URL { return c.base }

// Request is one request to a service.
type Request struct {
	Method string
	// Path below the client's base URL, each segment escaped ("/repos/a%2Fb"),
	// without query; see [Path].
	Path  string
	Query url.Values
	// Header includes the credential.
	Header http.Header
	Body   []byte // nil: none
	// Repeatable requests are idempotent. Only they are retried after they may have
	// been received.
	Repeatable bool
	// Serial requests of one client run one at a time, as services that limit
	// writes require.
	Serial bool
	// NoRedirect returns redirects unchanged, for requests that are permitted for one
	// URL only.
	NoRedirect bool
	// Limited reports whether a response is a rate limit, which means that the request
	// had no effect, and the delay; zero if unknown. The default is status 429 with
	// Retry-After.
	Limited func(*Response) (wait time.Duration, limited bool)
}

// Response is a response with its whole body.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Path joins segments to a path. It escapes each segment, including "." and "..", so
// that none can become two segments or a parent reference. [Client.Do] still rejects
// those, and empty segments, because some servers unescape first.
func Path(segments ...string) string {
	path := ""
	for _, s := range segments {
		switch escaped := url.PathEscape(s); escaped {
		case ".":
			path += "/%2E"
		case "..":
			path += "/%2E%2E"
		default:
			path += "/" + escaped
		}
	}
	return path
}
