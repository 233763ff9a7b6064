package connector

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

// Bounds of headers, as connectors are written with.
const (
	maxHeaderName  = 100   // bytes
	maxHeaderValue = 1_024 // bytes
)

// checkHeaders refuses what nobody could write into a connector: headers that
// belong to HTTP, MCP or the credential, and what is no header.
func (c *Config) checkHeaders() error {
	if !headerName(c.Header) || action.ReservedHeader(c.Header) {
		return misset("/header", "The header %.100q cannot carry a credential; name one that is not the protocol's, such as X-Api-Key.", c.Header)
	}
	if !visible(c.Prefix) {
		return misset("/prefix", "What stands before a credential is printable ASCII, such as \"Bearer \".")
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		field, value := "/headers/"+strings.ReplaceAll(name, "~", "~0"), c.Headers[name]
		switch {
		case !headerName(name):
			return misset("/headers", "%.100q cannot be the name of a header: letters, digits and dashes, at most %d of them.", name, maxHeaderName)
		case seen[strings.ToLower(name)]:
			return misset(field, "Two headers have this name, but for upper and lower case; keep one.")
		case action.ReservedHeader(name), strings.EqualFold(name, "Authorization"), strings.EqualFold(name, c.Header):
			return misset(field, "The gateway sets this header itself; leave it out.")
		case value == "", len(value) > maxHeaderValue, value != strings.TrimSpace(value), !visible(value):
			return misset(field, "The value of a header is a line of 1 to %d printable ASCII characters.", maxHeaderValue)
		}
		seen[strings.ToLower(name)] = true
	}
	return nil
}

// headerName reports whether it is a token, as HTTP calls it.
func headerName(name string) bool {
	return name != "" && len(name) <= maxHeaderName && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// visible reports whether a text consists of visible ASCII and spaces.
func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// misset is a setting that cannot be used.
func misset(field, format string, args ...any) error {
	return &action.Error{Kind: action.ErrInvalid, Code: sources.FaultConfig, Field: field, Message: fmt.Sprintf(format, args...)}
}
