package outbound

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"sallyport/internal/guard"
)

// Config is what [New] needs.
type Config struct {
	Guard guard.Config // what may be dialled; loopback only for a base URL that names it

	Timeout     time.Duration // of a request whose context has no deadline; zero: 30 s
	MaxBody     int64         // of an answer; zero: 8 MiB
	MaxWait     time.Duration // what a service asks a request to wait is waited for up to this, and is an error beyond; zero: 5 s
	Attempts    int           // of one request; zero: 3
	PerHost     int           // requests to one host at a time, of all clients; zero: 32
	PerClient   int           // requests of one client at a time; zero: 8
	UserAgent   string        // empty: "sallyport"
	IdleClients int           // clients that are remembered while nobody uses them; zero: 1,000

	// Traceparent returns whose trace a request is part of, in the form of W3C.
	// Empty: no trace. Nil: of no request.
	Traceparent func(ctx context.Context) string

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: slog.Default
}

func (c Config) complete() Config {
	orDefault(&c.Timeout, 30*time.Second)
	orDefault(&c.MaxBody, 8<<20)
	orDefault(&c.MaxWait, 5*time.Second)
	orDefault(&c.Attempts, 3)
	orDefault(&c.PerHost, 32)
	orDefault(&c.PerClient, 8)
	orDefault(&c.IdleClients, 1000)
	if c.UserAgent == "" {
		c.UserAgent = "sallyport"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

func orDefault[T int | int64 | time.Duration](value *T, zero T) {
	if *value <= 0 {
		*value = zero
	}
}

// Pool hands out clients. They share connections, and what was learned of the
// services. It is safe for use by several goroutines.
type Pool struct {
	Config

	public, loopback *http.Transport
	lanes            *lanes

	mu    sync.Mutex
	hosts map[string]*host // those in use
}

// New returns a pool.
func New(c Config) *Pool {
	c = c.complete()
	public, loopback := c.Guard, c.Guard
	public.AllowLoopback, loopback.AllowLoopback = false, true
	return &Pool{
		Config: c, public: guard.NewTransport(public), loopback: guard.NewTransport(loopback),
		lanes: newLanes(c.PerClient, c.IdleClients), hosts: map[string]*host{},
	}
}

// Close closes idle connections.
func (p *Pool) Close() {
	p.public.CloseIdleConnections()
	p.loopback.CloseIdleConnections()
}

// Client returns the client for the base URL and whoever's credential it is
// (an integration's id): limits that a service imposes are that one's. Secrets
// are kept out of errors.
func (p *Pool) Client(whose string, base *url.URL, secrets ...string) *Client {
	transport := p.public
	if guard.Loopback(base) {
		transport = p.loopback
	}
	return &Client{
		pool: p, base: base, http: guard.Over(transport, base), host: guard.Host(base),
		lane:    whose + "\x00" + strings.ToLower(base.Scheme) + "\x00" + guard.Host(base),
		secrets: secrets,
	}
}

// Client speaks to one base URL with one credential. It is safe for use by
// several goroutines, and costs little to make.
type Client struct {
	pool       *Pool
	base       *url.URL
	http       *http.Client
	host, lane string // the keys of what it shares
	secrets    []string
}

// Base returns the base URL, which nobody may change.
func (c *Client) Base() *url.URL { return c.base }
