package store_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"sallyport/action"
)

// hashes are those of the version of a tool. After a + comes its text's.
func hashes(version string) action.ToolHashes {
	behaviour, text, _ := strings.Cut(version, "+")
	return action.ToolHashes{Behaviour: "b " + behaviour, Text: "t " + text}
}

func definition(version string) action.ToolVersion {
	return action.ToolVersion{ToolHashes: hashes(version), Risk: action.RiskWrite, Definition: json.RawMessage(`{"v": "` + version + `"}`)}
}

// list is one of the tools in a version.
func list(version string, tools ...string) map[string]action.ToolVersion {
	m := map[string]action.ToolVersion{}
	for _, tool := range tools {
		m[tool] = definition(version)
	}
	return m
}

// sees observes a list at the connector's revision.
func (h *house) sees(c action.Connector, tools map[string]action.ToolVersion) bool {
	h.Helper()
	now := must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
	return must(h.db.ObserveTools(h.ctx, h.org.ID, c.ID, now.Revision, tools))(h)
}

func (h *house) observe(c action.Connector, version string, tools ...string) {
	h.Helper()
	if !h.sees(c, list(version, tools...)) {
		h.Fatalf("%s of %v is no news", version, tools)
	}
}

func (h *house) reviews(c action.Connector) []action.ToolReview {
	h.Helper()
	return must(h.db.ListReviews(h.ctx, h.org.ID, c.ID))(h)
}

// stand checks where the connector's tools stand: "tool state".
func (h *house) stand(c action.Connector, want ...string) {
	h.Helper()
	got := []string{}
	for _, r := range h.reviews(c) {
		got = append(got, r.Tool+" "+string(r.State))
	}
	h.equal(got, append([]string{}, want...), "where the tools stand")
}

// reviewedNow are the reviewed behaviours that rules have, by tool.
func (h *house) reviewedNow(want map[string]string) {
	h.Helper()
	got := map[string]string{}
	for key, v := range h.rulesNow().Reviewed {
		got[key.Action] = v.Behaviour
	}
	h.equal(got, want, "what rules have as reviewed")
}

func (h *house) shop(rule action.ReviewRule) action.Connector {
	h.Helper()
	c := action.Connector{ID: newID(), Organization: h.org.ID, Name: "Shop", Slug: "shop", URL: "https://mcp.example.com/mcp", Enabled: true, Review: rule}
	h.ok(h.db.CreateConnector(h.ctx, c, nil, "alice"))
	return must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
}

// rule changes the rule of review.
func (h *house) rule(c action.Connector, rule action.ReviewRule) {
	h.Helper()
	c = must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
	c.Review = rule
	h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
}

func (h *house) reviewAll(c action.Connector) {
	h.Helper()
	must(h.db.ReviewTools(h.ctx, h.org.ID, c.ID, nil, "bob"))(h)
}

