package credential

import (
	"cmp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Bounds of the scopes that a server may ask for.
const (
	maxScopes = 64
	maxScope  = 256 // characters of one
)

// challenge is what a server says in WWW-Authenticate.
type challenge struct {
	metadata string // URL of its resource metadata
	problem  string // error code
	scopes   []string
}

// readChallenge reads the headers; one that is malformed is passed over.
func readChallenge(headers []string) (c challenge) {
	for _, h := range headers {
		list, err := oauthex.ParseWWWAuthenticate([]string{h})
		if err != nil {
			continue
		}
		for _, one := range list {
			if one.Scheme != "bearer" {
				continue
			}
			c.metadata = cmp.Or(c.metadata, one.Params["resource_metadata"])
			c.problem = cmp.Or(c.problem, one.Params["error"])
			if len(c.scopes) == 0 {
				c.scopes = scopes(strings.Fields(one.Params["scope"]))
			}
		}
	}
	return c
}

// scopes returns those of the lists that are formed like scopes, each once, in
// order, and not more than a server may ask for.
func scopes(lists ...[]string) (all []string) {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	for _, list := range lists {
		for _, s := range list {
			if s != "" && len(s) <= maxScope && !strings.ContainsFunc(s, odd) && len(all) < maxScopes && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}
