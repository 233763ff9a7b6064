package gate

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"sallyport/action"
)

// traced returns the attributes of an invocation.
func traced(inv *action.Invocation) action.TraceAttributes {
	t := action.TraceAttributes{
		Organization: inv.Organization, Session: inv.Session, Invocation: inv.ID, Source: inv.Source, Action: inv.Action,
		Mode: inv.Mode, ModeSource: inv.ModeSource, Status: inv.Status, Code: inv.DeniedReason,
	}
	if inv.Error != nil {
		t.Code, t.Fault = inv.Error.Code, inv.Error.Fault
	}
	return t
}

// tracedAnswer returns the attributes of what a caller gets.
func tracedAnswer(s *action.Session, out *action.Outcome, err error) action.TraceAttributes {
	t := traced(&out.Invocation)
	t.Organization, t.Session, t.Repeated = s.Organization, s.ID, out.Repeated
	switch {
	case err == nil:
	case errors.Is(err, action.ErrCancelled):
		t.Code = "cancelled"
	case errors.Is(err, action.ErrCallerGone):
		t.Code = "caller_gone"
	default:
		t.Code = action.Public(err).Code
	}
	return t
}

// traced returns the attributes of an execution, or of a call that ended without
// one.
func (j *job) traced(fin *action.Finish) action.TraceAttributes {
	t := traced(&j.Invocation)
	t.Status, t.Code = fin.Status, fin.DeniedReason
	if fin.Error != nil {
		t.Code, t.Fault = fin.Error.Code, fin.Error.Fault
	}
	return t
}

// tracePolicy records the decision of a call.
func (g *Gate) tracePolicy(ctx context.Context, c *action.Call, act *action.Action, d *action.Decision, began time.Time) {
	if g.Tracer != nil {
		g.Tracer.Past(ctx, action.TraceDecide, began, action.TraceAttributes{
			Organization: c.Session.Organization, Session: c.Session.ID, Source: act.Source, Action: act.Name,
			Mode: d.Mode, ModeSource: d.Source,
		})
	}
}

// traceResume starts the span of an approved call, within that of its caller if it
// is known.
func (g *Gate) traceResume(j *job) (end func()) {
	j.trace = g.traces.take(j.ID)
	if g.Tracer == nil {
		return func() {}
	}
	ctx, over := g.Tracer.Start(j.trace, action.TraceResume)
	j.trace = ctx
	return func() { over(*j.end) }
}

// traceEnd records how a job ended.
func (g *Gate) traceEnd(j *job, ended *action.Invocation) {
	if g.Tracer != nil {
		t := traced(ended)
		j.end = &t
	}
}

// traceRecheck records the recheck of an approved call. A nil fin means that the
// call runs.
func (g *Gate) traceRecheck(j *job, fin *action.Finish, began time.Time) {
	switch {
	case g.Tracer == nil:
	case fin == nil:
		g.Tracer.Past(j.trace, action.TraceRecheck, began, traced(&j.Invocation))
	default:
		g.Tracer.Past(j.trace, action.TraceRecheck, began, j.traced(fin))
	}
}

// traceHold records, once, that a caller waited for a person.
func (g *Gate) traceHold(ctx context.Context, t *wait, now *action.Invocation) {
	if !t.heldSince.IsZero() {
		g.Tracer.Past(ctx, action.TraceHold, t.heldSince, traced(now))
		t.heldSince = time.Time{}
	}
}

// detached returns a context with only the span of the caller, for the execution.
func (g *Gate) detached(ctx context.Context) context.Context {
	if g.Tracer == nil {
		return context.Background()
	}
	return g.Tracer.Bare(ctx)
}

// keepTrace remembers the span of the first caller of a held call on this
// instance, so that its execution is recorded within it.
func (g *Gate) keepTrace(ctx context.Context, id string) {
	if g.Tracer != nil {
		g.traces.keep(id, g.Tracer.Bare(ctx))
	}
}

// maxTraces bounds the remembered spans of held calls.
const maxTraces = 10_000

// traces are the spans of callers by held invocation. The oldest are dropped
// first; their executions get traces of their own.
type traces struct {
	mu   sync.Mutex
	kept map[string]*list.Element
	old  list.List // of [keptTrace], the oldest first
}

type keptTrace struct {
	id  string
	ctx context.Context
}

func (t *traces) keep(id string, ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = map[string]*list.Element{}
	}
	if t.kept[id] != nil {
		return
	}
	if len(t.kept) == maxTraces {
		delete(t.kept, t.old.Remove(t.old.Front()).(keptTrace).id)
	}
	t.kept[id] = t.old.PushBack(keptTrace{id, ctx})
}

// take removes and returns a span; an empty context if there is none.
func (t *traces) take(id string) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.kept[id]
	if e == nil {
		return context.Background()
	}
	delete(t.kept, id)
	return t.old.Remove(e).(keptTrace).ctx
}
