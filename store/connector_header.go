package store

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/redact"
)

// checkHeaders refuses headers that would show a credential. One that was sent
// already does not keep people from turning its connector off.
func (r *connectorRow) checkHeaders(others []action.Connector) error {
	before := map[string]string{}
	if i := slices.IndexFunc(others, func(o action.Connector) bool { return o.ID == r.ID }); i >= 0 {
		before = others[i].Headers
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		value := r.Headers[name]
		if there, known := before[name]; (!known || there != value) && showsCredential(name, value) {
			return invalid("/headers/"+strings.ReplaceAll(name, "~", "~0"), "This header holds what looks like a credential, which everyone who sees the connector would read. "+
				"Leave it out, store the value as a secret, and name that secret in the connector.")
		}
	}
	return nil
}

// showsCredential judges a value by itself, and by what it is called.
func showsCredential(name, value string) bool {
	raw, err := json.Marshal(map[string]string{name: value})
	return err != nil || string(redact.JSON{}.Redact(raw, nil)) != string(raw)
}
