package store_test

import (
	"encoding/json"

	"sallyport/action"
)

// profiled stores a connector with a profile, before its first list.
func (h *house) profiled(p action.Profile, rule action.ReviewRule, preset map[string]action.Mode) action.Connector {
	h.Helper()
	c := action.Connector{
		ID: newID(), Organization: h.org.ID, Name: "Shop", Slug: "shop", URL: "https://mcp.example.com/mcp", Enabled: true, Review: rule,
		Profile: p, PresetModes: preset,
	}
	h.ok(h.db.CreateConnector(h.ctx, c, nil, "alice"))
	return must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
}

// shelf is a list with a tool of each risk, and one that declares to be harmless.
func shelf(version string) map[string]action.ToolVersion {
	m := list(version, "read", "write", "harmless", "destroy")
	for name, risk := range map[string]action.Risk{"read": action.RiskRead, "destroy": action.RiskDanger} {
		v := m[name]
		v.Risk = risk
		m[name] = v
	}
	v := m["harmless"]
	v.Definition = json.RawMessage(`{"annotations":{"destructiveHint":false}}`)
	m["harmless"] = v
	return m
}

// modes are the overrides of a connector's tools, with who set them.
func (h *house) modes(c action.Connector, want map[string]string) {
	h.Helper()
	got := map[string]string{}
	for _, o := range h.rulesNow().Overrides {
		if o.Key.Source == c.Source() && o.Automation == "" {
			got[o.Key.Action] = string(o.Mode) + " by " + o.UpdatedBy
		}
	}
	h.equal(got, want, "the modes of the tools")
}

func (h *house) setModes(c action.Connector, m action.ModeChange) int {
	h.Helper()
	m.Organization, m.Connector, m.By = h.org.ID, c.ID, "bob"
	return must(h.db.SetModes(h.ctx, m))(h)
}

