package credential

import "net/url"

// Within tells whether a server is of a resource.
func Within(server, resource string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	_, _, ok := resourceCovers(u, resource)
	return ok
}

// Check tells whether a URL that a server names may be used.
func Check(o *OAuth, server, raw string) error {
	r, err := o.clientFor(server)
	if err == nil {
		_, err = r.checkEndpoint(raw, "thing")
	}
	return err
}
