package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"sallyport/action"
)

func (h *house) version() int64 {
	h.Helper()
	return must(h.db.PolicyVersion(h.ctx, h.org.ID))(h)
}

// moves checks by how much a change moves the version, and that it is written
// down as often. The kind and subject are those of its newest event.
func (h *house) moves(what string, by int, kind, subject string, change func()) {
	h.Helper()
	version, events := h.version(), h.history(action.PolicyEventFilter{})
	change()
	if got := h.version() - version; got != int64(by) {
		h.Errorf("%s: the version moved by %d, want %d", what, got, by)
	}
	now := h.history(action.PolicyEventFilter{})
	if len(now)-len(events) != by {
		h.Fatalf("%s: %d events, want %d", what, len(now)-len(events), by)
	}
	if by > 0 && (now[0].Kind != kind || now[0].Subject != subject) {
		h.Errorf("%s: the event is of %s %q, want %s %q", what, now[0].Kind, now[0].Subject, kind, subject)
	}
}

// history is the newest page of it.
func (h *house) history(f action.PolicyEventFilter) []action.PolicyEvent {
	h.Helper()
	f.Organization, f.Limit = h.org.ID, 500
	return must(h.db.PolicyEvents(h.ctx, f))(h).Items
}

// tells checks what the newest event says; empty texts are not looked at.
func (h *house) tells(by, before, after string) {
	h.Helper()
	e := h.history(action.PolicyEventFilter{})[0]
	if e.By != by || before != "" && string(e.Before) != before || after != "" && string(e.After) != after {
		h.Errorf("the event is by %s, from %s to %s;\nwant by %s, from %s to %s", e.By, e.Before, e.After, by, before, after)
	}
}

func (h *house) capability() action.Capability {
	return action.Capability{Organization: h.org.ID, Group: "developer", Provider: "github", Level: action.LevelWrite, GrantedBy: "alice"}
}

func (h *house) put(c action.Capability) action.Capability {
	h.Helper()
	return must(h.db.PutCapability(h.ctx, c))(h)
}

func (h *house) capabilities(group string) []action.Capability {
	h.Helper()
	return must(h.db.ListCapabilities(h.ctx, h.org.ID, group))(h)
}

func ptr[T any](v T) *T { return &v }

// long is a name that is one byte too long.
func long(n int) string { return strings.Repeat("x", n+1) }