var profileStories = map[string]func(*house){
	"a profile is written as overrides of the first list, once": func(h *house) {
		for p, want := range map[action.Profile]map[string]string{
			"":                       {},
			action.ProfileAsk:        {"destroy": "require_approval by alice"},
			action.ProfileStrict:     {},
			action.ProfileReadOnly:   {"write": "deny by alice", "harmless": "deny by alice"},
			action.ProfileTrustHints: {"destroy": "require_approval by alice", "harmless": "allow by alice"},
		} {
			for _, rule := range []action.ReviewRule{action.ReviewTrust, action.ReviewRequired} {
				h := newHouse(h.T, h.dbs...)
				c := h.profiled(p, rule, nil)
				h.equal(h.sees(c, list("v1")), false, "an empty list is news")
				h.equal(h.sees(c, shelf("v1")), true, "the first list is news")
				h.modes(c, want)
				later := shelf("v2")
				later["late"] = later["destroy"]
				h.sees(c, later)
				h.modes(c, want)
				h.equal(must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h).Profile, p, "the profile")
			}
		}
	},
	"a profile changes no mode that a person set, and loosens no wider rule": func(h *house) {
		c := h.profiled(action.ProfileAsk, action.ReviewTrust, map[string]action.Mode{"write": action.ModeAllow})
		h.ok(h.db.SetOverride(h.ctx, h.override("", c.Source()+":destroy", action.ModeDeny)))
		h.ok(h.db.SetOverride(h.ctx, h.override("", "*", action.ModeRequireApproval)))
		h.sees(c, shelf("v1"))
		h.modes(c, map[string]string{"destroy": "deny by alice"})
		h = newHouse(h.T, h.dbs...)
		c = h.profiled(action.ProfileReadOnly, action.ReviewTrust, nil)
		h.ok(h.db.SetOverride(h.ctx, h.override("", "*", action.ModeAllow)))
		h.sees(c, shelf("v1"))
		h.modes(c, map[string]string{"destroy": "deny by alice", "write": "deny by alice", "harmless": "deny by alice"})
		h = newHouse(h.T, h.dbs...)
		c = h.profiled(action.ProfileReadOnly, action.ReviewTrust, nil)
		h.ok(h.db.SetOverride(h.ctx, h.override("", c.Source()+":*", action.ModeAllow)))
		h.sees(c, shelf("v1"))
		h.modes(c, map[string]string{"*": "allow by alice"})
	},
	"the modes of a preset are preferred to hints": func(h *house) {
		preset := map[string]action.Mode{"de*": action.ModeAllow, "read": action.ModeRequireApproval}
		c := h.profiled(action.ProfileAsk, action.ReviewTrust, preset)
		h.equal(c.PresetModes, preset, "the preset's modes")
		h.sees(c, shelf("v1"))
		h.modes(c, map[string]string{"destroy": "allow by alice", "read": "require_approval by alice"})
	},
	"modes are changed for all tools, by pattern and for those that are denied": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.sees(c, shelf("v1"))
		h.modes(c, map[string]string{})
		h.equal(h.setModes(c, action.ModeChange{Profile: action.ProfileAsk, OnlyDenied: true}), 1, "changed")
		h.modes(c, map[string]string{"destroy": "require_approval by bob"})
		h.equal(h.setModes(c, action.ModeChange{Mode: action.ModeDeny, Tools: []string{"w*", "harmless"}}), 2, "changed")
		h.modes(c, map[string]string{"destroy": "require_approval by bob", "write": "deny by bob", "harmless": "deny by bob"})
		h.equal(must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h).Profile, action.Profile(""), "the profile of all tools")
		before := must(h.db.PolicyVersion(h.ctx, h.org.ID))(h)
		h.equal(h.setModes(c, action.ModeChange{Profile: action.ProfileStrict}), 3, "changed")
		h.modes(c, map[string]string{})
		h.equal(must(h.db.PolicyVersion(h.ctx, h.org.ID))(h) > before, true, "policy moved")
		h.equal(must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h).Profile, action.ProfileStrict, "the profile")
		h.equal(h.setModes(c, action.ModeChange{Mode: action.ModeAllow, OnlyDenied: true, Tools: []string{"write"}}), 0, "changed")
		h.equal(h.setModes(c, action.ModeChange{Profile: action.ProfileStrict}), 0, "changed by a repeat")
		events := must(h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org.ID, By: "bob", Kind: action.EventMode}))(h)
		h.equal(len(events.Items), 6, "recorded changes")
	},
	"a profile that is set before the first list is applied to it": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.equal(h.setModes(c, action.ModeChange{Profile: action.ProfileReadOnly}), 0, "changed")
		c.Name = "Store"
		h.ok(h.db.UpdateConnector(h.ctx, c, nil, "carol")) // read before the change
		h.sees(c, shelf("v1"))
		h.modes(c, map[string]string{"write": "deny by bob", "harmless": "deny by bob"})
		h.equal(must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h).Profile, action.ProfileReadOnly, "the profile")
	},
	"a tool that became milder counts as it was reviewed": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.sees(c, shelf("v1"))
		milder := shelf("v2")
		v := milder["destroy"]
		v.Risk = action.RiskRead
		milder["destroy"] = v
		h.sees(c, milder)
		h.setModes(c, action.ModeChange{Profile: action.ProfileAsk})
		h.modes(c, map[string]string{"destroy": "require_approval by bob"})
	},
	"modes of other organizations and of unknown tools are not changed": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.sees(c, shelf("v1"))
		for _, m := range []action.ModeChange{
			{Profile: action.ProfileAsk, Tools: []string{"destroy", "x*"}}, {Profile: action.ProfileAsk, Mode: action.ModeDeny}, {Profile: "odd"}, {Mode: "odd"}, {},
		} {
			m.Organization, m.Connector, m.By = h.org.ID, c.ID, "bob"
			if _, err := h.db.SetModes(h.ctx, m); err == nil {
				h.Errorf("%+v was accepted", m)
			}
		}
		other := must(h.db.EnsureOrganization(h.ctx, "other", "Other"))(h)
		_, err := h.db.SetModes(h.ctx, action.ModeChange{Organization: other.ID, Connector: c.ID, Profile: action.ProfileAsk, By: "eve"})
		h.refused(err, action.ErrNotFound, "connector_not_found")
		h.modes(c, map[string]string{})
	},
}