var reviewStories = map[string]func(*house){
	"only the first list is trusted": func(h *house) {
		for _, rule := range []action.ReviewRule{"", action.ReviewTrust, action.ReviewStrict} {
			h := newHouse(h.T, h.dbs...)
			c := h.shop(rule)
			h.stand(c)
			h.moves("the first list", 1, action.EventReview, c.Source(), func() { h.observe(c, "v1", "a", "b") })
			h.tells("first list", "null", `{"a":{"behaviour_hash":"b v1","text_hash":"t "},"b":{"behaviour_hash":"b v1","text_hash":"t "}}`)
			h.stand(c, "a reviewed", "b reviewed")
			r := h.reviews(c)[0]
			v := definition("v1")
			h.equal(r, action.ToolReview{
				Organization: h.org.ID, Connector: c.ID, Tool: "a", State: action.ToolReviewed, Reviewed: &v, Current: &v,
				ReviewedBy: "first list", ReviewedAt: r.ReviewedAt, SeenAt: *r.ReviewedAt,
			}, "a tool of the first list")
			h.moves("a later list", 0, "", "", func() { h.observe(c, "v1", "a", "b", "c") })
			h.stand(c, "a reviewed", "b reviewed", "c new")
			h.reviewedNow(map[string]string{"a": "b v1", "b": "b v1"})
		}
	},
	"an empty first list is not trusted": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.equal(h.sees(c, list("v1")), false, "news")
		h.observe(c, "v1", "a")
		h.stand(c, "a reviewed")
		h.observe(c, "v1")
		h.observe(c, "v1", "a", "b")
		h.stand(c, "a reviewed", "b new")
	},
	"the risk that was reviewed is kept": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a")
		key := action.Key{Source: c.Source(), Action: "a"}
		mild := list("v2", "a")
		mild["a"] = action.ToolVersion{ToolHashes: hashes("v2"), Risk: action.RiskRead, Definition: json.RawMessage(`{}`)}
		h.equal(h.sees(c, mild), true, "news")
		h.equal(h.rulesNow().Risks[key], action.RiskWrite, "the risk before the review")
		h.reviewAll(c)
		h.equal(h.rulesNow().Risks[key], action.RiskRead, "the risk after it")
		other := list("v2", "a")
		h.equal(h.sees(c, other), true, "another risk is news")
		h.stand(c, "a reviewed")
	},
	"the same list is no news": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a", "b")
		before := h.reviews(c)
		other := list("v1", "b", "a")
		other["a"] = action.ToolVersion{ToolHashes: hashes("v1"), Risk: action.RiskWrite, Definition: json.RawMessage(`{"v":"v1"}`)} // with other spaces
		h.equal(h.sees(c, other), false, "news")
		h.equal(h.reviews(c), before, "the tools")
	},
	"a changed tool keeps what was reviewed, for a difference": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a", "b")
		for version, want := range map[string]string{"v2": "changed", "v1+other text": "changed", "v1": "reviewed"} {
			h.sees(c, list(version, "a", "b"))
			h.stand(c, "a "+want, "b "+want)
			r := h.reviews(c)[0]
			was, is := definition("v1"), definition(version)
			h.equal([]any{r.Reviewed, r.Current}, []any{&was, &is}, "versions")
			h.reviewedNow(map[string]string{"a": "b v1", "b": "b v1"})
		}
	},
	"a tool that returns unchanged is reviewed": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a", "b")
		seen := h.reviews(c)[1].SeenAt
		version := h.version()
		h.observe(c, "v1", "b")
		h.stand(c, "a removed", "b reviewed")
		h.equal(h.sees(c, list("v1", "b")), false, "news")
		r := h.reviews(c)[0]
		was := definition("v1")
		h.equal([]any{r.Reviewed, r.Current}, []any{&was, (*action.ToolVersion)(nil)}, "versions of a removed tool")
		h.reviewedNow(map[string]string{"a": "b v1", "b": "b v1"})
		h.observe(c, "v1", "a", "b")
		h.stand(c, "a reviewed", "b reviewed")
		h.equal(h.reviews(c)[1].SeenAt, seen, "since when a tool is as it is")
		h.observe(c, "v2", "a")
		h.stand(c, "a changed", "b removed")
		h.equal(h.version(), version, "version: no review changed")
	},
	"an unreviewed tool is deleted when it is removed": func(h *house) {
		c := h.shop(action.ReviewRequired)
		h.observe(c, "v1", "a", "b")
		h.observe(c, "v1", "b")
		h.stand(c, "b new")
	},
	"with required review no list is trusted": func(h *house) {
		c := h.shop(action.ReviewRequired)
		h.moves("the first list", 0, "", "", func() { h.observe(c, "v1", "a") })
		h.stand(c, "a new")
		h.rule(c, action.ReviewTrust)
		h.equal(h.sees(c, list("v1", "a")), false, "news")
		h.observe(c, "v1", "a", "b")
		h.stand(c, "a new", "b new")
		h.reviewedNow(map[string]string{})
	},
	"nor where they had to for a moment": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.rule(c, action.ReviewRequired)
		h.rule(c, action.ReviewStrict)
		h.observe(c, "v1", "a")
		h.stand(c, "a new")
	},
	"a stricter rule resets automatic reviews": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a", "b", "c")
		must(h.db.ReviewTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{"b": hashes("v1")}, "bob"))(h)
		h.observe(c, "v1", "a", "b")
		h.rule(c, action.ReviewStrict)
		h.stand(c, "a reviewed", "b reviewed", "c removed")
		version := h.version()
		h.rule(c, action.ReviewRequired)
		h.equal(h.version(), version+1, "version")
		h.stand(c, "a new", "b reviewed")
		h.reviewedNow(map[string]string{"b": "b v1"})
		e := h.history(action.PolicyEventFilter{Kind: action.EventReview})[0]
		h.equal([]string{e.Subject, e.By, string(e.Before), string(e.After)}, []string{
			c.Source(), "alice", `{"a":{"behaviour_hash":"b v1","text_hash":"t "},"c":{"behaviour_hash":"b v1","text_hash":"t "}}`, "null",
		}, "the event")
	},
	"a list of another revision is ignored": func(h *house) {
		c := h.shop(action.ReviewTrust)
		for _, revision := range []int64{0, 2} {
			h.equal(must(h.db.ObserveTools(h.ctx, h.org.ID, c.ID, revision, list("v1", "a")))(h), false, "news")
		}
		h.stand(c)
		_, err := h.db.ObserveTools(h.ctx, newHouse(h.T, h.db).org.ID, c.ID, 1, list("v1", "a"))
		h.refused(err, action.ErrNotFound, "connector_not_found")
	},
	"tools are reviewed one by one as seen": func(h *house) {
		c := h.shop(action.ReviewRequired)
		h.observe(c, "v1", "a", "b")
		var got []action.ToolReview
		h.moves("a review", 1, action.EventReview, c.Source()+":a", func() {
			got = must(h.db.ReviewTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{"a": hashes("v1")}, "bob"))(h)
		})
		h.tells("bob", `{"state":"new","current":{"behaviour_hash":"b v1","text_hash":"t "}}`,
			`{"state":"reviewed","reviewed":{"behaviour_hash":"b v1","text_hash":"t "},"current":{"behaviour_hash":"b v1","text_hash":"t "}}`)
		h.equal(got, h.reviews(c), "the answer")
		h.stand(c, "a reviewed", "b new")
		h.reviewedNow(map[string]string{"a": "b v1"})
		h.equal([]any{got[0].ReviewedBy, got[0].ReviewedAt != nil, string(got[0].Reviewed.Definition)}, []any{"bob", true, `{"v": "v1"}`}, "the review")
		h.moves("the same again", 0, "", "", func() {
			h.equal(must(h.db.ReviewTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{"a": hashes("v1")}, "carol"))(h), got, "the tools")
		})
		h.moves("none", 0, "", "", func() { must(h.db.ReviewTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{}, "carol"))(h) })
	},
	"a review applies to the tools as seen, or to none": func(h *house) {
		c := h.shop(action.ReviewRequired)
		h.observe(c, "v1", "a", "b")
		modes := map[string]action.Mode{"a": action.ModeAllow, "b": action.ModeDeny, action.ActionRead: action.ModeRequireApproval}
		h.moves("an old version", 0, "", "", func() {
			_, err := h.db.OnboardTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{"a": hashes("v0")}, modes, "bob")
			h.refused(err, action.ErrConflict, "tool_changed")
		})
		h.moves("no mode", 0, "", "", func() {
			_, err := h.db.OnboardTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{"a": hashes("v1")}, map[string]action.Mode{"a": "perhaps"}, "bob")
			h.refused(err, action.ErrInvalid, "invalid")
		})
		h.stand(c, "a new", "b new")
		must(h.db.OnboardTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{"a": hashes("v1")}, modes, "bob"))(h)
		h.stand(c, "a reviewed", "b new")
		list, _, err := h.db.Overrides(h.ctx, h.org.ID)
		h.ok(err)
		got := map[string]action.Mode{}
		for _, o := range list {
			got[o.Key.Action] = o.Mode
		}
		h.equal(got, modes, "the modes")
	},
	"a review fails if any tool changed since it was seen": func(h *house) {
		c := h.shop(action.ReviewRequired)
		h.observe(c, "v1", "a", "b", "c")
		h.reviewAll(c)
		h.observe(c, "v2", "a", "b")
		for name, row := range map[string]struct {
			seen map[string]action.ToolHashes
			kind error
			code string
		}{
			"an old version":      {map[string]action.ToolHashes{"a": hashes("v2"), "b": hashes("v1")}, action.ErrConflict, "tool_changed"},
			"another text":        {map[string]action.ToolHashes{"a": hashes("v2"), "b": hashes("v2+text")}, action.ErrConflict, "tool_changed"},
			"no version":          {map[string]action.ToolHashes{"a": hashes("v2"), "b": {}}, action.ErrConflict, "tool_changed"},
			"one that is gone":    {map[string]action.ToolHashes{"a": hashes("v2"), "c": hashes("v1")}, action.ErrConflict, "tool_changed"},
			"one that never was":  {map[string]action.ToolHashes{"a": hashes("v2"), "d": hashes("v2")}, action.ErrNotFound, "tool_not_found"},
			"nothing of one such": {map[string]action.ToolHashes{"a": hashes("v2"), "d": {}}, action.ErrNotFound, "tool_not_found"},
		} {
			h.moves(name, 0, "", "", func() {
				_, err := h.db.ReviewTools(h.ctx, h.org.ID, c.ID, row.seen, "bob")
				e := h.refused(err, row.kind, row.code)
				bad := slices.Sorted(maps.Keys(row.seen))[1]
				if !strings.Contains(e.Message, `"`+bad+`"`) {
					h.Errorf("%s: %q does not name the tool %s", name, e.Message, bad)
				}
			})
		}
		h.stand(c, "a changed", "b changed", "c removed")
		_, err := h.db.ReviewTools(h.ctx, newHouse(h.T, h.db).org.ID, c.ID, nil, "bob")
		h.refused(err, action.ErrNotFound, "connector_not_found")
		_, err = h.db.ListReviews(h.ctx, newHouse(h.T, h.db).org.ID, c.ID)
		h.refused(err, action.ErrNotFound, "connector_not_found")
	},
	"a removed tool is deleted when its removal is reviewed": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a", "b")
		h.observe(c, "v1", "b")
		h.moves("the review", 1, action.EventReview, c.Source()+":a", func() {
			must(h.db.ReviewTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{"a": {}}, "bob"))(h)
		})
		h.tells("bob", `{"state":"removed","reviewed":{"behaviour_hash":"b v1","text_hash":"t "}}`, "null")
		h.stand(c, "b reviewed")
		h.observe(c, "v1", "a", "b")
		h.stand(c, "a new", "b reviewed")
	},
	"all are reviewed as they are now": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a", "b", "c", "d")
		must(h.db.ReviewTools(h.ctx, h.org.ID, c.ID, map[string]action.ToolHashes{"d": hashes("v1")}, "ann"))(h)
		next := list("v1", "b", "d")
		next["c"], next["e"] = definition("v2"), definition("v1")
		h.sees(c, next)
		h.stand(c, "a removed", "b reviewed", "c changed", "d reviewed", "e new")
		version := h.version()
		h.reviewAll(c)
		h.equal(h.version(), version+1, "version")
		h.stand(c, "b reviewed", "c reviewed", "d reviewed", "e reviewed")
		by := map[string]string{}
		for _, r := range h.reviews(c) {
			by[r.Tool] = r.ReviewedBy
		}
		h.equal(by, map[string]string{"b": "bob", "c": "bob", "d": "ann", "e": "bob"}, "who reviewed them")
		h.equal(len(h.history(action.PolicyEventFilter{Kind: action.EventReview})), 1+1+4, "events")
		h.reviewedNow(map[string]string{"b": "b v1", "c": "b v2", "d": "b v1", "e": "b v1"})
		h.moves("all again", 0, "", "", func() { h.reviewAll(c) })
	},
	"a new URL resets reviews": func(h *house) {
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a", "b")
		h.observe(c, "v1", "a")
		g := h.grant(action.Terms{Scope: action.ScopeOrganization, Source: c.Source(), Action: "a"})
		all := h.grant(action.Terms{Scope: action.ScopeOrganization, Any: true})
		version := h.version()
		c.URL = "https://mcp.example.com/v2"
		h.ok(h.db.UpdateConnector(h.ctx, c, nil, "bob"))
		h.equal(h.version(), version+1, "version")
		h.equal(must(h.db.Grant(h.ctx, h.org.ID, g.ID))(h).RevokedBy, "bob", "who ended the grant for a tool there")
		h.equal(must(h.db.Grant(h.ctx, h.org.ID, all.ID))(h).RevokedBy, "", "who ended the grant for any")
		h.stand(c) // what the other server lists is not known
		h.reviewedNow(map[string]string{})
		e := h.history(action.PolicyEventFilter{Kind: action.EventReview})[0]
		h.equal([]string{e.Subject, e.By, string(e.After)}, []string{c.Source(), "bob", "null"}, "the event")
		if !strings.Contains(string(e.Before), `"b":{"behaviour_hash":"b v1"`) {
			h.Errorf("what was reviewed: %s", e.Before)
		}
		h.observe(c, "v1", "a")
		h.stand(c, "a new")
		h.observe(c, "v1", "a", "b")
		h.stand(c, "a new", "b new")
	},
	"only the URL and the rule reset reviews": func(h *house) {
		h.secret("k", "mcp.example.com")
		c := h.shop(action.ReviewTrust)
		h.observe(c, "v1", "a")
		for _, change := range []func(){
			func() { c.Name = "Renamed" }, func() { c.Enabled = false }, func() { c.Secret = "k" }, func() { c.DefaultRisk = action.RiskRead },
			func() { c.Risks = map[string]action.Risk{"a": action.RiskDanger} }, func() { c.Review = action.ReviewStrict },
		} {
			change()
			h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
			h.stand(c, "a reviewed")
		}
	},
	"the host of a secret changes only with the URL, and so takes reviews back": func(h *house) {
		h.secret("k", "mcp.example.com")
		c := h.shop(action.ReviewTrust)
		c.Secret = "k"
		h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
		h.observe(c, "v1", "a")
		moved := action.Secret{Organization: h.org.ID, Key: "k", Host: "evil.example.com", UpdatedBy: "alice"}
		h.refused(h.db.PutSecret(h.ctx, moved, []byte("x")), action.ErrConflict, "secret_in_use")
		c.Secret = ""
		h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
		h.ok(h.db.PutSecret(h.ctx, moved, []byte("x")))
		c.Secret = "k"
		h.equal(h.refused(h.db.UpdateConnector(h.ctx, c, nil, "alice"), action.ErrInvalid, "secret_host").Field, "/secret", "field")
		h.stand(c, "a reviewed")
		c.URL = "https://evil.example.com/mcp"
		h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice"))
		h.stand(c)
	},
	"a long list of large definitions is written": func(h *house) {
		c := h.shop(action.ReviewTrust)
		tools := map[string]action.ToolVersion{}
		for i := range 250 {
			tools[fmt.Sprintf("tool_%03d", i)] = definition(fmt.Sprint("v", i))
		}
		large := definition("large")
		large.Definition = json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
		tools["large"] = large
		h.sees(c, tools)
		got := h.reviews(c)
		h.equal([]any{len(got), len(h.rulesNow().Reviewed), len(got[0].Reviewed.Definition)}, []any{251, 251, 1 << 20}, "tools, reviewed ones, bytes of the largest")
	},
	"of first lists seen at once, one is trusted": func(h *house) {
		c := h.shop(action.ReviewTrust)
		var news atomic.Int64
		version := h.version()
		together(8, func(i int) {
			changed, err := h.any(i).ObserveTools(h.ctx, h.org.ID, c.ID, 1, list("v1", fmt.Sprint("tool", i)))
			if err != nil {
				h.Error(err)
			}
			if changed {
				news.Add(1)
			}
		})
		h.equal(news.Load(), int64(8), "lists that were news")
		h.equal(h.version(), version+1, "version")
		h.equal(len(h.rulesNow().Reviewed), 1, "reviewed tools")
	},
}

