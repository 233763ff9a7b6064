package connector

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

// checkHeaders refuses what nobody could write into a connector: headers that
// belong to HTTP, MCP or the credential, and what is no header.
func (c *Config) checkHeaders() error {
	if !action.HeaderName(c.Header) || action.ReservedHeader(c.Header) {
		return misset("/header", "The header %.100q cannot carry a credential; name one that is not the protocol's, such as X-Api-Key.", c.Header)
	}
	if !action.PlainText(c.Prefix) {
		return misset("/prefix", "What stands before a credential is printable ASCII, such as \"Bearer \".")
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		field, value := "/headers/"+strings.ReplaceAll(name, "~", "~0"), c.Headers[name]
		switch {
		case !action.HeaderName(name):
			return misset("/headers", "%.100q cannot be the name of a header: letters, digits and dashes, at most 100 of them.", name)
		case seen[strings.ToLower(name)]:
			return misset(field, "Two headers have this name, but for upper and lower case; keep one.")
		case action.ReservedHeader(name), strings.EqualFold(name, "Authorization"), strings.EqualFold(name, c.Header):
			return misset(field, "The gateway sets this header itself; leave it out.")
		case !action.HeaderValue(value):
			return misset(field, "The value of a header is a line of 1 to 1024 printable ASCII characters.")
		}
		seen[strings.ToLower(name)] = true
	}
	return nil
}

// misset is a setting that cannot be used.
func misset(field, format string, args ...any) error {
	return &action.Error{Kind: action.ErrInvalid, Code: sources.FaultConfig, Field: field, Message: fmt.Sprintf(format, args...)}
}