var capabilityStories = map[string]func(*house){
	"a capability is stored as granted, with author and time": func(h *house) {
		h.equal(h.capabilities(""), []action.Capability{}, "what groups start with")
		c := h.capability()
		c.AllowedActions, c.DeniedActions, c.Gate = []string{"b", "a"}, []string{"merge_pr"}, "Security"
		c.Rate, c.ExpiresAt = &action.Rate{Calls: 5, Seconds: 60}, ptr(h.now.Add(time.Hour))
		got := h.put(c)
		if d := got.GrantedAt.Sub(h.now); d < -time.Minute || d > time.Minute {
			h.Errorf("granted %s from now", d)
		}
		c.GrantedAt = got.GrantedAt
		h.equal(got, c, "the capability")
		h.equal(h.capabilities("developer"), []action.Capability{c}, "the list")
		h.equal(h.capabilities("other"), []action.Capability{}, "the list of another group")
		h.equal(must(h.db.ListCapabilities(h.ctx, newHouse(h.T, h.db).org.ID, ""))(h), []action.Capability{}, "that of another organization")
	},
	"a group is created whole or not at all": func(h *house) {
		c := h.capability()
		c.Organization, c.Group = "", ""
		other := c
		other.Provider = "connector:none"
		create := func(list ...action.Capability) ([]action.Capability, error) {
			return h.db.CreateGroup(h.ctx, h.org.ID, "ops", list)
		}
		h.moves("a source that does not exist", 0, "", "", func() {
			_, err := create(c, other)
			h.refused(err, action.ErrNotFound, "connector_not_found")
		})
		other.Provider = "slack"
		h.moves("two capabilities", 2, action.EventCapability, "ops/slack", func() {
			h.equal(must(create(c, other))(h), h.capabilities("ops"), "the group")
		})
		h.moves("the same group", 0, "", "", func() {
			_, err := create(c)
			h.equal(h.refused(err, action.ErrConflict, "group_exists").Field, "/group", "field")
		})
		for _, provider := range []string{c.Provider, "slack"} {
			h.ok(h.db.DeleteCapability(h.ctx, h.org.ID, "ops", provider, "bob"))
		}
		h.equal(must(create(c))(h), h.capabilities("ops"), "a group whose capabilities were deleted")
	},
	"capabilities are in order": func(h *house) {
		for _, name := range []string{"b/y", "a/z", "b/x"} {
			c := h.capability()
			c.Group, c.Provider, _ = strings.Cut(name, "/")
			h.put(c)
		}
		var got []string
		for _, c := range h.capabilities("") {
			got = append(got, c.Group+"/"+c.Provider)
		}
		h.equal(got, []string{"a/z", "b/x", "b/y"}, "the order")
		h.equal(len(h.capabilities("b")), 2, "those of a group")
	},
	"no actions is not all actions": func(h *house) {
		c := h.capability()
		for _, allowed := range [][]string{nil, {}, {"x"}, {}, nil} {
			c.AllowedActions = allowed
			h.moves(fmt.Sprintf("allowed %#v", allowed), 1, action.EventCapability, "developer/github", func() { h.equal(h.put(c).AllowedActions, allowed, "answer") })
			h.equal(h.capabilities("")[0].AllowedActions, allowed, "stored")
		}
		c.DeniedActions = []string{} // says as much as nil
		h.moves("an empty list of denied actions", 0, "", "", func() { h.put(c) })
	},
	"an equal value changes nothing": func(h *house) {
		c := h.capability()
		h.moves("the first", 1, action.EventCapability, "developer/github", func() { c = h.put(c) })
		h.tells("alice", "null", "")
		again := c
		again.GrantedBy, again.GrantedAt = "bob", time.Time{}
		h.moves("the same by another", 0, "", "", func() { h.equal(h.put(again), c, "the capability") })
		for name, change := range map[string]func(*action.Capability){
			"level":          func(c *action.Capability) { c.Level = action.LevelRead },
			"allowed":        func(c *action.Capability) { c.AllowedActions = []string{"x"} },
			"denied":         func(c *action.Capability) { c.DeniedActions = []string{"x"} },
			"gate":           func(c *action.Capability) { c.Gate = "Other" },
			"rate":           func(c *action.Capability) { c.Rate = &action.Rate{Calls: 1, Seconds: 2} },
			"window":         func(c *action.Capability) { c.Rate = &action.Rate{Calls: 1, Seconds: 3} },
			"expiry":         func(c *action.Capability) { c.ExpiresAt = ptr(h.now.Add(time.Hour)) },
			"another expiry": func(c *action.Capability) { c.ExpiresAt = ptr(h.now.Add(2 * time.Hour)) },
		} {
			other := c
			change(&other)
			other.GrantedBy = "bob"
			h.moves(name, 1, action.EventCapability, "developer/github", func() { h.equal(h.put(other).GrantedBy, "bob", "granted by") })
			h.put(c)
		}
	},
	"a revoked capability is gone at once, and may be granted again": func(h *house) {
		c := h.put(h.capability())
		was := string(must(json.Marshal(c))(h))
		h.moves("the revocation", 1, action.EventCapability, "developer/github", func() {
			h.ok(h.db.DeleteCapability(h.ctx, h.org.ID, "developer", "github", "bob"))
		})
		h.tells("bob", was, "null")
		h.equal(h.capabilities(""), []action.Capability{}, "what is left")
		h.moves("a second revocation", 0, "", "", func() {
			h.refused(h.db.DeleteCapability(h.ctx, h.org.ID, "developer", "github", "bob"), action.ErrNotFound, "capability_not_found")
		})
		h.moves("the same grant", 1, action.EventCapability, "developer/github", func() { h.put(h.capability()) })
		h.tells("alice", "null", "")
		h.equal(len(h.capabilities("")), 1, "capabilities")
		h.refused(h.db.DeleteCapability(h.ctx, newHouse(h.T, h.db).org.ID, "developer", "github", "bob"), action.ErrNotFound, "capability_not_found")
	},
	"an invalid capability is refused": func(h *house) {
		for name, row := range map[string]struct {
			change func(*action.Capability)
			field  string
		}{
			"unknown level":         {func(c *action.Capability) { c.Level = 4 }, "/level"},
			"negative level":        {func(c *action.Capability) { c.Level = -1 }, "/level"},
			"no gate":               {func(c *action.Capability) { c.Level = action.LevelProduction }, "/required_gate"},
			"a gate of nothing":     {func(c *action.Capability) { c.Gate = "a\x00b" }, "/required_gate"},
			"no group":              {func(c *action.Capability) { c.Group = "" }, "/group"},
			"any group":             {func(c *action.Capability) { c.Group = "*" }, "/group"},
			"a long group":          {func(c *action.Capability) { c.Group = long(200) }, "/group"},
			"a group of lines":      {func(c *action.Capability) { c.Group = "a\nb" }, "/group"},
			"a turned group":        {func(c *action.Capability) { c.Group = "a\u202eb" }, "/group"},
			"no provider":           {func(c *action.Capability) { c.Provider = "" }, "/provider"},
			"some providers":        {func(c *action.Capability) { c.Provider = "git*" }, "/provider"},
			"any action":            {func(c *action.Capability) { c.AllowedActions = []string{"x", "*"} }, "/allowed_actions/1"},
			"an empty action":       {func(c *action.Capability) { c.DeniedActions = []string{""} }, "/denied_actions/0"},
			"a long action":         {func(c *action.Capability) { c.DeniedActions = []string{long(128)} }, "/denied_actions/0"},
			"an action of lines":    {func(c *action.Capability) { c.AllowedActions = []string{"a\tb"} }, "/allowed_actions/0"},
			"too many actions":      {func(c *action.Capability) { c.AllowedActions = make([]string, 1001) }, "/allowed_actions"},
			"no calls":              {func(c *action.Capability) { c.Rate = &action.Rate{Seconds: 1} }, "/rate/calls"},
			"no window":             {func(c *action.Capability) { c.Rate = &action.Rate{Calls: 1} }, "/rate/seconds"},
			"more than a day":       {func(c *action.Capability) { c.Rate = &action.Rate{Calls: 1, Seconds: 86_401} }, "/rate/seconds"},
			"an expiry in the past": {func(c *action.Capability) { c.ExpiresAt = ptr(h.now.Add(-time.Second)) }, "/expires_at"},
		} {
			c := h.capability()
			row.change(&c)
			_, err := h.db.PutCapability(h.ctx, c)
			if e := h.refused(err, action.ErrInvalid, "invalid"); e.Field != row.field {
				h.Errorf("%s: field %s, want %s", name, e.Field, row.field)
			}
		}
		c := h.capability()
		c.Provider = "connector:" + newID()
		_, err := h.db.PutCapability(h.ctx, c)
		h.refused(err, action.ErrNotFound, "connector_not_found")
		foreign := newHouse(h.T, h.db).connector("code", "https://mcp.example.com/mcp")
		c.Provider = foreign.Source()
		_, err = h.db.PutCapability(h.ctx, c)
		h.refused(err, action.ErrNotFound, "connector_not_found")
		h.equal([]any{h.version(), len(h.capabilities("")), len(h.history(action.PolicyEventFilter{}))}, []any{h.org.PolicyVersion, 0, 0}, "version, capabilities, events")
	},
	"production is granted with its gate": func(h *house) {
		c := h.capability()
		c.Level, c.Gate = action.LevelProduction, "Security"
		h.equal(h.put(c).Level, action.LevelProduction, "level")
	},
}

