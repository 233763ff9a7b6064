package store_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
)

func (h *house) override(automation, key string, mode action.Mode) action.Override {
	h.Helper()
	return action.Override{Organization: h.org.ID, Automation: automation, Key: must(action.ParseKey(key))(h), Mode: mode, UpdatedBy: "alice"}
}

func (h *house) rulesNow() action.Rules {
	h.Helper()
	return must(h.db.Rules(h.ctx, h.org.ID))(h)
}

var historyStories = map[string]func(*house){
	"history records a mode with its previous one": func(h *house) {
		o := h.override("", "linear:create_issue", action.ModeAllow)
		set := func() { h.ok(h.db.SetOverride(h.ctx, o)) }
		h.moves("a mode", 1, action.EventMode, "linear:create_issue", set)
		h.tells("alice", "null", `{"mode":"allow","updated_by":"alice"}`)
		o.UpdatedBy = "bob"
		h.moves("the same by another", 0, "", "", set)
		o.Mode = action.ModeDeny
		h.moves("another mode", 1, action.EventMode, "linear:create_issue", set)
		h.tells("bob", `{"mode":"allow","updated_by":"alice"}`, `{"mode":"deny","updated_by":"bob"}`)
		h.moves("its end", 1, action.EventMode, "linear:create_issue", func() {
			h.ok(h.db.UnsetOverride(h.ctx, h.org.ID, "", o.Key, "carol"))
		})
		h.tells("carol", `{"mode":"deny","updated_by":"bob"}`, "null")
		h.moves("an end of nothing", 0, "", "", func() {
			h.refused(h.db.UnsetOverride(h.ctx, h.org.ID, "", o.Key, "carol"), action.ErrNotFound, "override_not_found")
		})
		o.Automation = "nightly"
		h.moves("that of an automation", 1, action.EventMode, "automation/nightly linear:create_issue", set)
	},
	"an invalid key is refused": func(h *house) {
		for name, row := range map[string]struct {
			change      func(*action.Override)
			field, code string
		}{
			"unknown mode":        {func(o *action.Override) { o.Mode = "maybe" }, "/mode", "invalid"},
			"a wildcard inside":   {func(o *action.Override) { o.Key.Action = "create_*" }, "/key", "invalid_key"},
			"another key":         {func(o *action.Override) { o.Key.Action = "a:b" }, "/key", "invalid"},
			"a key of lines":      {func(o *action.Override) { o.Key.Action = "a\nb" }, "/key", "invalid"},
			"a long source":       {func(o *action.Override) { o.Key.Source = long(200) }, "/key", "invalid"},
			"automation of lines": {func(o *action.Override) { o.Automation = "a\nb" }, "/automation_id", "invalid"},
		} {
			o := h.override("", "linear:x", action.ModeAllow)
			row.change(&o)
			if e := h.refused(h.db.SetOverride(h.ctx, o), action.ErrInvalid, row.code); e.Field != row.field {
				h.Errorf("%s: field %s, want %s", name, e.Field, row.field)
			}
		}
		h.equal(h.version(), h.org.PolicyVersion, "version")
	},
	"history is read in pages, by kind and by subject": func(h *house) {
		for i := range 5 {
			h.ok(h.db.SetOverride(h.ctx, h.override("", fmt.Sprintf("linear:x%d", i%2), []action.Mode{action.ModeAllow, action.ModeDeny}[i/2%2])))
		}
		h.put(h.capability())
		f := action.PolicyEventFilter{Organization: h.org.ID, Limit: 2}
		var got []string
		for range 4 { // there are three pages
			p := must(h.db.PolicyEvents(h.ctx, f))(h)
			h.equal([]any{p.Total, p.Capped}, []any{6, false}, "total")
			for _, e := range p.Items {
				got = append(got, e.Kind+" "+e.Subject)
			}
			if f.Cursor = p.Next; f.Cursor == "" {
				break
			}
		}
		h.equal(got, []string{"capability developer/github", "mode linear:x0", "mode linear:x1", "mode linear:x0", "mode linear:x1", "mode linear:x0"}, "history")
		h.equal(len(h.history(action.PolicyEventFilter{Kind: action.EventMode})), 5, "changes of modes")
		h.equal(len(h.history(action.PolicyEventFilter{Subject: "linear:x1"})), 2, "changes of a key")
		h.equal(len(h.history(action.PolicyEventFilter{Kind: action.EventCapability, Subject: "linear:x1"})), 0, "changes of both")
		h.equal(len(h.history(action.PolicyEventFilter{By: "alice"})), 6, "changes by alice")
		h.equal(len(h.history(action.PolicyEventFilter{By: "alice", Kind: action.EventMode, From: h.now.Add(-time.Hour), To: h.now.Add(time.Hour)})), 5, "her changes of modes around now")
		h.equal(len(h.history(action.PolicyEventFilter{By: "bob"})), 0, "changes by bob")
		h.equal(len(h.history(action.PolicyEventFilter{From: h.now.Add(time.Hour)})), 0, "changes to come")
		h.equal(len(h.history(action.PolicyEventFilter{To: h.now.Add(-time.Hour)})), 0, "changes long ago")
		h.equal(len(must(h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: newHouse(h.T, h.db).org.ID}))(h).Items), 0, "that of another organization")
		_, err := h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org.ID, Cursor: "x"})
		h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/cursor", "field")
		e := h.history(action.PolicyEventFilter{})[0]
		if d := e.At.Sub(h.now); e.ID == "" || e.Organization != h.org.ID || d < -time.Minute || d > time.Minute {
			h.Errorf("the event %+v, %s from now", e, d)
		}
	},
	"history records connectors created, changed and deleted, but not renamed": func(h *house) {
		var c action.Connector
		created := func() { c = h.connector("code", "https://mcp.example.com/mcp") }
		version := h.version()
		created()
		h.equal(h.version(), version, "the version after a connector came: nothing rested on it")
		h.tells("alice", "null", string(must(json.Marshal(c))(h)))
		update := func() { h.ok(h.db.UpdateConnector(h.ctx, c, nil, "bob")) }
		c.Name = "Renamed"
		h.moves("a new name", 0, "", "", update)
		was := string(must(json.Marshal(must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)))(h))
		c.Risks = map[string]action.Risk{"merge": action.RiskDanger}
		h.moves("a risk", 1, action.EventConnector, c.Source(), update)
		h.tells("bob", was, string(must(json.Marshal(must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)))(h)))
		h.moves("the same", 0, "", "", update)
		h.moves("its end", 1, action.EventConnector, c.Source(), func() { h.ok(h.removed(c, "carol")) })
		h.tells("carol", "", "null")
	},
	"history has the names of secrets, not their values": func(h *house) {
		c := h.connector("code", "https://mcp.example.com/mcp?team=a&sort=b")
		h.secret("linear_token", "mcp.example.com")
		c.Secret, c.Header, c.Prefix = "linear_token", "X-Api-Key", "Key sk_live_abcdef1234567890abcdef12"
		c.Risks = map[string]action.Risk{"set_password": action.RiskDanger}
		h.ok(h.db.UpdateConnector(h.ctx, c, nil, "bob"))
		was := string(h.history(action.PolicyEventFilter{Subject: c.Source()})[0].After)
		want := must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
		want.Prefix = "Key [redacted:32]"
		h.equal(was, asJSON(h, want), "the connector in the history")
		v := h.answer(h.request(terms()).ID)
		v.Note = "Not <so>; with password=hunter22 & --token abcdefgh."
		must(h.db.DenyRequest(h.ctx, v))(h)
		var r action.GrantRequest
		h.ok(json.Unmarshal(h.history(action.PolicyEventFilter{Subject: v.ID})[0].After, &r))
		h.equal(r.DecidedNote, "Not <so>; with password=[redacted:8] & --token [redacted:9]", "the note in the history")
	},
	"history records what is deleted with a connector": func(h *house) {
		c := h.connector("code", "https://mcp.example.com/mcp")
		other := h.connector("hub", "https://mcp.example.com/mcp")
		h.observe(c, "v1", "merge")
		for _, source := range []string{c.Source(), other.Source(), "linear"} {
			h.ok(h.db.SetOverride(h.ctx, h.override("", source+":*", action.ModeAllow)))
			h.ok(h.db.SetQuota(h.ctx, h.quota(source+":*", action.PerSession, 1)))
			for _, group := range []string{"developer", "ops"} {
				k := h.capability()
				k.Group, k.Provider = group, source
				h.put(k)
			}
			h.ok(h.db.DeleteCapability(h.ctx, h.org.ID, "ops", source, "alice"))
		}
		version := h.version()
		before := len(h.history(action.PolicyEventFilter{}))
		h.ok(h.removed(c, "bob"))
		h.equal(h.version(), version+1, "version")
		gone := map[string]int{}
		for _, e := range h.history(action.PolicyEventFilter{})[:len(h.history(action.PolicyEventFilter{}))-before] {
			if string(e.After) != "null" || string(e.Before) == "null" || e.By != "bob" {
				h.Errorf("%s %s by %s: from %s to %s", e.Kind, e.Subject, e.By, e.Before, e.After)
			}
			gone[e.Kind+" "+e.Subject]++
		}
		h.equal(gone, map[string]int{
			"mode " + c.Source() + ":*": 1, "quota " + c.Source() + ":*": 1, "capability developer/" + c.Source(): 1,
			"review " + c.Source(): 1, "connector " + c.Source(): 1,
		}, "what went")
		r := h.rulesNow()
		h.equal([]int{len(r.Overrides), len(r.Quotas), len(r.Capabilities), len(r.Reviewed)}, []int{2, 2, 2, 0}, "what is left")
	},
}

