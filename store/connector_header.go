package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/redact"
)

const maxHeaders = 10

// checkHeaders refuses headers that HTTP or MCP need for themselves, and those
// that would show a credential. One that was sent already does not keep people
// from turning its connector off.
func (r *connectorRow) checkHeaders(others []connectorRow) error {
	headers := r.Headers.v
	if len(headers) > maxHeaders {
		return invalid("/headers", fmt.Sprintf("At most %d headers are sent along; leave some out.", maxHeaders))
	}
	before := map[string]string{}
	if i := slices.IndexFunc(others, func(o connectorRow) bool { return o.ID == r.ID }); i >= 0 {
		before = others[i].Headers.v
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field, value := "/headers/"+strings.ReplaceAll(name, "~", "~0"), headers[name]
		there, known := before[name]
		switch {
		case !action.HeaderName(name):
			return invalid("/headers", fmt.Sprintf("%.100q cannot be the name of a header: letters, digits and dashes, at most 100 of them.", name))
		case seen[strings.ToLower(name)]:
			return invalid(field, "Two headers have this name, but for upper and lower case; keep one.")
		case r.takesHeader(name):
			return invalid(field, "The gateway sets this header itself; leave it out. A credential belongs into a secret that the connector names.")
		case !action.HeaderValue(value):
			return invalid(field, "The value of a header is a line of 1 to 1024 printable ASCII characters.")
		case (!known || there != value) && showsCredential(name, value):
			return invalid(field, "This header holds what looks like a credential, which everyone who sees the connector would read. "+
				"Leave it out, keep the value with sallyport secret set, and name that secret in the connector.")
		}
		seen[strings.ToLower(name)] = true
	}
	return nil
}

// checkHeader refuses a header that cannot carry the secret.
func (r *connectorRow) checkHeader() error {
	if name := string(r.Header); name != "" && (!action.HeaderName(name) || action.ReservedHeader(name)) {
		return invalid("/header", "This header cannot carry a secret; name an HTTP header that is not the protocol's, such as X-Api-Key.")
	}
	if !action.PlainText(string(r.Prefix)) {
		return invalid("/prefix", "What stands before a secret is printable ASCII, such as \"Bearer \".")
	}
	return nil
}

// takesHeader reports whether the gateway sets the header, or must not pass it.
func (r *connectorRow) takesHeader(name string) bool {
	return action.ReservedHeader(name) || strings.EqualFold(name, "Authorization") || strings.EqualFold(name, string(r.Header))
}

// showsCredential judges a value by itself, and by what it is called.
func showsCredential(name, value string) bool {
	raw, err := json.Marshal(map[string]string{name: value})
	return err != nil || string(redact.JSON{}.Redact(raw, nil)) != string(raw)
}
