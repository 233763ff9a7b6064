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
	// Header holds the credential, among others.
	Header http.Header
	Body   []byte // nil: none
	// Repeatable: sent twice it does no more than once. Only such a request is
	// sent again after it may have been received.
	Repeatable bool
	// Serial: no other such request of the same client is under way meanwhile,
	// as services want that limit writes.
	Serial bool
	// NoRedirect: an answer that leads elsewhere is handed out as it is. For what
	// was allowed for this one place alone.
	NoRedirect bool
	// Limited reports whether an answer means that the service did nothing and
	// wants fewer requests, and for how long; zero: it does not say. Nil: 429
	// does, with Retry-After.
	Limited func(*Response) (wait time.Duration, limited bool)
}

// Response is an answer, its body whole.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Path joins segments to a path in which none of them can become two, or a way
// up: each is escaped, and "." and ".." are too. [Client.Do] refuses those all
// the same, and empty ones, since some servers undo escapes first.
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
