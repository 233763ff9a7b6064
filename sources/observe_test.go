package sources_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/canonical"
	"sallyport/sources"
)

// observation is what Observe was told once.
type observation struct {
	con   action.Connector
	tools map[string]action.ToolVersion
}

func (w *world) observe(_ context.Context, c action.Connector, tools map[string]action.ToolVersion) error {
	w.mu.Lock()
	o := observation{c, tools}
	w.observed = append(w.observed, o)
	look := w.look
	w.mu.Unlock()
	if look == nil {
		return nil
	}
	return look(o)
}

// names of the observed tools, in order.
func (o observation) names() []string { return slices.Sorted(maps.Keys(o.tools)) }

// Nobody sees a tool, by any door, before it was written down. Those of the
// last list stay meanwhile.
func TestObservedBeforeSeen(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		before := []string(nil)
		w.look = func(observation) error {
			time.Sleep(5 * time.Second)
			var shown []string
			for _, a := range w.State(o.con).Actions { // it would hang if it were called under the lock
				shown = append(shown, a.Tool)
			}
			if diff := cmp.Diff(before, shown); diff != "" {
				t.Error("at the end of Observe:", diff)
			}
			return nil
		}
		w.want(t) // after its patience
		if _, err := w.Resolve(t.Context(), "o", "x_b"); !errors.Is(err, action.ErrUnavailable) {
			t.Error("resolved before it was written down:", err)
		}
		time.Sleep(5 * time.Second)
		w.want(t, "x_b")

		before = []string{"x_b"}
		o.set(func(o *origin) { o.tools = []string{plain("c")} })
		time.Sleep(6 * time.Minute)
		w.want(t, "x_b")
		if a, err := w.Find(t.Context(), "o", "connector:a", "c", true); err != nil || a.Tool != "x_c" {
			t.Error("who asks for it waits for it:", a, err)
		}
		w.want(t, "x_c")
	})
}

// A list is written down once, and again when it is another: whatever its
// order and spelling.
func TestObservedOncePerChange(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"), plain("no good"))
		for i, step := range []struct {
			what  string
			tools []string
			want  []string // of the observation; nil: there is none
		}{
			{"the first", []string{plain("b"), plain("no good")}, []string{"b"}},
			{"the same", []string{plain("b")}, nil},
			{"one more", []string{plain("b"), plain("c")}, []string{"b", "c"}},
			{"another order", []string{plain("c"), plain("b")}, nil},
			{"another spelling", []string{plain("c"), ` {"inputSchema" : {}, "name":"b"}`}, nil},
			{"a text", []string{plain("c"), `{"name":"b","description":"d","inputSchema":{}}`}, []string{"b", "c"}},
			{"a behaviour", []string{plain("c"), `{"name":"b","description":"d","inputSchema":{"required":["x"]}}`}, []string{"b", "c"}},
			{"one less", []string{plain("c")}, []string{"c"}},
			{"none", []string{}, []string{}},
			{"none still", []string{}, nil},
		} {
			o.set(func(o *origin) { o.tools = step.tools })
			before := len(w.observed)
			for range 3 {
				time.Sleep(6 * time.Minute)
				w.names(t, "o")
			}
			news := w.observed[before:]
			if step.want == nil {
				if len(news) != 0 {
					t.Errorf("%d, %s: observed %v", i, step.what, news[0].names())
				}
				continue
			}
			if len(news) != 1 || !slices.Equal(news[0].names(), step.want) {
				t.Errorf("%d, %s: observed %v, want %v once", i, step.what, news, step.want)
			}
		}
		w.change("a", func(c *action.Connector) { c.Revision, c.Name = 2, "Renamed" })
		o.set(func(o *origin) { o.tools = []string{` {"name":"b", "inputSchema":{}} `} })
		before := len(w.observed)
		time.Sleep(2 * time.Second)
		w.want(t, "x_b")
		if len(w.observed) != before+1 {
			t.Fatal("a new revision was observed", len(w.observed)-before, "times")
		}
		last := w.observed[before]
		if last.con.Revision != 2 || last.con.Name != "Renamed" || last.con.Organization != "o" {
			t.Errorf("of %+v", last.con)
		}
		v := last.tools["b"]
		behaviour, _ := canonical.DefinitionHash(json.RawMessage(plain("b")))
		text, _ := canonical.TextHash(json.RawMessage(plain("b")))
		if string(v.Definition) != ` {"name":"b", "inputSchema":{}} ` || v.Behaviour != behaviour || v.Text != text {
			t.Errorf("got %+v", v)
		}
	})
}

