package guide

import (
	"fmt"
	"strings"

	"sallyport/action"
)

// OutageText describes sources that cannot be reached, one line each; empty for
// none. Reasons can quote a server, so they stay on their line.
func OutageText(list []action.Outage) string {
	var b strings.Builder
	for _, o := range list {
		tools := "its tools are missing here"
		if o.Listed {
			tools = "its tools are listed as it last answered, and calls can fail"
		}
		fmt.Fprintf(&b, "- %s cannot be reached since %s; %s. %s\n", Line(o.Name, 60), o.Since.UTC().Format("2006-01-02 15:04 UTC"), tools, Line(o.Reason, 300))
	}
	return b.String()
}

// WithOutages adds the sources that cannot be reached to the guide of a session,
// and says so where the guide of one of them was not found.
func WithOutages(g Guide, err error, source string, list []action.Outage) (Guide, error) {
	if err != nil {
		for i, o := range list {
			if action.Public(err).Code == "source_not_found" && (source == o.Source || strings.EqualFold(source, o.Name)) {
				return g, action.Errorf(action.ErrNotFound, "source_not_found", "%s", strings.TrimSpace(strings.TrimPrefix(OutageText(list[i:i+1]), "- ")))
			}
		}
		return g, err
	}
	if len(list) == 0 || g.Source != "" {
		return g, nil
	}
	section := "\n## Unreachable\n\nTell the user if the task needs one of them: an admin can check it.\n\n" + OutageText(list)
	intro, rest, found := strings.Cut(g.Markdown, "\n## ") // before everything else, so that it is never cut off
	if g.Markdown = intro + section; found {
		g.Markdown += "\n## " + rest
	}
	return g, nil
}