func (h *house) gate() action.GateApproval {
	return action.GateApproval{Organization: h.org.ID, Group: "developer", Task: "T-1", Gate: "Security", ApprovedBy: "alice"}
}

func (h *house) open(a action.GateApproval) action.GateApproval {
	h.Helper()
	return must(h.db.ApproveGate(h.ctx, a))(h)
}

func (h *house) gates(group, task string) (ids []string) {
	h.Helper()
	for _, g := range must(h.db.ListGates(h.ctx, h.org.ID, group, task))(h) {
		ids = append(ids, g.ID)
	}
	return ids
}

var gateStories = map[string]func(*house){
	"a gate approval is stored as approved": func(h *house) {
		a := h.gate()
		a.Actions, a.ExpiresAt = []string{"github:merge_pr", "github:*"}, ptr(h.now.Add(time.Hour))
		var got action.GateApproval
		version := h.version()
		got = h.open(a)
		h.equal(h.version(), version+1, "version")
		h.tells("alice", "null", string(must(json.Marshal(got))(h)))
		h.equal(h.history(action.PolicyEventFilter{Kind: action.EventGate})[0].Subject, got.ID, "subject")
		if d := got.ApprovedAt.Sub(h.now); got.ID == "" || d < -time.Minute || d > time.Minute {
			h.Errorf("id %q, approved %s from now", got.ID, d)
		}
		a.ID, a.ApprovedAt = got.ID, got.ApprovedAt
		h.equal(got, a, "the approval")
		h.equal(must(h.db.ListGates(h.ctx, h.org.ID, "", ""))(h), []action.GateApproval{a}, "the list")
		plain := h.open(h.gate())
		h.equal(plain.Actions, []string(nil), "actions of one for all")
		if plain.ExpiresAt == nil || plain.ExpiresAt.Sub(plain.ApprovedAt) != 30*24*time.Hour {
			h.Errorf("approved at %s until %v", plain.ApprovedAt, plain.ExpiresAt)
		}
	},
	"approvals are found by group and task, newest first": func(h *house) {
		var ids []string
		for _, name := range []string{"a/1", "b/1", "a/2"} {
			g := h.gate()
			g.Group, g.Task, _ = strings.Cut(name, "/")
			ids = append([]string{h.open(g).ID}, ids...)
		}
		h.equal(h.gates("", ""), ids, "all")
		h.equal(h.gates("a", ""), []string{ids[0], ids[2]}, "those of a group")
		h.equal(h.gates("", "1"), []string{ids[1], ids[2]}, "those of a task")
		h.equal(h.gates("a", "1"), []string{ids[2]}, "those of both")
		h.equal(h.gates("c", ""), []string(nil), "those of none")
	},
	"a gate approval is revoked once": func(h *house) {
		a := h.open(h.gate())
		h.moves("the revocation", 1, action.EventGate, a.ID, func() { h.ok(h.db.RevokeGate(h.ctx, h.org.ID, a.ID, "bob")) })
		first := must(h.db.ListGates(h.ctx, h.org.ID, "", ""))(h)[0]
		h.tells("bob", string(must(json.Marshal(a))(h)), string(must(json.Marshal(first))(h)))
		if first.RevokedAt == nil {
			h.Fatal("not revoked")
		}
		h.moves("a second time", 0, "", "", func() { h.ok(h.db.RevokeGate(h.ctx, h.org.ID, a.ID, "bob")) })
		h.equal(must(h.db.ListGates(h.ctx, h.org.ID, "", ""))(h)[0], first, "the approval")
		h.refused(h.db.RevokeGate(h.ctx, newHouse(h.T, h.db).org.ID, a.ID, "bob"), action.ErrNotFound, "gate_not_found")
		h.refused(h.db.RevokeGate(h.ctx, h.org.ID, newID(), "bob"), action.ErrNotFound, "gate_not_found")
	},
	"an invalid gate approval is refused": func(h *house) {
		for name, row := range map[string]struct {
			change func(*action.GateApproval)
			field  string
			code   string
		}{
			"no group":              {func(a *action.GateApproval) { a.Group = "" }, "/group", "invalid"},
			"any task":              {func(a *action.GateApproval) { a.Task = "*" }, "/task", "invalid"},
			"no task":               {func(a *action.GateApproval) { a.Task = "" }, "/task", "invalid"},
			"no gate":               {func(a *action.GateApproval) { a.Gate = "" }, "/gate", "invalid"},
			"a gate of lines":       {func(a *action.GateApproval) { a.Gate = "a\r\nb" }, "/gate", "invalid"},
			"an expiry in the past": {func(a *action.GateApproval) { a.ExpiresAt = ptr(h.now.Add(-time.Second)) }, "/expires_at", "invalid"},
			"for nothing":           {func(a *action.GateApproval) { a.Actions = []string{} }, "/actions", "invalid"},
			"for everything":        {func(a *action.GateApproval) { a.Actions = []string{"*"} }, "/actions/0", "invalid_field"},
			"a wildcard inside":     {func(a *action.GateApproval) { a.Actions = []string{"a:x", "a:x*"} }, "/actions/1", "invalid_key"},
			"any source":            {func(a *action.GateApproval) { a.Actions = []string{"*:x"} }, "/actions/0", "invalid_key"},
			"no key":                {func(a *action.GateApproval) { a.Actions = []string{"merge"} }, "/actions/0", "invalid_key"},
			"a key of lines":        {func(a *action.GateApproval) { a.Actions = []string{"a:x\n"} }, "/actions/0", "invalid"},
			"a long key":            {func(a *action.GateApproval) { a.Actions = []string{"a:" + long(128)} }, "/actions/0", "invalid"},
			"too many":              {func(a *action.GateApproval) { a.Actions = make([]string, 1001) }, "/actions", "invalid"},
		} {
			a := h.gate()
			row.change(&a)
			_, err := h.db.ApproveGate(h.ctx, a)
			if e := h.refused(err, action.ErrInvalid, row.code); e.Field != row.field {
				h.Errorf("%s: field %s, want %s", name, e.Field, row.field)
			}
		}
		a := h.gate()
		a.Actions = []string{"connector:" + newID() + ":x"}
		_, err := h.db.ApproveGate(h.ctx, a)
		h.refused(err, action.ErrNotFound, "connector_not_found")
		h.equal([]any{h.version(), len(h.gates("", ""))}, []any{h.org.PolicyVersion, 0}, "version and approvals")
	},
}