var rulesStories = map[string]func(*house){
	"rules are all of policy at its version": func(h *house) {
		c := h.connector("code", "https://mcp.example.com/mcp")
		h.observe(c, "v1", "merge")
		o := h.override("a", "linear:*", action.ModeDeny)
		h.ok(h.db.SetOverride(h.ctx, o))
		k := h.put(h.capability())
		soon := h.capability()
		soon.Group, soon.ExpiresAt = "z", ptr(time.Now().Add(time.Hour))
		expiring := h.put(soon)
		q := h.quota("linear:*", action.PerGroup, 3)
		h.ok(h.db.SetQuota(h.ctx, q))
		s := action.Settings{DenialLimit: 7}
		h.ok(h.db.SetSettings(h.ctx, h.org.ID, s, "alice"))
		g, late := h.open(h.gate()), h.gate()
		late.ExpiresAt = ptr(time.Now().Add(time.Hour))
		lasting := h.open(late)
		in := h.connected(h.own("T1", "bob"))
		h.equal(h.rulesNow(), action.Rules{
			Version: h.version(), Settings: s, Integrations: []action.Integration{in}, Overrides: []action.Override{o}, Capabilities: []action.Capability{k, expiring},
			Gates: []action.GateApproval{g, lasting}, Quotas: []action.Quota{q},
			Reviewed: map[action.Key]action.ToolHashes{{Source: c.Source(), Action: "merge"}: hashes("v1")},
			Risks:    map[action.Key]action.Risk{{Source: c.Source(), Action: "merge"}: action.RiskWrite},
		}, "the rules")
		other := newHouse(h.T, h.db)
		h.equal(other.rulesNow(), action.Rules{
			Version: other.version(), Settings: action.DefaultSettings(), Overrides: []action.Override{}, Capabilities: []action.Capability{}, Gates: []action.GateApproval{},
			Quotas: []action.Quota{}, Integrations: []action.Integration{}, Reviewed: map[action.Key]action.ToolHashes{}, Risks: map[action.Key]action.Risk{},
		}, "those of another organization")
		_, err := h.db.Rules(h.ctx, newID())
		h.refused(err, action.ErrNotFound, "organization_not_found")
	},
	"rules have no gates that were revoked or are over": func(h *house) {
		revoked, over := h.open(h.gate()), h.gate()
		h.ok(h.db.RevokeGate(h.ctx, h.org.ID, revoked.ID, "alice"))
		over.ExpiresAt = ptr(time.Now().Add(50 * time.Millisecond))
		h.open(over)
		for deadline := time.Now().Add(10 * time.Second); len(h.rulesNow().Gates) > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				h.Fatalf("gates: %+v", h.rulesNow().Gates)
			}
		}
	},
	"rules are of one version, whatever is written meanwhile": func(h *house) {
		// Every change sets a mode, then moves the capability and the quota to
		// the same number in changes of their own: rules of one version never
		// have a later one without the earlier.
		var done atomic.Bool
		var writing sync.WaitGroup
		writing.Go(func() {
			defer done.Store(true)
			for n := 1; n <= 40; n++ {
				c, q := h.capability(), h.quota("linear:*", action.PerSession, n)
				c.Rate = &action.Rate{Calls: n, Seconds: 60}
				if _, err := h.any(n).PutCapability(h.ctx, c); err != nil {
					h.Error(err)
				}
				if err := h.any(n).SetQuota(h.ctx, q); err != nil {
					h.Error(err)
				}
			}
		})
		seen := map[int64]string{}
		for !done.Load() {
			r, err := h.any(1).Rules(h.ctx, h.org.ID)
			h.ok(err)
			calls, quota := 0, 0
			if len(r.Capabilities) > 0 {
				calls = r.Capabilities[0].Rate.Calls
			}
			if len(r.Quotas) > 0 {
				quota = r.Quotas[0].Calls
			}
			if state := fmt.Sprint(calls, " ", quota); seen[r.Version] != "" && seen[r.Version] != state {
				h.Errorf("version %d is %s and %s", r.Version, seen[r.Version], state)
			} else {
				seen[r.Version] = state
			}
			if want := h.org.PolicyVersion + int64(calls+quota); r.Version != want || calls-quota > 1 || calls < quota {
				h.Errorf("version %d has capability %d and quota %d; it would be %d", r.Version, calls, quota, want)
			}
		}
		writing.Wait()
	},
}
