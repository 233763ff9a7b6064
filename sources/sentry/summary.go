package sentry

import (
	"encoding/json"
	"strconv"
	"strings"

	"sallyport/sources"
)

// summary makes the line that an approver reads first, beside all params: what
// is done to which issue, or to issues, and those params of the names that are
// there. Foreign text is quoted, so that nothing in it passes for ours.
func summary(verb string, names ...string) func(json.RawMessage) string {
	return func(params json.RawMessage) string {
		var t target
		var all map[string]json.RawMessage
		if json.Unmarshal(params, &all) != nil || json.Unmarshal(params, &t) != nil {
			return verb + " something at Sentry"
		}
		line := verb + " Sentry issues"
		if t.Issue != "" {
			line = verb + " Sentry issue " + word(t.Issue)
		}
		if t.Organization != "" {
			line += " of " + word(t.Organization)
		}
		var parts []string
		for _, name := range names {
			if v, ok := all[name]; ok {
				parts = append(parts, name+" "+shown(v))
			}
		}
		if len(parts) == 0 {
			return line
		}
		return line + ": " + strings.Join(parts, ", ")
	}
}

// shown is the value of a param.
func shown(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return strconv.Quote(sources.Printable(text, 200))
	}
	return sources.Printable(string(raw), 500)
}

// word is an id or a slug, quoted where it is none.
func word(id string) string {
	if sources.ValidID(id) != id || strings.Contains(id, ":") {
		return strconv.Quote(sources.Printable(id, 200))
	}
	return id
}
