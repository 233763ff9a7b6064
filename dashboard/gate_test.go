package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"sallyport/action"
)

// gate is a small Gate over memory: reads run at once, writes are held,
// danger is denied, and a decision is made once.
type gate struct {
	m         *memory
	hints     *hints
	mu        sync.Mutex
	verdicts  []action.Verdict
	params    map[string]string
	sealed    string // the call whose params cannot be opened
	delivered []string
	calls     []action.Call
	fail      error // what Call returns instead
}

func (g *gate) Call(_ context.Context, c *action.Call) (*action.Outcome, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, *c)
	if g.fail != nil {
		return &action.Outcome{}, g.fail
	}
	a, err := (catalog{}).Find(context.Background(), c.Session.Organization, c.Source, c.Action, false)
	if err != nil {
		return &action.Outcome{}, err
	}
	if len(c.Params) == 0 {
		c.Params = json.RawMessage(`{}`)
	}
	if err := a.Check(c.Params); err != nil {
		return &action.Outcome{}, err
	}
	return g.decide(c, a), nil
}

func (g *gate) decide(c *action.Call, a *action.Action) *action.Outcome {
	now := g.m.now()
	inv := action.Invocation{
		Organization: c.Session.Organization, Session: c.Session.ID, Source: c.Source, SourceName: a.SourceName, Action: a.Name,
		Risk: a.Risk, Mode: mode(a.Risk), ModeSource: action.LayerInferred, Steps: steps(a), Params: redacted(c.Params),
		ParamsHash: "params-hash", ToolHash: "tool-hash", CreatedAt: now,
	}
	out := &action.Outcome{}
	switch inv.Mode {
	case action.ModeAllow:
		inv.Status, inv.CompletedAt = action.StatusCompleted, &now
		inv.Result = json.RawMessage(`{"content":[]}`)
		out.Answer.Body = json.RawMessage(`{"content":[],"structuredContent":{"n":9007199254740993,"big":1e400}}`)
		if a.Name == "broken" {
			inv.Status, inv.Error, inv.Result = action.StatusFailed, &action.Failure{Code: action.FailedTool, Message: "It broke."}, nil
			out.Answer = action.Answer{Body: json.RawMessage(`{"isError":true,"content":[]}`), IsError: true}
		}
	case action.ModeDeny:
		inv.Status, inv.DeniedReason = action.StatusDenied, action.DeniedPolicy
	default:
		expires := now.Add(5 * time.Minute)
		inv.Status, inv.ExpiresAt = action.StatusPending, &expires
	}
	inv.ID = g.m.add(inv)
	g.params[inv.ID] = string(c.Params)
	g.hints.Publish(action.Hint{Kind: action.HintInvocation, Organization: inv.Organization, Session: inv.Session, Invocation: inv.ID, Status: inv.Status})
	out.Invocation = inv
	return out
}

// redacted is what a row keeps of params: the word hunter2 is a secret.
func redacted(params json.RawMessage) json.RawMessage {
	return json.RawMessage(strings.ReplaceAll(string(params), "hunter2", "[redacted:7:ab12cd34]"))
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

func (g *gate) Wait(_ context.Context, s *action.Session, id string, _ action.Waiting) (*action.Outcome, error) {
	inv, err := g.m.Invocation(context.Background(), s.Organization, id)
	if err != nil || inv.Session != s.ID {
		return &action.Outcome{}, missing("invocation")
	}
	out := &action.Outcome{Invocation: inv}
	if inv.Status == action.StatusApproved {
		g.set(id, func(inv *action.Invocation) { inv.Status = action.StatusCompleted })
		out.Invocation.Status = action.StatusCompleted
		out.Answer.Body = json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)
	}
	if inv.Status == action.StatusCompleted {
		out.Answer.Body = json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)
	}
	return out, nil
}

func (g *gate) Delivered(o *action.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delivered = append(g.delivered, o.Invocation.ID)
}

func (g *gate) deliveries() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.delivered)
}

func (g *gate) Available(_ context.Context, s *action.Session) (list []action.Available, version string, err error) {
	all, version, err := catalog{}.List(context.Background(), s.Organization)
	for _, a := range all {
		if m := mode(a.Risk); m != action.ModeDeny {
			list = append(list, action.Available{Action: a, Decision: action.Decision{Mode: m, Source: action.LayerInferred}})
		}
	}
	return list, version, err
}

