package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/action/gate"
)

// limitsSome limits the rate of some sessions to nothing.
type limitsSome struct {
	action.Limiter
	sessions map[string]bool
}

func (l limitsSome) Allow(ctx context.Context, key string) time.Duration {
	if _, session, _ := strings.Cut(key, "/"); l.sessions[session] {
		return time.Minute
	}
	return l.Limiter.Allow(ctx, key)
}

// TestRefusals makes calls that are refused in every way, with params that match
// the schema and that do not, in a group and not: what policy denies is a row
// whatever the params, and only a session that may call an action is told what is
// wrong with its params.
func TestRefusals(t *testing.T) {
	onBoth(t, func(t *testing.T, h *house) {
		limited := limitsSome{h.config.Limiter, map[string]bool{}}
		h.end()
		h.config.Limiter, h.config.MaxPending, h.config.MaxHeldParams = limited, 1, 1000
		h.start()
		ctx := t.Context()
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}

		e := &effects{}
		for name, risk := range map[string]action.Risk{"read": action.RiskRead, "write": action.RiskWrite, "merge": action.RiskDanger, "ruled": action.RiskRead, "counted": action.RiskRead, "asked": action.RiskWrite} {
			h.catalog.put(tool(name, risk, e.run))
		}
		for name, risk := range map[string]action.Risk{"guarded": action.RiskWrite, "granted": action.RiskWrite, "guarded_read": action.RiskRead} {
			guarded := tool(name, risk, e.run)
			guarded.Bind = func(_ context.Context, _ *action.Session, params json.RawMessage) (action.Binding, error) {
				if strings.Contains(string(params), "production") {
					return action.Binding{}, action.Errorf(action.ErrForbidden, "guardrail", "Notes: Not into production.")
				}
				return action.Binding{Revision: "1"}, nil
			}
			h.catalog.put(guarded)
		}
		drifted := tool("drifted", action.RiskRead, e.run)
		drifted.Review = action.ReviewRequired
		h.catalog.put(drifted)

		session := func(group string) action.Session {
			t.Helper()
			s, err := h.db.CreateSession(ctx, action.Session{Organization: org, Group: group, CreatedBy: "test", Kind: action.Interactive})
			ok(err)
			return s
		}
		for group, level := range map[string]action.Level{"reader": action.LevelRead, "writer": action.LevelWrite, "producer": action.LevelProduction} {
			c := action.Capability{Group: group, Provider: "notes", Level: level}
			if level == action.LevelProduction {
				c.Gate = "Security"
			}
			h.capable(c)
		}
		soon := time.Now().Add(300 * time.Millisecond)
		h.capable(action.Capability{Group: "former", Provider: "notes", Level: action.LevelWrite, ExpiresAt: &soon})
		h.capable(action.Capability{Group: "picky", Provider: "notes", Level: action.LevelWrite, AllowedActions: []string{"write"}})
		h.capable(action.Capability{Group: "careful", Provider: "notes", Level: action.LevelWrite, DeniedActions: []string{"write"}})
		h.capable(action.Capability{Group: "slow", Provider: "notes", Level: action.LevelWrite, Rate: &action.Rate{Calls: 1, Seconds: 3600}})
		for name, mode := range map[string]action.Mode{"ruled": action.ModeDeny, "asked": action.ModeRequireApproval} {
			ok(h.db.SetOverride(ctx, action.Override{Organization: org, Key: action.Key{Source: "notes", Action: name}, Mode: mode, UpdatedBy: "alice"}))
		}
		ok(h.db.SetQuota(ctx, action.Quota{Organization: org, Key: action.Key{Source: "notes", Action: "counted"}, Per: action.PerSession, Rate: action.Rate{Calls: 1, Seconds: 3600}, UpdatedBy: "alice"}))
		h.grant(action.Grant{Terms: action.Terms{Source: "notes", Action: "granted"}})
		h.rules.invalidate(org)

		answerOf := func(s action.Session, name, params string) (said, text string, inv action.Invocation) {
			t.Helper()
			source, of, found := strings.Cut(name, ":")
			if !found {
				source, of = "notes", name
			}
			out, err := h.gate.Call(ctx, &action.Call{Session: s, Source: source, Action: of, Params: json.RawMessage(params)})
			if err != nil {
				public := action.Public(err)
				return public.Code, public.Message + public.Field, out.Invocation
			}
			inv = out.Invocation
			if said = string(inv.Status); inv.Status == action.StatusDenied {
				said += " " + inv.DeniedReason
				if inv.DeniedReason == action.DeniedPolicy {
					said = "denied " + string(inv.ModeSource)
				}
				text = inv.Refusal("a while")
			}
			return said, text, inv
		}
		plain, counting, waiting := session(""), session(""), session("")
		writer, countingWriter, waitingWriter, slow := session("writer"), session("writer"), session("writer"), session("slow")
		for _, first := range []struct {
			session action.Session
			name    string
		}{{counting, "counted"}, {countingWriter, "counted"}, {waiting, "asked"}, {waitingWriter, "asked"}, {slow, "write"}} {
			if said, _, _ := answerOf(first.session, first.name, `{"first":true}`); said != "completed" && said != "pending" {
				t.Fatalf("the first call of %s is %s", first.name, said)
			}
		}
		deny := func(s action.Session, params string) {
			t.Helper()
			_, _, asked := answerOf(s, "asked", params)
			_, err := h.gate.Deny(ctx, h.verdict(asked.ID))
			ok(err)
		}
		often, oftenWriter := session(""), session("writer")
		deny(plain, `{"n":"repeated"}`)
		deny(writer, `{"n":"repeated"}`)
		for n := range 3 {
			deny(often, fmt.Sprintf(`{"n":%d}`, n))
			deny(oftenWriter, fmt.Sprintf(`{"n":%d}`, n))
		}
		time.Sleep(time.Until(soon.Add(time.Millisecond)))
		hasty, hastyReader := session(""), session("reader")
		limited.sessions[hasty.ID], limited.sessions[hastyReader.ID] = true, true

		const invalid = "invalid_params"
		counted := map[string]int64{} // by session and kind
		for _, c := range []struct {
			name    string
			session action.Session
			action  string
			params  string // that match the schema
			right   string // the answer to them
			wrong   string // the answer to others
		}{
			{"nothing is wrong", plain, "read", `{"n":1}`, "completed", invalid},
			{"nothing is wrong, in a group", session("reader"), "read", `{"n":1}`, "completed", invalid},
			{"no such action", plain, "nope", `{"n":1}`, "unknown_action", "unknown_action"},
			{"no such action, in a group without a capability", session("outsider"), "nope", `{"n":1}`, "unknown_action", "unknown_action"},
			{"no such source", plain, "nowhere:read", `{"n":1}`, "unknown_action", "unknown_action"},
			{"no such source, in a group without a capability", session("outsider"), "nowhere:read", `{"n":1}`, "unknown_action", "unknown_action"},
			{"no capability", session("outsider"), "read", `{"n":1}`, "denied ceiling", "denied ceiling"},
			{"a capability that expired", session("former"), "read", `{"n":1}`, "denied ceiling", "denied ceiling"},
			{"not among the allowed actions", session("picky"), "read", `{"n":1}`, "denied ceiling", "denied ceiling"},
			{"among the denied actions", session("careful"), "write", `{"n":1}`, "denied ceiling", "denied ceiling"},
			{"the rate of a capability", slow, "write", `{"n":1}`, "quota_reached", invalid},
			{"too low a level", session("reader"), "write", `{"n":1}`, "denied ceiling", "denied ceiling"},
			{"a gate that is not approved", session("producer"), "merge", `{"n":1}`, "denied ceiling", "denied ceiling"},
			{"a mode", plain, "ruled", `{"n":1}`, "denied organization", "denied organization"},
			{"a mode, in a group", session("writer"), "ruled", `{"n":1}`, "denied organization", "denied organization"},
			{"a danger", plain, "merge", `{"n":1}`, "denied inferred", "denied inferred"},
			{"no review", plain, "drifted", `{"n":1}`, "denied drift", "denied drift"},
			{"no review, in a group", session("reader"), "drifted", `{"n":1}`, "denied drift", "denied drift"},
			{"a guardrail", plain, "guarded", `{"base":"production"}`, "denied guardrail", invalid},
			{"a guardrail, in a group that may write", session("writer"), "guarded", `{"base":"production"}`, "denied guardrail", invalid},
			{"a guardrail, in a group that may not", session("reader"), "guarded", `{"base":"production"}`, "denied ceiling", "denied ceiling"},
			{"a guardrail and a grant", plain, "granted", `{"base":"production"}`, "denied guardrail", invalid},
			{"a guardrail that is kept", session("writer"), "guarded", `{"base":"main"}`, "completed", invalid},
			{"a read has none", plain, "guarded_read", `{"base":"production"}`, "completed", invalid},
			{"the rate limit", hasty, "write", `{"n":1}`, "rate_limited", "rate_limited"},
			{"the rate limit, in a group", hastyReader, "write", `{"n":1}`, "rate_limited", "rate_limited"},
			{"a quota", counting, "counted", `{"n":1}`, "quota_reached", invalid},
			{"a quota, in a group", countingWriter, "counted", `{"n":1}`, "quota_reached", invalid},
			{"too many that wait", waiting, "asked", `{"n":1}`, "too_many_pending", invalid},
			{"too many that wait, in a group", waitingWriter, "asked", `{"n":1}`, "too_many_pending", invalid},
			{"params too large to be reviewed", plain, "asked", `{"n":"` + strings.Repeat("n", 1000) + `"}`, "params_too_large", invalid},
			{"params too large to be reviewed, in a group", writer, "asked", `{"n":"` + strings.Repeat("n", 1000) + `"}`, "params_too_large", invalid},
			{"a person denied it", plain, "asked", `{"n":"repeated"}`, "denied " + action.DeniedRepeated, invalid},
			{"a person denied it, in a group", writer, "asked", `{"n":"repeated"}`, "denied " + action.DeniedRepeated, invalid},
			{"people denied it three times", often, "asked", `{"n":4}`, "denied " + action.DeniedOften, invalid},
			{"people denied it three times, in a group", oftenWriter, "asked", `{"n":4}`, "denied " + action.DeniedOften, invalid},
		} {
			for kept, params := range map[string]string{c.params: c.params, `{"wrong":1}`: `{"wrong": 1}`, "{}": `[1]`} {
				want, ran := c.right, e.n.Load()
				if params != c.params {
					want = c.wrong
				}
				before := len(h.of(c.session))
				said, text, inv := answerOf(c.session, c.action, params)
				if kind := strings.Replace(want, "params_too_large", invalid, 1); !strings.HasPrefix(want, "denied ") && want != "completed" {
					counted[c.session.ID+" "+kind]++
				}
				if said != want {
					t.Errorf("%s: %.40s is answered %q (%s), want %q", c.name, params, said, text, want)
				}
				if told := strings.Contains(text, "field wrong"); told && want != invalid {
					t.Errorf("%s: the answer tells of the schema: %s", c.name, text)
				}
				if c.right == "denied guardrail" && want == c.right && !strings.Contains(text, "Not into production.") {
					t.Errorf("%s: the answer has no reason: %s", c.name, text)
				}
				rows := 0
				if strings.HasPrefix(want, "denied ") || want == "completed" {
					rows = 1
				}
				if n := len(h.of(c.session)) - before; n != rows {
					t.Errorf("%s: %.40s left %d rows, want %d", c.name, params, n, rows)
				}
				if rows == 1 {
					if row := h.row(inv.ID); string(row.Params) != kept || row.Status != inv.Status {
						t.Errorf("%s: the row of %s is %+v", c.name, params, row)
					}
				}
				if effects := e.n.Load() - ran; (effects == 1) != (want == "completed") {
					t.Errorf("%s: %.40s had %d effects", c.name, params, effects)
				}
			}
		}
		h.end()
		page, err := h.db.Refusals(ctx, action.RefusalFilter{Organization: org, Limit: 100})
		ok(err)
		got := map[string]int64{}
		for _, r := range page.Items {
			name := r.Source + ":" + r.Action
			switch r.Kind {
			case action.RefusedUnknown, action.RefusedRate:
				if name != ":notes:nope" && name != ":nowhere:read" && name != ":notes:write" {
					t.Errorf("a count of %s has the sample %q", r.Kind, name)
				}
			case action.RefusedParams, action.RefusedQuota, action.RefusedPending, action.RefusedDecision:
				if r.Source != "notes" || h.catalog.actions[name] == nil {
					t.Errorf("a count of %s is of %q", r.Kind, name)
				}
			}
			if r.FirstAt.After(r.LastAt) || r.LastAt.After(time.Now().Add(time.Minute)) {
				t.Errorf("a count is of %s to %s", r.FirstAt, r.LastAt)
			}
			got[r.Session+" "+string(r.Kind)] += r.Count
		}
		if d := cmp.Diff(counted, got); d != "" {
			t.Errorf("counted refusals (-want +got):\n%s", d)
		}
	})
}

