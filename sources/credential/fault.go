package credential

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

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
