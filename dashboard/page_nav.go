package dashboard

// navGroup is some pages that belong together.
type navGroup struct {
	Title string // empty: of what everybody comes for
	Links []navLink
}

// navLink leads to a page, which names itself in [layoutData].
type navLink struct{ Page, Path, Title string }

// navigation is the pages that the person may see, in their order.
func (p *pages) navigation(me *Principal) []navGroup {
	all := []navGroup{
		{"", []navLink{{"inbox", "/", "Inbox"}, {"activity", "/activity", "Activity"}, {"overview", "/overview", "Overview"}}},
		{"Connect", []navLink{{"connectors", "/connectors", "Connectors"}, {"integrations", "/integrations", "Integrations"}, {"secrets", "/secrets", "Secrets"}}},
		{"Control", []navLink{{"policy", "/policy", "Policy"}, {"grants", "/grants", "Grants"}, {"sessions", "/sessions", "Sessions"}}},
		{"Automate", []navLink{
			{"automations", "/automations", "Automations"},
			{"triggers", "/triggers", "Triggers"},
			{"schedules", "/schedules", "Schedules"},
			{"runs", "/runs", "Runs"},
			{"events", "/events", "Events"},
			{"deliveries", "/deliveries", "Deliveries"},
		}},
		{"Organization", []navLink{{"people", "/people", "People"}, {"audit", "/audit", "Audit log"}, {"settings", "/settings", "Settings"}}},
	}
	var out []navGroup
	for _, g := range all {
		shown := navGroup{Title: g.Title}
		for _, l := range g.Links {
			if p.offers(me, l.Path) {
				shown.Links = append(shown.Links, l)
			}
		}
		if len(shown.Links) > 0 {
			out = append(out, shown)
		}
	}
	return out
}

// offers tells whether there is such a page, and the person may see it.
func (p *pages) offers(me *Principal, path string) bool {
	if path == "/" {
		return true
	}
	return p.mayOpen(me, "GET "+path)
}