func (h *house) quota(key string, per action.QuotaScope, calls int) action.Quota {
	h.Helper()
	return action.Quota{
		Organization: h.org.ID, Key: must(action.ParseKey(key))(h), Per: per, Rate: action.Rate{Calls: calls, Seconds: 60}, UpdatedBy: "alice",
	}
}

var quotaStories = map[string]func(*house){
	"quotas are set, changed and unset": func(h *house) {
		h.equal(must(h.db.ListQuotas(h.ctx, h.org.ID))(h), []action.Quota{}, "quotas at first")
		all, one, same := h.quota("*", action.PerOrganization, 9), h.quota("linear:*", action.PerGroup, 5), h.quota("linear:*", action.PerSession, 1)
		for _, q := range []action.Quota{same, one, all} {
			h.moves("a quota", 1, action.EventQuota, q.Key.String(), func() { h.ok(h.db.SetQuota(h.ctx, q)) })
			h.tells("alice", "null", string(must(json.Marshal(q))(h)))
		}
		h.equal(must(h.db.ListQuotas(h.ctx, h.org.ID))(h), []action.Quota{all, one, same}, "quotas")
		again := one
		again.UpdatedBy = "bob"
		h.moves("the same by another", 0, "", "", func() { h.ok(h.db.SetQuota(h.ctx, again)) })
		was := string(must(json.Marshal(one))(h))
		for _, change := range []func(){func() { one.Calls = 6 }, func() { one.Seconds = 61 }} {
			change()
			h.moves("another rate", 1, action.EventQuota, "linear:*", func() { h.ok(h.db.SetQuota(h.ctx, one)) })
			h.tells("alice", was, string(must(json.Marshal(one))(h)))
			was = string(must(json.Marshal(one))(h))
		}
		h.moves("its end", 1, action.EventQuota, "linear:*", func() { h.ok(h.db.UnsetQuota(h.ctx, h.org.ID, one.Key, one.Per, "bob")) })
		h.tells("bob", was, "null")
		h.equal(must(h.db.ListQuotas(h.ctx, h.org.ID))(h), []action.Quota{all, same}, "what is left")
		h.refused(h.db.UnsetQuota(h.ctx, h.org.ID, one.Key, one.Per, "bob"), action.ErrNotFound, "quota_not_found")
		h.refused(h.db.UnsetQuota(h.ctx, newHouse(h.T, h.db).org.ID, all.Key, all.Per, "bob"), action.ErrNotFound, "quota_not_found")
	},
	"an invalid quota is refused": func(h *house) {
		for name, row := range map[string]struct {
			change func(*action.Quota)
			field  string
			code   string
		}{
			"unknown scope":     {func(q *action.Quota) { q.Per = "hour" }, "/per", "invalid"},
			"no calls":          {func(q *action.Quota) { q.Calls = 0 }, "/calls", "invalid"},
			"no window":         {func(q *action.Quota) { q.Seconds = 0 }, "/seconds", "invalid"},
			"more than a day":   {func(q *action.Quota) { q.Seconds = 86_401 }, "/seconds", "invalid"},
			"no key":            {func(q *action.Quota) { q.Key = action.Key{} }, "/key", "invalid_key"},
			"a wildcard inside": {func(q *action.Quota) { q.Key.Action = "x*" }, "/key", "invalid_key"},
			"another key":       {func(q *action.Quota) { q.Key.Action = "a:b" }, "/key", "invalid"},
			"a key of lines":    {func(q *action.Quota) { q.Key.Source = "a\nb" }, "/key", "invalid"},
		} {
			q := h.quota("linear:create_issue", action.PerSession, 1)
			row.change(&q)
			if e := h.refused(h.db.SetQuota(h.ctx, q), action.ErrInvalid, row.code); e.Field != row.field {
				h.Errorf("%s: field %s, want %s", name, e.Field, row.field)
			}
		}
		h.refused(h.db.SetQuota(h.ctx, h.quota("connector:"+newID()+":*", action.PerSession, 1)), action.ErrNotFound, "connector_not_found")
		h.equal([]any{h.version(), len(must(h.db.ListQuotas(h.ctx, h.org.ID))(h))}, []any{h.org.PolicyVersion, 0}, "version and quotas")
	},
}

