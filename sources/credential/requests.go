package credential

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

// maxAnswer bounds the answers of authorization servers.
const maxAnswer = 64 << 10

// reach makes requests on behalf of one connector: its URL is the only one
// that an admin chose, all others are of foreign making.
type reach struct {
	*OAuth
	server *url.URL
}

func (o *OAuth) reach(server string) (reach, error) {
	u, err := guard.CheckURL(server)
	return reach{o, u}, err
}

// reply is an answer, its body whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// check parses a URL that a server named. It must be https, but beside a
// connector that is not; and may be loopback only beside one that is.
func (r reach) check(raw, what string) (*url.URL, error) {
	u, err := guard.CheckURL(raw)
	var why *action.Error
	switch {
	case errors.As(err, &why):
		return nil, unusable("The %s that the server names cannot be used. %s", what, why.Message)
	case guard.Loopback(u) && !guard.Loopback(r.server):
		return nil, unusable("The %s that the server names is on loopback, which the gateway does not connect to for it.", what)
	case u.Scheme != "https" && (r.server.Scheme == "https" || !guard.Loopback(u) && guard.Host(u) != guard.Host(r.server)):
		return nil, unusable("The %s that the server names is not https; its operator must use https.", what)
	}
	return u, nil
}

func unusable(format string, args ...any) *action.Error {
	return action.Errorf(action.ErrUnavailable, codeDiscovery, format, args...)
}

// get asks for a public document.
func (r reach) get(ctx context.Context, raw, what string) (*reply, error) {
	return r.send(ctx, http.MethodGet, raw, what, nil, http.Header{"Accept": {"application/json"}})
}

// post sends JSON or a form. No redirect is followed, which would take along
// the body and what is in it.
func (r reach) post(ctx context.Context, raw, what, kind string, body io.Reader, header http.Header) (*reply, error) {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", kind)
	if header.Get("Accept") == "" {
		header.Set("Accept", "application/json")
	}
	return r.send(ctx, http.MethodPost, raw, what, body, header)
}

func (r reach) send(ctx context.Context, method, raw, what string, body io.Reader, header http.Header) (*reply, error) {
	u, err := r.check(raw, what)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, r.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, unusable("The %s that the server names cannot be used.", what)
	}
	req.Header = header
	req.Header.Set("User-Agent", "sallyport")
	client := guard.Client(r.Guard, u)
	defer client.CloseIdleConnections()
	if method != http.MethodGet {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, unreached(ctx, u, err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return &reply{status: resp.StatusCode, header: resp.Header}, nil
	}
	whole, err := io.ReadAll(guard.LimitBody(resp.Body, maxAnswer))
	if err != nil {
		return nil, unreached(ctx, u, err)
	}
	return &reply{status: resp.StatusCode, header: resp.Header, body: whole}, nil
}

// document gets JSON into v. found is false where there is none: an answer of
// 4xx, or one that is no JSON object, such as the page of a site that has one
// for every path.
func (r reach) document(ctx context.Context, raw, what string, v any) (found bool, err error) {
	a, err := r.get(ctx, raw, what)
	switch {
	case err != nil:
		return false, err
	case a.status >= 500 || a.status == http.StatusTooManyRequests:
		return false, action.Errorf(action.ErrUnavailable, codeDiscovery, "The %s cannot be had just now (%d); try again later.", what, a.status)
	case a.status != http.StatusOK:
		return false, nil
	}
	return json.Unmarshal(a.body, v) == nil, nil
}

// The codes of errors that are not sources' own.
const (
	codeDiscovery = "oauth_discovery"    // what servers say of their OAuth cannot be used
	codeClient    = "oauth_client"       // the client is unknown or not usable
	codeMoved     = "oauth_issuer_moved" // the server names another authorization server now
	codeFlow      = "oauth_flow"         // the sign-in cannot be ended
)

// signIn says, after why, that a person must act: nothing else helps.
func signIn(c *action.Connector, why string) *action.Error {
	if c.OAuth.Kind == action.OAuthClient {
		return action.Errorf(action.ErrUnavailable, sources.FaultReconnect, "%s An owner or admin must look at the OAuth settings of %q.", why, c.Name)
	}
	return action.Errorf(action.ErrUnavailable, sources.FaultReconnect,
		"%s An owner or admin must sign in to %q on the connector's page.", why, c.Name)
}

// unreached says why a request had no answer.
func unreached(ctx context.Context, u *url.URL, err error) error {
	var shown *action.Error
	var dns *net.DNSError
	e := &action.Error{Kind: action.ErrUnavailable, Code: sources.FaultUnreachable, Err: bare(err)}
	switch {
	case errors.As(err, &shown) && shown.Code == "address_blocked":
		e.Code, e.Message = sources.FaultBlocked, shown.Message
	case errors.As(err, &shown):
		e.Code, e.Message = codeDiscovery, shown.Message
	case errors.As(err, &dns):
		e.Code, e.Message = sources.FaultDNS, "The name does not resolve; check what the server says of its authorization server."
	case ctx.Err() != nil:
		e.Code, e.Message = sources.FaultTimeout, "It did not answer in time; try again later."
	default:
		e.Message = "Nobody answers there, or not over a secure connection; try again later."
	}
	e.Message = "Asking " + sources.Printable(u.Host, 100) + " about the sign-in failed. " + e.Message
	return e
}

// bare takes the URL out of an error: its query may hold a key.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// errorCode returns an OAuth error code, or what stands for one that is not
// formed like one: foreign text could hold what was sent.
func errorCode(code string) string {
	plain := func(r rune) bool { return r == '_' || 'a' <= r && r <= 'z' }
	if code == "" || len(code) > 40 || strings.ContainsFunc(code, func(r rune) bool { return !plain(r) }) {
		return "an unknown error"
	}
	return code
}
