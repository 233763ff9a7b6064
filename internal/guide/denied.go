package guide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

// maxDeniedActions is how many denied actions one page names.
const maxDeniedActions = 200

// DeniedActions lists the actions that policy denies, by source and reason, page by
// page. It names them and nothing else: their descriptions and params are not the
// session's business. The source is an ID or name; empty: all. The snapshot is
// reduced to the page.
func DeniedActions(snap *action.Snapshot, source, cursor string) (Guide, error) {
	g := Guide{Title: "What is denied"}
	if source != "" {
		if err := keepProvider(snap, source); err != nil {
			return g, err
		}
		g.Source = snap.Capabilities[0].Provider
	}
	snap.Denied()
	if err := snap.Page(cursor, maxDeniedActions); err != nil {
		return g, err
	}
	var b strings.Builder
	b.WriteString("# What is denied\n\n")
	if snap.Total == 0 {
		b.WriteString("Policy denies no action.\n")
	} else {
		b.WriteString("These actions cannot be called, and a grant does not lift a denial. If the work needs one, tell your user that an admin of the gateway can change the policy.\n")
	}
	for i := range snap.Capabilities {
		p := &snap.Capabilities[i]
		fmt.Fprintf(&b, "\n## %s\n\nSource %s.\n\n", tableCell(Line(cmp.Or(p.Name, p.Provider), 80)), inlineCode(p.Provider))
		var reasons []string
		names := map[string][]string{}
		for _, a := range p.Actions {
			if names[a.Reason] == nil {
				reasons = append(reasons, a.Reason)
			}
			names[a.Reason] = append(names[a.Reason], inlineCode(a.Action))
		}
		for _, reason := range reasons {
			fmt.Fprintf(&b, "- %s: %s\n", strings.Join(names[reason], ", "), tableCell(Line(reason, 300)))
		}
	}
	if g.Next = snap.NextCursor; g.Next != "" {
		b.WriteString("\n## More\n" + nextHint(g.Source, g.Next, "denied"))
	}
	g.Markdown = b.String()
	return g, nil
}

// keepProvider reduces the snapshot to one provider.
func keepProvider(snap *action.Snapshot, name string) error {
	var all []*source
	for _, p := range snap.Capabilities {
		all = append(all, &source{id: p.Provider, name: p.Name})
	}
	found, err := findSource(all, name)
	if err != nil {
		return err
	}
	snap.Capabilities = slices.DeleteFunc(snap.Capabilities, func(p action.ProviderAbility) bool { return p.Provider != found.id })
	return nil
}