// A list that cannot be written down is not used: the source looks like one
// that cannot be listed, and is tried again like one.
func TestUnobservedIsNotUsed(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		away := errors.New("dial tcp 10.0.0.7: refused")
		o := w.add("a", "x", 1, plain("b"))
		w.look = func(observation) error { return away }
		w.want(t)
		if s := w.State(o.con); s.Error == nil || s.Error.Code != sources.FaultUnrecorded || s.FetchedAt != nil || s.Tools != 0 {
			t.Errorf("got %+v, %+v", s, s.Error)
		}
		_, err := w.Find(t.Context(), "o", "connector:a", "b", true)
		if !errors.Is(err, action.ErrUnavailable) || !containsAll(action.Public(err).Message, "could not record its tools") || containsAll(action.Public(err).Message, "10.0.0.7") {
			t.Error("found:", err)
		}
		if len(w.observed) != 1 {
			t.Error("it was not left alone:", len(w.observed))
		}
		time.Sleep(10 * time.Second)
		w.want(t)
		w.mu.Lock()
		w.look = nil
		w.mu.Unlock()
		time.Sleep(20 * time.Second)
		version := w.want(t, "x_b")

		w.look = func(observation) error { return away }
		o.set(func(o *origin) { o.tools = []string{plain("b"), plain("c")} })
		time.Sleep(6 * time.Minute)
		if v := w.want(t, "x_b"); v != version {
			t.Error("what was not written down changed the version")
		}
		// The list that was written down needs it no more.
		o.set(func(o *origin) { o.tools = []string{plain("b")} })
		before := len(w.observed)
		time.Sleep(6 * time.Minute)
		w.want(t, "x_b")
		if s := w.State(o.con); s.Error != nil || len(w.observed) != before {
			t.Errorf("observed %d times again, %+v", len(w.observed)-before, s.Error)
		}
	})
}

// Only what is connected is written down: not what somebody tries out, nor what
// is disabled, nor what a server said that was left meanwhile.
func TestNotObserved(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		unsaved := &origin{con: action.Connector{ID: "new", Organization: "o", Name: "N", Slug: "n", Revision: 1}, tools: []string{plain("c")}}
		w.origins["new"] = unsaved
		off := w.add("off", "off", 1, plain("d"))
		w.change("off", func(c *action.Connector) { c.Enabled = false })
		off.con.Enabled = false
		for _, con := range []action.Connector{unsaved.con, off.con} {
			if s, err := w.Probe(t.Context(), con); err != nil || s.Tools != 1 {
				t.Errorf("got %+v, %v", s, err)
			}
		}
		w.want(t)
		if len(w.observed) != 0 {
			t.Errorf("observed %+v", w.observed)
		}

		on := w.add("on", "on", 1, plain("e"))
		on.slow = 10 * time.Second
		w.Invalidate("o")
		w.want(t)
		w.change("on", func(c *action.Connector) { c.Revision = 2 })
		time.Sleep(2 * time.Second)
		w.want(t) // begins to ask as the new revision
		time.Sleep(20 * time.Second)
		w.want(t, "on_e")
		if len(w.observed) != 1 || w.observed[0].con.Revision != 2 {
			t.Errorf("observed %+v", w.observed)
		}
		edited := on.con // of which the revision is not the stored one
		edited.Revision = 3
		if s, err := w.Probe(t.Context(), edited); err != nil || s.Tools != 1 || len(w.observed) != 1 {
			t.Errorf("got %+v, %v, observed %d times", s, err, len(w.observed))
		}
	})
}