var reviewRuleStories = map[string]func(*house){
	"an unknown rule or risk is refused": func(h *house) {
		many := map[string]action.Risk{}
		for i := range 2001 {
			many[fmt.Sprint("t", i)] = action.RiskRead
		}
		for name, row := range map[string]struct {
			change func(*action.Connector)
			field  string
		}{
			"unknown rule":    {func(c *action.Connector) { c.Review = "maybe" }, "/review"},
			"unknown risk":    {func(c *action.Connector) { c.Risks = map[string]action.Risk{"a": "read", "b": "none"} }, "/tool_risks/b"},
			"no name":         {func(c *action.Connector) { c.Risks = map[string]action.Risk{"": "read"} }, "/tool_risks"},
			"any tool":        {func(c *action.Connector) { c.Risks = map[string]action.Risk{"*": "read"} }, "/tool_risks"},
			"a long name":     {func(c *action.Connector) { c.Risks = map[string]action.Risk{long(128): "read"} }, "/tool_risks"},
			"too many":        {func(c *action.Connector) { c.Risks = many }, "/tool_risks"},
			"another's slash": {func(c *action.Connector) { c.Risks = map[string]action.Risk{"a/b": "read"} }, "/tool_risks"},
		} {
			c := action.Connector{ID: newID(), Organization: h.org.ID, Name: "Git", Slug: "code", URL: "https://mcp.example.com/mcp"}
			row.change(&c)
			h.invalid(h.db.CreateConnector(h.ctx, c, nil, "alice"), row.field, name)
		}
	},
	"the rule and the risks of tools are what a call rests on": func(h *house) {
		c := h.shop("")
		h.equal([]any{c.Review, c.Risks}, []any{action.ReviewTrust, map[string]action.Risk(nil)}, "what nobody said")
		for _, change := range []func(){
			func() { c.Review = action.ReviewStrict },
			func() { c.Risks = map[string]action.Risk{"Merge_pr.v2-x": action.RiskDanger} },
			func() { c.Risks = map[string]action.Risk{"Merge_pr.v2-x": action.RiskWrite} },
			func() { c.Risks = map[string]action.Risk{"b": action.RiskWrite} },
			func() { c.Risks = nil },
			func() { c.Review = "" }, // trust again
		} {
			change()
			h.moves(fmt.Sprintf("%s %v", c.Review, c.Risks), 1, action.EventConnector, c.Source(), func() { h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice")) })
			got := must(h.db.Connector(h.ctx, h.org.ID, c.ID))(h)
			c.Revision, c.UpdatedAt = c.Revision+1, got.UpdatedAt
			if c.Review == "" {
				c.Review = action.ReviewTrust
			}
			h.equal(got, c, "the connector")
		}
		c.Risks = map[string]action.Risk{} // says as much as nil
		h.moves("no risks", 0, "", "", func() { h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice")) })
	},
	"a session has the event that started it": func(h *house) {
		s := must(h.db.CreateSession(h.ctx, action.Session{Organization: h.org.ID, CreatedBy: "alice", Event: "event-1", CreatedAt: h.now}))(h)
		h.equal([]any{s.Event, s.Kind}, []any{"event-1", action.Interactive}, "event and kind")
		h.equal(must(h.db.Session(h.ctx, s.ID))(h), s, "the session")
	},
}