func (g *gate) Approve(_ context.Context, v action.Verdict) (action.Invocation, error) {
	return g.settle(v, action.StatusApproved)
}

func (g *gate) Deny(_ context.Context, v action.Verdict) (action.Invocation, error) {
	return g.settle(v, action.StatusDenied)
}

func (g *gate) settle(v action.Verdict, to action.Status) (action.Invocation, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.verdicts = append(g.verdicts, v)
	inv, err := g.m.Invocation(context.Background(), v.Organization, v.ID)
	switch {
	case err != nil || (v.Session != "" && v.Session != inv.Session):
		return inv, missing("invocation")
	case inv.Status == action.StatusExpired:
		return inv, action.Errorf(action.ErrGone, "expired", "This call expired before you decided.")
	case inv.Status != action.StatusPending:
		return inv, action.Errorf(action.ErrConflict, "already_decided", "This call was already decided by %s.", inv.ApprovedBy)
	case (v.ParamsHash != "" && v.ParamsHash != inv.ParamsHash) || (v.ToolHash != "" && v.ToolHash != inv.ToolHash):
		return inv, action.Errorf(action.ErrConflict, "changed", "This is not what you saw; look again.")
	}
	if v.Grant != nil {
		terms := v.Grant.Terms
		terms.Source, terms.Action = inv.Source, inv.Action
		if _, err := g.Terms(context.Background(), v.Organization, &terms, v.Unreviewed); err != nil {
			return inv, err
		}
		for _, pointer := range v.Pin {
			if pointer != "/title" {
				return inv, &action.Error{Kind: action.ErrInvalid, Code: "invalid_grant", Field: "/grant/pin", Message: "The call has no such param."}
			}
			terms.Pins = map[string]json.RawMessage{pointer: json.RawMessage(`"Bug"`)}
		}
		made := action.Grant{Organization: v.Organization, Terms: terms, ToolHash: inv.ToolHash, Invocation: inv.ID, CreatedBy: v.By}
		if terms.Scope == action.ScopeSession {
			made.Session = inv.Session
		}
		g.m.mu.Lock()
		*v.Grant = g.m.grantLocked(made)
		g.m.mu.Unlock()
	}
	inv = g.set(v.ID, func(inv *action.Invocation) {
		inv.Status, inv.ApprovedBy = to, v.By
		at := v.Now
		inv.ApprovedAt = &at
		if to == action.StatusDenied {
			inv.DeniedReason, inv.DeniedNote = action.DeniedHuman, v.Note
		}
	})
	g.hints.Publish(action.Hint{Kind: action.HintInvocation, Organization: inv.Organization, Session: inv.Session, Invocation: inv.ID, Status: to})
	return inv, nil
}

func (g *gate) set(id string, f func(*action.Invocation)) action.Invocation {
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	inv, _ := find("invocation", g.m.invocations, func(inv action.Invocation) bool { return inv.ID == id })
	f(inv)
	return *inv
}

func (g *gate) Params(_ context.Context, organization, id string) ([]byte, bool, error) {
	inv, err := g.m.Invocation(context.Background(), organization, id)
	if err != nil {
		return nil, false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if id == g.sealed {
		return nil, false, errors.New("no key opens them")
	}
	if p, ok := g.params[id]; ok && !inv.Status.Terminal() {
		return []byte(p), true, nil
	}
	return inv.Params, false, nil
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
			InputSchema: json.RawMessage(`{"type":"object"}`), Hash: "tool-hash", Check: check,
		})
	}
	return out
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

func (catalog) List(context.Context, string) ([]*action.Action, string, error) {
	return actionsOf("connector:c1"), "v1", nil
}

// decider says what the inferred default would.
type decider struct{}

func (decider) Decide(_ context.Context, _ *action.Session, a *action.Action, _ json.RawMessage, _ bool) (action.Decision, error) {
	return action.Decision{Mode: mode(a.Risk), Source: action.LayerInferred, Steps: steps(a), Version: 1}, nil
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
