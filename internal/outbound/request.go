package outbound

import (
	"net/http"
	"net/url"
	"time"
)

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
	// Repeatable requests are idempotent. Only they are retried after they can
	// have been received.
	Repeatable bool
	// Serial requests of one client run one at a time, as services that limit
	// writes require.
	Serial bool
	// NoRedirect returns redirects unchanged. For requests that are permitted
	// for one URL only.
	NoRedirect bool
	// Limited reports whether an answer is a rate limit for a request that did
	// nothing, and the delay; zero: unknown. Nil: status 429, with Retry-After.
	Limited func(*Response) (wait time.Duration, limited bool)
}

// Response is an answer with its whole body.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Path joins segments to a path in which none of them can become two, or a
// parent reference: each is escaped, including "." and "..". [Client.Do] still
// rejects those, and empty ones, since some servers unescape first.
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
