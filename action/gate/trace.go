package gate

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"sallyport/action"
)

// traced tells of an invocation.
func traced(inv *action.Invocation) action.TraceAttributes {
	t := action.TraceAttributes{
		Organization: inv.Organization, Session: inv.Session, Invocation: inv.ID, Source: inv.Source, Action: inv.Action,
		Mode: inv.Mode, ModeSource: inv.ModeSource, Status: inv.Status, Code: inv.DeniedReason,
	}
	if inv.Error != nil {
		t.Code = inv.Error.Code
	}
	return t
}

// tracedAnswer tells of what a caller gets.
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

// traced tells of an execution, or of one that did not come to be.
func (j *job) traced(fin *action.Finish) action.TraceAttributes {
	t := traced(&j.Invocation)
	t.Status, t.Code = fin.Status, fin.DeniedReason
	if fin.Error != nil {
		t.Code = fin.Error.Code
	}
	return t
}

// tracePolicy draws that a call was decided.
func (g *Gate) tracePolicy(ctx context.Context, c *action.Call, act *action.Action, d *action.Decision, began time.Time) {
	if g.Tracer != nil {
		g.Tracer.Past(ctx, action.TraceDecide, began, action.TraceAttributes{
			Organization: c.Session.Organization, Session: c.Session.ID, Source: act.Source, Action: act.Name,
			Mode: d.Mode, ModeSource: d.Source,
		})
	}
}

// traceResume begins to draw what becomes of an approved call here, within the
// span of its caller where that is known.
func (g *Gate) traceResume(j *job) (end func()) {
	j.trace = g.traces.take(j.ID)
	if g.Tracer == nil {
		return func() {}
	}
	ctx, over := g.Tracer.Start(j.trace, action.TraceResume)
	j.trace = ctx
	return func() { over(*j.end) }
}

// traceEnd notes how a job ended, which each does before it is over.
func (g *Gate) traceEnd(j *job, ended *action.Invocation) {
	if g.Tracer != nil {
		t := traced(ended)
		j.end = &t
	}
}

// traceRecheck draws that an approved call was looked at again; fin is how it ended
// by that, nil: it runs.
func (g *Gate) traceRecheck(j *job, fin *action.Finish, began time.Time) {
	switch {
	case g.Tracer == nil:
	case fin == nil:
		g.Tracer.Past(j.trace, action.TraceRecheck, began, traced(&j.Invocation))
	default:
		g.Tracer.Past(j.trace, action.TraceRecheck, began, j.traced(fin))
	}
}

// traceHold draws once that a caller waited for a person.
func (g *Gate) traceHold(ctx context.Context, t *wait, now *action.Invocation) {
	if !t.heldSince.IsZero() {
		g.Tracer.Past(ctx, action.TraceHold, t.heldSince, traced(now))
		t.heldSince = time.Time{}
	}
}

// detached is what an execution knows of its caller: the span, and nothing else.
func (g *Gate) detached(ctx context.Context) context.Context {
	if g.Tracer == nil {
		return context.Background()
	}
	return g.Tracer.Bare(ctx)
}

// keepTrace has the execution of a held call be drawn within the span of its
// first caller on this instance, whether he still waits then or left to come back.
func (g *Gate) keepTrace(ctx context.Context, id string) {
	if g.Tracer != nil {
		g.traces.keep(id, g.Tracer.Bare(ctx))
	}
}

// maxTraces is how many held calls have their spans remembered.
const maxTraces = 10_000

// traces are spans of callers by the invocations that are held for them. What is
// forgotten, the oldest first, is executed in a trace of its own.
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

// take returns what was kept, or nothing, and forgets it.
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
