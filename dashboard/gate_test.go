package dashboard_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	gateflow "sallyport/action/gate"
	"sallyport/internal/redact"
	"sallyport/store"
)

// gate is the real Gate over the rows of the house, that remembers what it was
// asked. Reads run at once, writes are held, danger is denied.
type gate struct {
	*gateflow.Gate
	mu        sync.Mutex
	verdicts  []action.Verdict
	delivered []string
	calls     []action.Call
	fail      error // what Call returns instead
	asked     int   // held calls that the test made
}

func (h *house) openGate() {
	h.t.Helper()
	h.gate = &gate{Gate: must(gateflow.New(gateflow.Config{
		Catalog: catalog{}, Decide: decider{h.db}.Decide, View: decider{}.View, Sessions: h.db, Ledger: h.db, Limiter: unlimited{}, Vault: h.vault, JSON: &redact.JSON{Hash: shortHash},
		Hints: h.hints, Instance: "test", NewID: func() string { return uuid.Must(uuid.NewV7()).String() }, MaxPending: 100, Now: h.clock.now,
	}))}
	h.t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := h.gate.Drain(ctx); err != nil {
			h.t.Error(err)
		}
	})
}

// shortHash stands for what is redacted.
func shortHash(string) string { return "ab12cd34" }

type unlimited struct{}

func (unlimited) Allow(context.Context, string) time.Duration      { return 0 }
func (unlimited) Take(context.Context, action.Limit) time.Duration { return 0 }

func (g *gate) Call(ctx context.Context, c *action.Call) (*action.Outcome, error) {
	g.mu.Lock()
	g.calls = append(g.calls, *c)
	fail := g.fail
	g.mu.Unlock()
	if fail != nil {
		return &action.Outcome{}, fail
	}
	return g.Gate.Call(ctx, c)
}

func (g *gate) Delivered(o *action.Outcome) {
	g.mu.Lock()
	g.delivered = append(g.delivered, o.Invocation.ID)
	g.mu.Unlock()
	g.Gate.Delivered(o)
}

func (g *gate) deliveries() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.delivered)
}

func (g *gate) Approve(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	g.mu.Lock()
	g.verdicts = append(g.verdicts, v)
	g.mu.Unlock()
	return g.Gate.Approve(ctx, v)
}

// decider says what the inferred default would.
type decider struct{ db *store.DB }

func (d decider) Decide(ctx context.Context, s *action.Session, a *action.Action, _ json.RawMessage, _ bool) (action.Decision, error) {
	version, err := d.db.PolicyVersion(ctx, s.Organization)
	if err != nil {
		return action.Decision{}, err
	}
	chosen, err := d.db.Settings(ctx, s.Organization)
	return action.Decision{Mode: mode(a.Risk), Source: action.LayerInferred, Steps: steps(a), Version: version, DenialLimit: chosen.DenialLimit}, err
}

func (decider) View(context.Context, *action.Session) (view, version string, err error) {
	return "all", "1", nil
}

func mode(r action.Risk) action.Mode {
	switch r {
	case action.RiskRead:
		return action.ModeAllow
	case action.RiskWrite:
		return action.ModeRequireApproval
	}
	return action.ModeDeny
}

// steps are how it came to that; the tool drifted is not as it was reviewed.
func steps(a *action.Action) []action.Step {
	r := a.Risk
	list := []action.Step{
		{Layer: action.LayerOrganization, Note: "The organization says nothing of this action."},
		{Layer: action.LayerInferred, Mode: mode(r), Note: "A " + string(r) + " action has this mode unless somebody says otherwise."},
	}
	if a.Name == "drifted" {
		list = append(list, action.Step{Layer: action.LayerDrift, Note: "The tool drifted is not the one that was reviewed.", Alert: true})
	}
	return list
}

// catalog has the same five actions at every source.
type catalog struct{}

func actionsOf(source string) []*action.Action {
	var out []*action.Action
	for _, a := range []struct {
		name string
		risk action.Risk
	}{{"list", action.RiskRead}, {"create", action.RiskWrite}, {"drop", action.RiskDanger}, {"broken", action.RiskRead}, {"drifted", action.RiskWrite}} {
		out = append(out, &action.Action{
			Source: source, SourceName: "GitHub", Name: a.name, Tool: "github_" + a.name, Risk: a.risk, Description: "Does " + a.name,
			InputSchema: json.RawMessage(`{"type":"object"}`), Hash: "tool-hash", Revision: "1", Check: check, Run: answers(a.name),
		})
	}
	return out
}

// answers is what an upstream says to a call of the action.
func answers(name string) action.Run {
	return func(context.Context, json.RawMessage, action.Caller) (action.Result, error) {
		if name == "broken" {
			return action.Result{Body: json.RawMessage(`{"isError":true,"content":[]}`), IsError: true}, nil
		}
		return action.Result{Body: json.RawMessage(`{"content":[],"structuredContent":{"n":9007199254740993,"big":1e400}}`)}, nil
	}
}

func check(params json.RawMessage) error {
	if strings.Contains(string(params), `"wrong"`) {
		return &action.Error{Kind: action.ErrInvalid, Code: "invalid_params", Field: "/wrong", Message: "There is no field wrong."}
	}
	return nil
}

func (catalog) Find(_ context.Context, _, source, name string, _ bool) (*action.Action, error) {
	for _, a := range actionsOf(source) {
		if a.Name == name && strings.HasPrefix(source, "connector:") {
			return a, nil
		}
	}
	return nil, action.Errorf(action.ErrNotFound, "unknown_action", "No source has this action.")
}

func (catalog) Offerings(context.Context, string) (*action.Offerings, error) {
	return &action.Offerings{}, nil
}

func (catalog) List(context.Context, string) ([]*action.Action, string, error) {
	return actionsOf("connector:c1"), "v1", nil
}

// hints tells subscribers in the publisher's goroutine.
type hints struct {
	mu   sync.Mutex
	next int
	subs map[int]func(action.Hint)
}

func (h *hints) Publish(x action.Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.subs {
		f(x)
	}
}

func (h *hints) Subscribe(f func(action.Hint)) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	n := h.next
	h.subs[n] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, n)
	}
}
