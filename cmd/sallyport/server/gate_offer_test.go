package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/store/coord"
)

// These are the stories of what sources offer beside actions.

// beside is a source with resources and prompts.
type beside struct{ completions, subscriptions atomic.Int64 }

func (b *beside) put(h *house) {
	for _, name := range []string{action.ActionRead, action.ActionPrompt} {
		a := tool(name, action.RiskRead, (&effects{}).run)
		a.Tool = ""
		a.Complete = func(_ context.Context, params json.RawMessage) (action.Result, error) {
			b.completions.Add(1)
			return action.Result{Body: params}, nil
		}
		if name == action.ActionRead {
			a.Subscribe = func(context.Context, string, bool) error {
				b.subscriptions.Add(1)
				return nil
			}
		}
		h.catalog.put(a)
	}
	h.catalog.offers = action.Offerings{
		Resources:        []action.Offering{{Source: "notes", AgentName: "n:1"}, {Source: "other", AgentName: "o:1"}},
		Templates:        []action.Offering{{Source: "notes", AgentName: "n:{x}"}},
		Prompts:          []action.Offering{{Source: "notes", AgentName: "p"}},
		ResourcesVersion: "1", PromptsVersion: "1", SupportsLogs: true,
	}
}

func (h *house) offerings() *action.Offerings {
	h.t.Helper()
	o, err := h.gate.Offerings(h.t.Context(), &h.session)
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

func TestOfferingsOfADeniedSourceAreHidden(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	new(beside).put(h)
	count := func(o *action.Offerings) string {
		return fmt.Sprint(len(o.Resources), len(o.Templates), len(o.Prompts), o.HasResources, o.HasPrompts, o.SupportsCompletion, o.SupportsSubscriptions)
	}
	// A source that has no action by which it is read is not shown either.
	all := h.offerings()
	if got := count(all); got != "1 1 1 true true true true" {
		t.Errorf("allowed: %s", got)
	}
	h.mode(action.ActionRead, action.ModeDeny)
	some := h.offerings()
	if got := count(some); got != "0 0 1 false true true false" {
		t.Errorf("reads denied: %s", got)
	}
	if some.ResourcesVersion == all.ResourcesVersion || some.PromptsVersion != all.PromptsVersion {
		t.Errorf("versions %q and %q, before %q and %q", some.ResourcesVersion, some.PromptsVersion, all.ResourcesVersion, all.PromptsVersion)
	}
	h.mode(action.ActionRead, action.ModeRequireApproval)
	h.mode(action.ActionPrompt, action.ModeDeny)
	if got := count(h.offerings()); got != "1 1 0 true false true true" {
		t.Errorf("gets denied, reads held: %s", got)
	}
}

func TestOnlyWhatIsAllowedIsCompletedAndSubscribed(t *testing.T) {
	t.Parallel()
	h, b := newHouse(t), new(beside)
	b.put(h)
	try := func() (complete, subscribe error) {
		_, complete = h.gate.Complete(t.Context(), &h.session, "notes", action.ActionRead, json.RawMessage(`{}`))
		return complete, h.gate.Subscribe(t.Context(), &h.session, "notes", "n:1", true)
	}
	if answer, err := h.gate.Complete(t.Context(), &h.session, "notes", action.ActionPrompt, json.RawMessage(`{"a": 1}`)); err != nil || string(answer.Body) != `{"a": 1}` {
		t.Errorf("completed to %s, %v", answer.Body, err)
	}
	for _, mode := range []action.Mode{action.ModeRequireApproval, action.ModeDeny} {
		h.mode(action.ActionRead, mode)
		if complete, subscribe := try(); !errors.Is(complete, action.ErrForbidden) || !errors.Is(subscribe, action.ErrForbidden) {
			t.Errorf("under %s: %v; %v", mode, complete, subscribe)
		}
	}
	if b.completions.Load() != 1 || b.subscriptions.Load() != 0 {
		t.Errorf("%d completions and %d subscriptions came to the source", b.completions.Load(), b.subscriptions.Load())
	}
	h.mode(action.ActionRead, action.ModeAllow)
	if complete, subscribe := try(); complete != nil || subscribe != nil {
		t.Errorf("allowed: %v; %v", complete, subscribe)
	}
	if err := h.gate.Subscribe(t.Context(), &h.session, "elsewhere", "n:1", true); !errors.Is(err, action.ErrNotFound) {
		t.Errorf("no such source: %v", err)
	}
	if n := len(h.rows()); n != 0 {
		t.Errorf("%d rows", n)
	}
	ended := h.session
	ended.RevokedAt = new(time.Now())
	if _, err := h.gate.Complete(t.Context(), &ended, "notes", action.ActionPrompt, json.RawMessage(`{}`)); !errors.Is(err, action.ErrUnauthenticated) {
		t.Errorf("a session that ended: %v", err)
	}
}

func TestCompletionsCountAsCalls(t *testing.T) {
	t.Parallel()
	h, b := newHouse(t, func(c *gate.Config) { c.Limiter = coord.NewCounter(3, time.Now) }), new(beside)
	b.put(h)
	var refused error
	for range 10 {
		if _, err := h.gate.Complete(t.Context(), &h.session, "notes", action.ActionPrompt, json.RawMessage(`{}`)); err != nil {
			refused = err
		}
	}
	if !errors.Is(refused, action.ErrTooMany) || b.completions.Load() >= 10 {
		t.Errorf("%d completions, then %v", b.completions.Load(), refused)
	}
}
