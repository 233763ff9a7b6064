package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"sallyport/internal/guard"
)

// Config says which server a [Source] speaks to, and how.
type Config struct {
	ID  string // the source id, "connector:<uuid>"; required
	URL string // required

	// Secret returns the credential and the host, with its port if any, that
	// it was set for. It is asked for every request. Nil: there is none.
	Secret func(ctx context.Context) (value, host string, err error)
	Header string // that carries the credential; empty: Authorization
	Prefix string // before the credential, such as "Bearer "

	Guard   guard.Config // what may be dialled; zero: public addresses only
	Version string       // of the gateway, told to the server; empty: "dev"

	ConnectTimeout time.Duration // of the handshake; zero: 10 s
	MaxAnswer      int64         // bytes of one answer; zero: 16 MiB
	MaxListing     int64         // bytes of all pages of a list; zero: 32 MiB
	MaxTools       int           // in a list, the rest is left out; zero: 2,000
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
	if reserved(c.Header) {
		return c, nil, fmt.Errorf("connector: the header %.100q cannot carry a credential", c.Header)
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
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, u, nil
}

// reserved reports whether a header is one that the protocol or HTTP itself
// needs, or none at all.
func reserved(header string) bool {
	name := textproto.CanonicalMIMEHeaderKey(header)
	switch name {
	case "Host", "Connection", "Transfer-Encoding", "Content-Length", "Content-Type", "Content-Encoding",
		"Accept", "Accept-Encoding", "Trailer", "Te", "Upgrade", "Keep-Alive", "Expect", "Last-Event-Id",
		// net/http takes it as leave to send a request twice.
		"Idempotency-Key", "X-Idempotency-Key":
		return true
	}
	r := http.Request{Header: http.Header{}}
	r.Header.Set(header, "x")
	return strings.HasPrefix(name, "Mcp-") || strings.ContainsAny(header, " \t\r\n:") || header != strings.TrimSpace(header)
}
