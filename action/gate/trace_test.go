package gate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sallyport/action"
)

// A call that is not traced pays nothing for what a traced one needs.
func TestNoTraceCostsNothing(t *testing.T) {
	g, ctx := &Gate{}, t.Context()
	c, act, d := &action.Call{}, &action.Action{}, &action.Decision{}
	w, inv, j := &wait{}, &action.Invocation{}, &job{}
	if n := testing.AllocsPerRun(100, func() {
		g.tracePolicy(ctx, c, act, d, time.Time{})
		g.keepTrace(ctx, "id")
		g.traceHold(ctx, w, inv)
		j.trace = g.detached(ctx)
		g.traceResume(j)()
		g.traceRecheck(j, nil, time.Time{})
		g.traceEnd(j, inv)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if j.trace != context.Background() {
		t.Error("an execution knows of its caller")
	}
}

// What is remembered of held calls is theirs who came first, is given once, and has
// a bound.
func TestTracesOfHeldCalls(t *testing.T) {
	type key struct{}
	span := func(n int) context.Context { return context.WithValue(t.Context(), key{}, n) }
	var kept traces
	kept.keep("a", span(1))
	kept.keep("a", span(2))
	if got := kept.take("a").Value(key{}); got != 1 {
		t.Errorf("took %v", got)
	}
	if got := kept.take("a"); got != context.Background() {
		t.Errorf("took %v again", got)
	}
	for n := range maxTraces + 2 {
		kept.keep(fmt.Sprint(n), span(n))
	}
	if len(kept.kept) != maxTraces || kept.old.Len() != maxTraces {
		t.Errorf("%d and %d are kept", len(kept.kept), kept.old.Len())
	}
	for n, want := range map[int]any{0: nil, 1: nil, 2: 2, maxTraces + 1: maxTraces + 1} {
		if got := kept.take(fmt.Sprint(n)).Value(key{}); got != want {
			t.Errorf("of %d took %v", n, got)
		}
	}
}
