package outbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
)

// Config is what [New] needs.
type Config struct {
	Guard guard.Config // what may be dialled; loopback only for a base URL that names it

	Timeout     time.Duration // of one attempt; zero: 30 s
	MaxBody     int64         // of an answer; zero: 8 MiB
	MaxWait     time.Duration // a wait that a service asks for is waited for up to this, and is an error beyond; zero: 5 s
	Attempts    int           // of one request; zero: 3
	PerHost     int           // requests to one host at a time, of all clients; zero: 32
	PerClient   int           // requests of one client at a time; zero: 8
	UserAgent   string        // empty: "sallyport"
	IdleClients int           // clients that are kept while nobody uses them; zero: 1,000

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: slog.Default
}

// Pool hands out clients. They share connections, and what was learned of
// hosts. It is safe for use by several goroutines.
type Pool struct {
	Config
}

// New returns a pool.
func New(c Config) *Pool {
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 8 << 20
	}
	return &Pool{Config: c}
}

// Close closes idle connections.
func (p *Pool) Close() {}

// Client returns the client for the base URL and whoever's credential it is
// (an integration's id): limits that a service imposes are that one's. Secrets
// are kept out of errors.
func (p *Pool) Client(whose string, base *url.URL, secrets ...string) *Client {
	return &Client{pool: p, base: base, secrets: secrets}
}

// Client speaks to one base URL with one credential.
type Client struct {
	pool    *Pool
	base    *url.URL
	secrets []string
}

// Base returns the base URL, which nobody may change.
func (c *Client) Base() *url.URL { return c.base }

// Do sends a request and returns the answer, whatever its status. Errors are
// [*action.Error]s: ErrUnavailable when the service did nothing (code
// "upstream_rate_limited" with RetryAfter where it wants to be left alone),
// ErrOutcomeUnknown when it may have.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	ctx, stop := context.WithTimeout(ctx, c.pool.Timeout)
	defer stop()
	u := *c.base
	raw := strings.TrimSuffix(c.base.String(), "/") + r.Path
	full, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	u = *full
	u.RawQuery = r.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	client := guard.Client(c.pool.Guard, c.base)
	if r.NoRedirect {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		var shown *action.Error
		if errors.As(err, &shown) {
			return nil, shown
		}
		return nil, fmt.Errorf("%w: %w", action.ErrOutcomeUnknown, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(guard.LimitBody(resp.Body, c.pool.MaxBody))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", action.ErrOutcomeUnknown, err)
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}
