package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/wire"
)

// allowlist holds the accepted hosts and origins. Both checks protect against web
// pages in a browser: the Origin header reveals pages of other sites, and the Host
// header reveals DNS rebinding.
type allowlist struct {
	hosts   map[string]bool // host or host:port, in lower case
	origins map[string]bool
}

func newAllowlist(cfg *Config) (allowlist, error) {
	e := allowlist{hosts: map[string]bool{}, origins: map[string]bool{}}
	for _, h := range cfg.AllowedHosts {
		e.hosts[strings.ToLower(h)] = true
	}
	for _, o := range cfg.AllowedOrigins {
		e.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
	}
	if cfg.PublicURL == "" {
		return e, nil
	}
	u, err := url.Parse(cfg.PublicURL)
	if err != nil || u.Host == "" {
		return e, fmt.Errorf("mcpserver: Config.PublicURL %q is not an absolute URL", cfg.PublicURL)
	}
	e.hosts[strings.ToLower(u.Host)] = true
	e.origins[strings.ToLower(u.Scheme+"://"+u.Host)] = true
	return e, nil
}

// hostAllowed reports whether the Host header names this server.
func (e *allowlist) hostAllowed(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]") // of an IPv6 address
	if e.hosts[host] || e.hosts[name] {
		return true
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch a := local.(type) {
	case *net.UnixAddr:
		return loopbackName(name)
	case *net.TCPAddr:
		// DNS can point any name to this server, but not an address.
		ip := net.ParseIP(name)
		return a.IP.IsLoopback() && loopbackName(name) || ip != nil && ip.Equal(a.IP)
	}
	return false
}

// originAllowed reports whether the request comes from no page or from an allowed
// one. Another port of the same host is another origin.
func (e *allowlist) originAllowed(r *http.Request) bool {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	origin := strings.ToLower(values[0])
	return e.origins[origin] || origin == scheme+strings.ToLower(r.Host)
}

func loopbackName(name string) bool {
	if name == "localhost" {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// authenticate returns the session and the bearer of a request. It returns false if
// it answered the request.
func (s *Server) authenticate(ctx context.Context, w http.ResponseWriter, r *http.Request) (_ *action.Session, bearer string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if token == "" || !strings.EqualFold(scheme, "Bearer") {
		// RFC 6750: no error code for a request without credentials.
		challenge(w, "", "A session token is required: send it as Authorization: Bearer <token>.")
		return nil, "", false
	}
	who, err := s.cfg.Authenticate(ctx, token)
	if err == nil {
		err = who.Live(s.cfg.Now())
	}
	switch {
	case err == nil:
		return who, token, true
	case errors.Is(err, action.ErrUnauthenticated):
		challenge(w, `, error="invalid_token"`, publicText(err, "The session token is not valid; ask for a new one."))
	case errors.Is(err, action.ErrForbidden):
		wire.WriteText(w, http.StatusForbidden, publicText(err, "This credential may not use MCP."))
	default:
		s.cfg.Log.Error("authentication failed", "error", err)
		w.Header().Set("Retry-After", "1")
		wire.WriteText(w, http.StatusServiceUnavailable, "The session token could not be checked just now; nothing was executed for this request. Try again.")
	}
	return nil, "", false
}

// challenge answers 401. Some clients show their user only the header, others only
// the body.
func challenge(w http.ResponseWriter, params, text string) {
	// RFC 6750 allows no other characters, and a quote would end the string.
	description := strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r < ' ', r > '~', r == '\\':
			return ' '
		}
		return r
	}, text)
	w.Header().Set("WWW-Authenticate", `Bearer realm="sallyport"`+params+`, error_description="`+description+`"`)
	wire.WriteText(w, http.StatusUnauthorized, text)
}

// OAuthPaths returns the patterns for [http.ServeMux] of the requests with which
// clients look for an OAuth server after a 401. [RefuseOAuth] answers them.
func OAuthPaths() (paths []string) {
	for _, name := range []string{"oauth-protected-resource", "oauth-authorization-server", "openid-configuration"} {
		paths = append(paths, "/.well-known/"+name, "/.well-known/"+name+"/")
	}
	return append(paths, "/mcp/.well-known/", "/register", "/token", "/authorize")
}

// RefuseOAuth answers that there is no OAuth server, in the form of OAuth's errors:
// clients print the description, or a page in full. The code must not be one on which
// clients drop their credentials and start over.
func RefuseOAuth(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"error":"invalid_request","error_description":"This gateway does not use OAuth: `+
		`send a valid session token in the header Authorization: Bearer <token>, which the command sallyport session create prints."}`+"\n") // the client disconnected
}

// publicText returns the message of an error that may be shown, or otherwise.
func publicText(err error, otherwise string) string {
	var e *action.Error
	if errors.As(err, &e) && e.Message != "" {
		return e.Message
	}
	return otherwise
}

// bodyTimeout bounds the arrival of a body.
const bodyTimeout = time.Minute

// maxPooledBody is the largest buffer that returns to the pool.
const maxPooledBody = 64 << 10

// readBody reads the body into a pooled buffer to its end: only then does net/http
// detect that a client disconnects. It returns a status if it answered the request.
func (s *Server) readBody(x *exchange) (buf *[]byte, status int) {
	buf, _ = s.bodies.Get().(*[]byte)
	if buf == nil {
		b := make([]byte, 0, 4<<10)
		buf = &b
	}
	*buf = (*buf)[:0]
	if x.r.ContentLength > s.cfg.MaxBody {
		return buf, s.tooLarge(x)
	}
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every writer supports deadlines
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	for {
		if len(*buf) == cap(*buf) {
			*buf = append(*buf, 0)[:len(*buf)]
		}
		n, err := x.r.Body.Read((*buf)[len(*buf):cap(*buf)])
		*buf = (*buf)[:len(*buf)+n]
		switch {
		case int64(len(*buf)) > s.cfg.MaxBody:
			return buf, s.tooLarge(x)
		case err == io.EOF:
			return buf, 0
		case err != nil:
			wire.WriteText(x.w, http.StatusBadRequest, "The request body could not be read completely.")
			return buf, http.StatusBadRequest
		}
	}
}

func (s *Server) tooLarge(x *exchange) int {
	x.w.Header().Set("Connection", "close") // do not read the rest of the body
	wire.WriteText(x.w, http.StatusRequestEntityTooLarge, fmt.Sprintf("The request is over the limit of %d bytes.", s.cfg.MaxBody))
	return http.StatusRequestEntityTooLarge
}

// putBody returns a buffer to the pool.
func (s *Server) putBody(buf *[]byte) {
	if buf != nil && cap(*buf) > 0 && cap(*buf) <= maxPooledBody {
		s.bodies.Put(buf)
	}
}