// The risk of a tool is what an admin said of it, or what its annotations do,
// or the connector's default.
func TestRisks(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		hinted := func(name, annotations string) string {
			return `{"name":"` + name + `","inputSchema":{},"annotations":` + annotations + `}`
		}
		w.add("a", "x", 1, plain("bare"), hinted("reads", `{"readOnlyHint":true}`), hinted("breaks", `{"destructiveHint":true,"readOnlyHint":true}`))
		check := func(when string, bare, reads, breaks action.Risk) {
			t.Helper()
			time.Sleep(2 * time.Second) // less than a list lives
			w.names(t, "o")
			for name, want := range map[string]action.Risk{"bare": bare, "reads": reads, "breaks": breaks} {
				if a, err := w.Find(t.Context(), "o", "connector:a", name, false); err != nil || a.Risk != want {
					t.Errorf("%s, %s is %v, want %s (%v)", when, name, a, want, err)
				}
			}
		}
		check("by itself", action.RiskWrite, action.RiskRead, action.RiskDanger)
		w.change("a", func(c *action.Connector) { c.DefaultRisk = action.RiskRead })
		check("by default", action.RiskRead, action.RiskRead, action.RiskDanger)
		w.change("a", func(c *action.Connector) {
			c.Risks = map[string]action.Risk{"bare": action.RiskDanger, "reads": action.RiskWrite, "gone": action.RiskRead}
		})
		check("with two overrides", action.RiskDanger, action.RiskWrite, action.RiskDanger)
		w.change("a", func(c *action.Connector) {
			c.Risks = map[string]action.Risk{"breaks": action.RiskRead, "bare": "nonsense"}
		})
		check("with others", action.RiskRead, action.RiskRead, action.RiskRead)
	})
}

// What approvals are for is the behaviour, and the texts too where the
// connector's rule says that they count.
func TestWhatApprovalsAreFor(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		find := func(description string, review action.ReviewRule) *action.Action {
			t.Helper()
			o.set(func(o *origin) {
				o.tools = []string{`{"name":"b","description":"` + description + `","inputSchema":{}}`}
			})
			w.change("a", func(c *action.Connector) { c.Review = review })
			time.Sleep(2 * time.Second)
			a, err := w.Find(t.Context(), "o", "connector:a", "b", true)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		for _, rule := range []action.ReviewRule{"", action.ReviewTrust} {
			one, two := find("one", rule), find("two", rule)
			if one.Review != action.ReviewTrust || one.Hash != one.Hashes.Behaviour || one.Hash != two.Hash || one.Hashes.Text == two.Hashes.Text {
				t.Errorf("%q: got %+v and %+v", rule, one, two)
			}
		}
		for _, rule := range []action.ReviewRule{action.ReviewStrict, action.ReviewRequired} {
			one, two := find("one", rule), find("two", rule)
			sum := sha256.Sum256([]byte(one.Hashes.Behaviour + "\n" + one.Hashes.Text))
			if one.Review != rule || one.Hash != hex.EncodeToString(sum[:]) || one.Hash == two.Hash || one.Hashes.Behaviour != two.Hashes.Behaviour {
				t.Errorf("%q: got %+v and %+v", rule, one, two)
			}
		}
	})
}

// Another rule is another tool at once, without the source being asked again.
func TestReviewRuleShowsAtOnce(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, plain("b"))
		seen := map[string]bool{w.want(t, "x_b"): true}
		for _, rule := range []action.ReviewRule{action.ReviewStrict, action.ReviewRequired, action.ReviewTrust} {
			told := len(w.hints)
			w.change("a", func(c *action.Connector) { c.Review = rule })
			time.Sleep(2 * time.Second)
			v := w.want(t, "x_b")
			if a, err := w.Find(t.Context(), "o", "connector:a", "b", false); err != nil || a.Review != rule {
				t.Error(rule, "does not show in the action:", a, err)
			}
			if rule != action.ReviewTrust && (seen[v] || len(w.hints) == told) {
				t.Error(rule, "does not show in the list")
			}
			seen[v] = true
		}
		if o.listed() != 1 {
			t.Error("asked", o.listed(), "times")
		}
	})
}