// TestRefusalsAreBounded has a session refused for many actions, and for names that it
// makes up, and looks at the rows.
func TestRefusalsAreBounded(t *testing.T) {
	h := newHouse(t)
	for i := range 60 {
		h.gate.CountRefusal(&h.session, action.RefusedParams, "notes", fmt.Sprint("write_", i))
		h.gate.CountRefusal(&h.session, action.RefusedUnknown, "", fmt.Sprint("made up ", i))
	}
	h.gate.CountRefusal(&h.session, action.RefusedRate, "notes", "ghp_c4n4ry0123456789abcdefghijklmnopqrst\x00"+strings.Repeat("x", 1000))
	h.end()
	page, err := h.db.Refusals(t.Context(), action.RefusalFilter{Organization: org, Session: h.session.ID, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	rows, counts := map[action.RefusalKind]int{}, map[action.RefusalKind]int64{}
	for _, r := range page.Items {
		rows[r.Kind]++
		counts[r.Kind] += r.Count
		if len(r.Action) > 100 || strings.Contains(r.Action, "c4n4ry") {
			t.Errorf("the sample is %q", r.Action)
		}
	}
	if d := cmp.Diff(map[action.RefusalKind]int{action.RefusedParams: 21, action.RefusedUnknown: 1, action.RefusedRate: 1}, rows); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[action.RefusalKind]int64{action.RefusedParams: 60, action.RefusedUnknown: 60, action.RefusedRate: 1}, counts); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
}

// of returns the rows of a session.
func (h *house) of(s action.Session) []action.Invocation {
	h.t.Helper()
	page, err := h.db.ListInvocations(context.Background(), action.InvocationFilter{Organization: org, Session: s.ID, Limit: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	return page.Items
}

// TestExplainedRefusals predicts what [TestRefusals] sees.
func TestExplainedRefusals(t *testing.T) {
	h := newHouse(t)
	guarded := tool("guarded", action.RiskWrite, (&effects{}).run)
	guarded.Bind = func(context.Context, *action.Session, json.RawMessage) (action.Binding, error) {
		return action.Binding{}, action.Errorf(action.ErrForbidden, "guardrail", "Notes: Not into production.")
	}
	h.catalog.put(guarded)
	h.catalog.put(tool("merge", action.RiskDanger, nil))
	for _, c := range []struct{ action, params, want string }{
		{"guarded", `{}`, "deny guardrail"},
		{"guarded", `{"wrong":1}`, "invalid_params"},
		{"merge", `{}`, "deny inferred"},
		{"merge", `{"wrong":1}`, "deny inferred"},
	} {
		got, err := h.gate.Explain(t.Context(), &h.session, "notes", c.action, json.RawMessage(c.params))
		said := string(got.Decision.Mode) + " " + string(got.Decision.Source)
		if err != nil {
			said = action.Public(err).Code
		}
		if said != c.want {
			t.Errorf("%s with %s is explained as %q, want %q", c.action, c.params, said, c.want)
		}
	}
}

// TestGuardrailAfterApproval forbids by a setting what a person approved.
func TestGuardrailAfterApproval(t *testing.T) {
	h, e := newHouse(t, func(c *gate.Config) { c.ClaimGrace = time.Hour; c.ClaimGraceBlind = time.Hour }), &effects{}
	guarded := tool("guarded", action.RiskWrite, e.run)
	forbidden := make(chan struct{})
	guarded.Bind = func(context.Context, *action.Session, json.RawMessage) (action.Binding, error) {
		select {
		case <-forbidden:
			return action.Binding{}, action.Errorf(action.ErrForbidden, "guardrail", "Notes: Not into production.")
		default:
			return action.Binding{Revision: "1"}, nil
		}
	}
	h.catalog.put(guarded)
	done := h.begin(t.Context(), h.call("guarded", `{}`))
	id := h.pending().ID
	close(forbidden)
	h.approve(id)
	out := h.want(h.get(done), action.StatusDenied)
	if out.Invocation.DeniedNote != "Notes: Not into production." || e.n.Load() != 0 {
		t.Errorf("it ended as %+v, with %d effects", out.Invocation, e.n.Load())
	}
}
