package sentry

import (
	"encoding/json"
	"strconv"
	"strings"

	"sallyport/sources"
)

// summary returns a function that formats the line an approver reads first: the
// action, the issue, and the listed params. External text is quoted, so that it
// cannot pass for the gateway's own.
func summary(verb string, names ...string) func(json.RawMessage) string {
	return func(params json.RawMessage) string {
		var t target
		var all map[string]json.RawMessage
		if json.Unmarshal(params, &all) != nil || json.Unmarshal(params, &t) != nil {
			return verb + " something at Sentry"
		}
		line := verb + " Sentry issues"
		if t.Issue != "" {
			line = verb + " Sentry issue " + quoteID(t.Issue)
		}
		if t.Organization != "" {
			line += " of " + quoteID(t.Organization)
		}
		var parts []string
		for _, name := range names {
			if v, ok := all[name]; ok {
				parts = append(parts, name+" "+formatParam(v))
			}
		}
		if len(parts) == 0 {
			return line
		}
		return line + ": " + strings.Join(parts, ", ")
	}
}

// formatParam formats the value of a param.
func formatParam(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return strconv.Quote(sources.Printable(text, 200))
	}
	return sources.Printable(string(raw), 500)
}

// quoteID returns an ID or a slug, quoted unless it has the form of one.
func quoteID(id string) string {
	if sources.ValidID(id) != id || strings.Contains(id, ":") {
		return strconv.Quote(sources.Printable(id, 200))
	}
	return id
}
