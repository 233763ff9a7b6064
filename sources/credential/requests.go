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

// maxAnswer bounds responses of authorization servers.
const maxAnswer = 64 << 10

// oauthClient sends requests on behalf of one connector: its URL is the only
// one that an admin chose, all others are untrusted.
type oauthClient struct {
	*OAuth
	server *url.URL
}

func (o *OAuth) clientFor(server string) (oauthClient, error) {
	u, err := guard.CheckURL(server)
	return oauthClient{o, u}, err
}

// response is a response with its body read.
type response struct {
	status int
	header http.Header
	body   []byte
}

// checkEndpoint parses a URL that a server named. It must use https unless the
// connector does not, and can be on loopback only if the connector is.
func (r oauthClient) checkEndpoint(raw, what string) (*url.URL, error) {
	u, err := guard.CheckURL(raw)
	var why *action.Error
	switch {
	case errors.As(err, &why):
		return nil, discoveryError("The %s that the server names cannot be used. %s", what, why.Message)
	case guard.Loopback(u) && !guard.Loopback(r.server):
		return nil, discoveryError("The %s that the server names is on loopback, which the gateway does not connect to for it.", what)
	case u.Scheme != "https" && (r.server.Scheme == "https" || !guard.Loopback(u) && guard.Host(u) != guard.Host(r.server)):
		return nil, discoveryError("The %s that the server names does not use https. Its operator must enable https.", what)
	}
	return u, nil
}

func discoveryError(format string, args ...any) *action.Error {
	return action.Errorf(action.ErrUnavailable, codeDiscovery, format, args...)
}

// get requests a public document.
func (r oauthClient) get(ctx context.Context, raw, what string) (*response, error) {
	return r.send(ctx, http.MethodGet, raw, what, nil, http.Header{"Accept": {"application/json"}})
}

// post sends JSON or a form. It follows no redirect, which would forward the
// body and its secrets.
func (r oauthClient) post(ctx context.Context, raw, what, kind string, body io.Reader, header http.Header) (*response, error) {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", kind)
	if header.Get("Accept") == "" {
		header.Set("Accept", "application/json")
	}
	return r.send(ctx, http.MethodPost, raw, what, body, header)
}

func (r oauthClient) send(ctx context.Context, method, raw, what string, body io.Reader, header http.Header) (*response, error) {
	u, err := r.checkEndpoint(raw, what)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, r.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, discoveryError("The %s that the server names cannot be used.", what)
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
		return nil, connectionError(ctx, u, err)
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return &response{status: resp.StatusCode, header: resp.Header}, nil
	}
	whole, err := io.ReadAll(guard.LimitBody(resp.Body, maxAnswer))
	if err != nil {
		return nil, connectionError(ctx, u, err)
	}
	return &response{status: resp.StatusCode, header: resp.Header, body: whole}, nil
}

// getDocument fetches JSON into v. found is false if there is none: a 4xx
// response, or one that is not a JSON object, such as a catch-all page.
func (r oauthClient) getDocument(ctx context.Context, raw, what string, v any) (found bool, err error) {
	a, err := r.get(ctx, raw, what)
	switch {
	case err != nil:
		return false, err
	case a.status >= 500 || a.status == http.StatusTooManyRequests:
		return false, action.Errorf(action.ErrUnavailable, codeDiscovery, "The %s is currently unavailable (%d). Retry later.", what, a.status)
	case a.status != http.StatusOK:
		return false, nil
	}
	return json.Unmarshal(a.body, v) == nil, nil
}

// Error codes that package sources does not define.
const (
	codeDiscovery = "oauth_discovery"    // the OAuth metadata of a server cannot be used
	codeClient    = "oauth_client"       // the client is unknown or cannot be used
	codeMoved     = "oauth_issuer_moved" // the server names another authorization server than before
	codeFlow      = "oauth_flow"         // the sign-in cannot be completed
)

// signInRequired returns an error that asks a person to act, after the reason.
func signInRequired(c *action.Connector, why string) *action.Error {
	if c.OAuth.Kind == action.OAuthClient {
		return action.Errorf(action.ErrUnavailable, sources.FaultReconnect, "%s An owner or admin must check the OAuth settings of %q.", why, c.Name)
	}
	return action.Errorf(action.ErrUnavailable, sources.FaultReconnect,
		"%s An owner or admin must sign in to %q on the connector's page.", why, c.Name)
}

// connectionError says why a request got no response.
func connectionError(ctx context.Context, u *url.URL, err error) error {
	var shown *action.Error
	var dns *net.DNSError
	e := &action.Error{Kind: action.ErrUnavailable, Code: sources.FaultUnreachable, Err: withoutURL(err)}
	switch {
	case errors.As(err, &shown) && shown.Code == "address_blocked":
		e.Code, e.Message = sources.FaultBlocked, shown.Message
	case errors.As(err, &shown):
		e.Code, e.Message = codeDiscovery, shown.Message
	case errors.As(err, &dns):
		e.Code, e.Message = sources.FaultDNS, "The name does not resolve. Check the authorization server in the server's metadata."
	case ctx.Err() != nil:
		e.Code, e.Message = sources.FaultTimeout, "It did not answer in time. Retry later."
	default:
		e.Message = "The connection failed, or is not secure. Retry later."
	}
	e.Message = "The sign-in request to " + sources.Printable(u.Host, 100) + " failed. " + e.Message
	return e
}

// withoutURL removes the URL from an error: its query can contain a key.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// errorCode returns a valid OAuth error code, or a placeholder: untrusted text
// can echo the request.
func errorCode(code string) string {
	plain := func(r rune) bool { return r == '_' || 'a' <= r && r <= 'z' }
	if code == "" || len(code) > 40 || strings.ContainsFunc(code, func(r rune) bool { return !plain(r) }) {
		return "an unknown error"
	}
	return code
}
