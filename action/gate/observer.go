package gate

import (
	"context"
	"time"

	"sallyport/action"
)

// Observer is notified of calls, for logs and metrics. Its methods are called
// concurrently and delay calls: they must be quick, must not block, and must not
// change or keep their arguments.
type Observer interface {
	// Decided reports the decision of policy, and the time that finding, checking
	// and deciding took. A call that is retried is reported again.
	Decided(a *action.Action, d *action.Decision, took time.Duration)
	// Refused reports why a call got no row.
	Refused(err error)
	// Changed reports a new status that this instance wrote. For an allowed call only
	// the end is reported.
	Changed(inv *action.Invocation)
	// Ran reports an execution by this instance: how it ended, and how long the
	// source took.
	Ran(inv *action.Invocation, ended action.Status, took time.Duration)
}

// noObserver observes nothing.
type noObserver struct{}

func (noObserver) Decided(*action.Action, *action.Decision, time.Duration) {}

func (noObserver) Refused(error) {}

func (noObserver) Changed(*action.Invocation) {}

func (noObserver) Ran(*action.Invocation, action.Status, time.Duration) {}

// Tracer draws what becomes of calls as spans of traces. Many goroutines call it
// at once, and calls wait for it: it must be quick and block for nothing. What it
// does changes nothing of a call.
type Tracer interface {
	// Start begins a span within the one that ctx carries, and returns a context
	// that carries the new one. Its end is called once.
	Start(ctx context.Context, step action.TraceStep) (_ context.Context, end func(action.TraceAttributes))
	// Past draws a span, within the one that ctx carries, of what ends now.
	Past(ctx context.Context, step action.TraceStep, began time.Time, t action.TraceAttributes)
	// Bare returns a context that carries the span of ctx and nothing else of it:
	// no end and no other value.
	Bare(ctx context.Context) context.Context
}
