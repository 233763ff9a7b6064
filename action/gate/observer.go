package gate

import (
	"context"
	"time"

	"sallyport/action"
)

// Observer is told of calls while they go their way, for what operators watch.
// Many goroutines call it at once, and calls wait for it: it must be quick, block
// for nothing, change nothing that it is given, and keep none of it.
type Observer interface {
	// Decided is told what policy said of a call, and how long it took to find
	// and check the action and to decide. A call that lost a race is decided
	// again, and told again.
	Decided(a *action.Action, d *action.Decision, took time.Duration)
	// Refused is told why a call got no row.
	Refused(err error)
	// Changed is told of an invocation with a new status which this instance
	// wrote down; of an execution that nobody approved only its end.
	Changed(inv *action.Invocation)
	// Ran is told of an execution by this instance: how it ended, and how long
	// the source took.
	Ran(inv *action.Invocation, ended action.Status, took time.Duration)
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Decided(*action.Action, *action.Decision, time.Duration) {}

func (nobody) Refused(error) {}

func (nobody) Changed(*action.Invocation) {}

func (nobody) Ran(*action.Invocation, action.Status, time.Duration) {}

// Tracer draws what becomes of calls as spans of traces. Many goroutines call it
// at once, and calls wait for it: it must be quick and block for nothing. What it
// does changes nothing of a call.
type Tracer interface {
	// Start begins a span within the one that ctx carries, and returns a context
	// that carries the new one. Its end is called once.
	Start(ctx context.Context, step action.TraceStep) (_ context.Context, end func(action.Traced))
	// Past draws a span, within the one that ctx carries, of what ends now.
	Past(ctx context.Context, step action.TraceStep, began time.Time, t action.Traced)
	// Bare returns a context that carries the span of ctx and nothing else of it:
	// no end and no other value.
	Bare(ctx context.Context) context.Context
}
