package server

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/store"
)

// workshop is a house with one tool of a connector, whose definition moves.
type workshop struct {
	*house
	connector action.Connector
	effects   *effects
	risk      action.Risk
	version   int // of the definition, now
	calls     int
}

func newWorkshop(h *house, rule action.ReviewRule) *workshop {
	h.t.Helper()
	w := &workshop{house: h, effects: &effects{}, risk: action.RiskWrite}
	w.connector = action.Connector{ID: newID(), Organization: org, Name: "shop", Slug: "shop", URL: "https://shop.example.com/mcp", Enabled: true, Review: rule}
	if err := h.db.CreateConnector(h.t.Context(), w.connector, nil, "alice"); err != nil {
		h.t.Fatal(err)
	}
	return w
}

// lists has the server list its tool in a version of its definition.
func (w *workshop) lists(version int) {
	w.t.Helper()
	w.version = version
	a := tool("sell", w.risk, w.effects.run)
	a.Source, a.SourceName, a.Tool = w.connector.Source(), "shop", "shop_sell"
	a.Hashes = action.ToolHashes{Behaviour: fmt.Sprintf("b%d", version), Text: "t"}
	a.Hash, a.Review = a.Hashes.Behaviour, w.connector.Review
	_, err := w.db.ObserveTools(w.t.Context(), org, w.connector.ID, 1, map[string]action.ToolVersion{
		"sell": {ToolHashes: a.Hashes, Definition: fmt.Appendf(nil, `{"name":"sell","v":%d}`, version)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.catalog.put(a)
	w.rules.invalidate(org)
}

func (w *workshop) mode(m action.Mode) {
	w.t.Helper()
	o := action.Override{Organization: org, Key: action.Key{Source: w.connector.Source(), Action: "sell"}, Mode: m, UpdatedBy: "alice"}
	if err := w.db.SetOverride(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.rules.invalidate(org)
}

func (w *workshop) review() {
	w.t.Helper()
	if _, err := w.db.ReviewTools(w.t.Context(), org, w.connector.ID, nil, "alice"); err != nil {
		w.t.Fatal(err)
	}
	w.rules.invalidate(org)
}

// sells calls the tool with params of its own.
func (w *workshop) sells() *action.Outcome {
	w.t.Helper()
	w.calls++
	c := w.call("sell", fmt.Sprintf(`{"n":%d}`, w.calls))
	c.Source, c.Patience = w.connector.Source(), 0
	a := w.get(w.begin(w.t.Context(), c))
	if a.err != nil {
		w.t.Fatal(a.err)
	}
	return a.Outcome
}

func (w *workshop) says(mode action.Mode, layer action.Layer) {
	w.t.Helper()
	if inv := w.sells().Invocation; inv.Mode != mode || inv.ModeSource != layer {
		w.t.Errorf("version %d: %s by %s, want %s by %s", w.version, inv.Mode, inv.ModeSource, mode, layer)
	}
}

func TestChangedToolNeverRunsUnderAnOldYes(t *testing.T) {
	t.Parallel()
	w := newWorkshop(newHouse(t), action.ReviewTrust)
	w.lists(1)
	w.mode(action.ModeAllow)
	w.says(action.ModeAllow, action.LayerOrganization) // the first list is trusted
	w.lists(2)
	w.says(action.ModeRequireApproval, action.LayerDrift)
	old := w.grant(action.Grant{Terms: action.Terms{Source: w.connector.Source(), Action: "sell"}, ToolHash: "b1"})
	w.grant(action.Grant{Terms: action.Terms{Any: true}})
	w.says(action.ModeRequireApproval, action.LayerDrift)
	w.grant(action.Grant{Terms: action.Terms{Source: w.connector.Source(), Action: "sell", MaxCalls: calls(1)}, ToolHash: "b2"})
	w.says(action.ModeAllow, action.LayerGrant) // made for what it is now
	w.says(action.ModeRequireApproval, action.LayerDrift)
	w.mode(action.ModeDeny)
	w.says(action.ModeDeny, action.LayerOrganization)
	w.mode(action.ModeAllow)
	w.review()
	w.says(action.ModeAllow, action.LayerOrganization)
	w.lists(1) // as it was before the review is not as it was reviewed
	w.says(action.ModeAllow, action.LayerGrant)
	if rows := w.rows(action.StatusCompleted); rows[0].Grant != old.ID {
		t.Errorf("the last call ran with grant %q", rows[0].Grant)
	}
}

func TestApprovalOfAChangedToolIsStale(t *testing.T) {
	t.Parallel()
	w := newWorkshop(newHouse(t), action.ReviewTrust)
	w.lists(1)
	out := w.sells()
	w.lists(2)
	w.approve(out.Invocation.ID)
	w.eventually("the end", func() bool { return w.row(out.Invocation.ID).Status.Terminal() })
	if inv := w.row(out.Invocation.ID); inv.Error == nil || inv.Error.Code != action.FailedStale || w.effects.n.Load() != 0 {
		t.Errorf("it is %s: %+v", inv.Status, inv.Error)
	}
}

func TestReviewRequired(t *testing.T) {
	t.Parallel()
	w := newWorkshop(newHouse(t), action.ReviewRequired)
	w.risk = action.RiskRead
	w.lists(1)
	w.says(action.ModeDeny, action.LayerDrift)
	w.review()
	w.says(action.ModeAllow, action.LayerInferred)
	w.lists(2)
	w.mode(action.ModeAllow)
	w.says(action.ModeDeny, action.LayerDrift)
}

// For any order of edits: what runs without a person is a definition that was
// reviewed, or one that a grant was made for.
func TestNoOrderOfEditsLetsADriftedToolRun(t *testing.T) {
	t.Parallel()
	orders := func(t *testing.T, open func(t *testing.T) *house, seeds uint64, steps int) {
		for seed := range seeds {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				newWorkshop(open(t), action.ReviewTrust).anyOrder(rand.New(rand.NewPCG(seed, 4)), steps)
			})
		}
	}
	many := func(c *gate.Config) { c.MaxPending = 10_000 }
	t.Run("SQLite", func(t *testing.T) { orders(t, func(t *testing.T) *house { return newHouse(t, many) }, 6, 60) })
	t.Run("PostgreSQL", func(t *testing.T) {
		orders(t, func(t *testing.T) *house {
			return newHouseOn(t, store.Config{URL: postgresTables(t)}, many, func(c *gate.Config) { c.Alone = false })
		}, 2, 40)
	})
}

func (w *workshop) anyOrder(r *rand.Rand, steps int) {
	w.t.Helper()
	w.lists(0)
	reviewed, granted, denied := 0, map[int]bool{}, false
	for step := range steps {
		switch r.IntN(8) {
		case 0, 1:
			w.lists(r.IntN(4))
		case 2:
			w.review()
			reviewed = w.version
		case 3:
			modes := []action.Mode{action.ModeAllow, action.ModeRequireApproval, action.ModeDeny}
			mode := modes[r.IntN(3)]
			w.mode(mode)
			denied = mode == action.ModeDeny
		case 4:
			v := r.IntN(4)
			w.grant(action.Grant{Terms: action.Terms{Source: w.connector.Source(), Action: "sell"}, ToolHash: fmt.Sprintf("b%d", v)})
			granted[v] = true
		case 5:
			w.grant(action.Grant{Terms: action.Terms{Any: true}})
		default:
			ran := w.effects.n.Load()
			out := w.sells()
			ran = w.effects.n.Load() - ran
			if ran > 0 && (denied || w.version != reviewed && !granted[w.version]) {
				w.t.Fatalf("step %d: version %d ran (%s by %s); reviewed is %d, grants are for %v, denied is %t",
					step, w.version, out.Invocation.Mode, out.Invocation.ModeSource, reviewed, granted, denied)
			}
			if denied && out.Invocation.Status != action.StatusDenied {
				w.t.Fatalf("step %d: a denied tool is %s", step, out.Invocation.Status)
			}
		}
	}
}