// groupOf is the group that a new session gets.
func (h *house) groupOf(s action.Session) string {
	h.Helper()
	s.Organization, s.CreatedBy = h.org.ID, "member"
	made := must(h.db.CreateSession(h.ctx, s))(h)
	h.equal(must(h.db.Session(h.ctx, made.ID))(h).Group, made.Group, "the stored group")
	return made.Group
}

var settingsStories = map[string]func(*house){
	"sessions that are created without a group get the default group": func(h *house) {
		settings := action.DefaultSettings()
		settings.DefaultGroup = "developer"
		h.moves("a group without a capability", 0, "", "", func() {
			e := h.refused(h.db.SetSettings(h.ctx, h.org.ID, settings, "alice"), action.ErrInvalid, "default_group_unknown")
			h.equal(e.Field, "/default_group", "field")
		})
		h.put(h.capability())
		h.equal(h.groupOf(action.Session{}), "", "before")
		h.ok(h.db.SetSettings(h.ctx, h.org.ID, settings, "alice"))
		h.equal(h.groupOf(action.Session{}), "developer", "the default group")
		h.equal(h.groupOf(action.Session{Group: "other"}), "other", "its own group")

		a := h.automation("nightly")
		h.equal(h.groupOf(action.Session{Automation: a.ID}), "developer", "that of an automation without a group")
		a.Group = "night"
		h.equal(must(h.db.UpdateAutomation(h.ctx, a, "alice"))(h).Group, "night", "the automation's group")
		h.equal(h.groupOf(action.Session{Automation: a.ID}), "night", "that of an automation with a group")
		h.equal(h.groupOf(action.Session{Automation: a.ID, Group: "other"}), "other", "its own group")

		settings.DefaultGroup = ""
		h.ok(h.db.SetSettings(h.ctx, h.org.ID, settings, "alice"))
		h.equal(h.groupOf(action.Session{}), "", "afterwards")
	},
	"the default group keeps a capability": func(h *house) {
		c := h.capability()
		h.put(c)
		settings := action.Settings{DefaultGroup: c.Group}
		h.ok(h.db.SetSettings(h.ctx, h.org.ID, settings, "alice"))
		h.moves("the end of its only capability", 0, "", "", func() {
			h.refused(h.db.DeleteCapability(h.ctx, h.org.ID, c.Group, c.Provider, "bob"), action.ErrConflict, "default_group_empty")
		})
		other := c
		other.Provider = "slack"
		h.put(other)
		h.ok(h.db.DeleteCapability(h.ctx, h.org.ID, c.Group, c.Provider, "bob"))
		other.Level = action.LevelNone // the last one can be reduced, but not removed
		h.put(other)
		h.refused(h.db.DeleteCapability(h.ctx, h.org.ID, c.Group, "slack", "bob"), action.ErrConflict, "default_group_empty")
		h.ok(h.db.SetSettings(h.ctx, h.org.ID, action.Settings{}, "alice"))
		h.ok(h.db.DeleteCapability(h.ctx, h.org.ID, c.Group, "slack", "bob"))
	},
	"an organization without settings has the defaults": func(h *house) {
		h.equal(must(h.db.Settings(h.ctx, h.org.ID))(h), action.DefaultSettings(), "settings")
		_, err := h.db.Settings(h.ctx, newID())
		h.refused(err, action.ErrNotFound, "organization_not_found")
	},
	"history records settings": func(h *house) {
		set := func(s action.Settings) func() { return func() { h.ok(h.db.SetSettings(h.ctx, h.org.ID, s, "alice")) } }
		h.moves("the defaults", 0, "", "", set(action.DefaultSettings()))
		for _, s := range []action.Settings{{SelfApproval: false, DenialLimit: 3}, {SelfApproval: false, DenialLimit: 0}, {SelfApproval: true, DenialLimit: 0}, {SelfApproval: true, UnverifiedEvents: true}} {
			was := string(must(json.Marshal(must(h.db.Settings(h.ctx, h.org.ID))(h)))(h))
			h.moves(fmt.Sprintf("%+v", s), 1, action.EventSettings, "settings", set(s))
			h.tells("alice", was, string(must(json.Marshal(s))(h)))
			h.moves("the same", 0, "", "", set(s))
			h.equal(must(h.db.Settings(h.ctx, h.org.ID))(h), s, "settings")
			h.equal(must(h.db.UnverifiedEvents(h.ctx, h.org.ID))(h), s.UnverifiedEvents, "whether unverified events start something")
		}
		h.moves("a limit below none", 0, "", "", func() {
			e := h.refused(h.db.SetSettings(h.ctx, h.org.ID, action.Settings{DenialLimit: -1}, "alice"), action.ErrInvalid, "invalid")
			h.equal(e.Field, "/denial_limit", "field")
		})
		h.refused(h.db.SetSettings(h.ctx, newID(), action.Settings{}, "alice"), action.ErrNotFound, "organization_not_found")
		h.equal(must(h.db.Settings(h.ctx, newHouse(h.T, h.db).org.ID))(h), action.DefaultSettings(), "settings of another organization")
	},
}
