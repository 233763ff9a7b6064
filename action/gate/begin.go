package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sallyport/action"
)

// draft fills in the row of a decided call.
func (g *Gate) draft(ctx context.Context, c *action.Call, act *action.Action, d action.Decision, params json.RawMessage, hash string) (*action.Draft, error) {
	now := g.Now()
	redacted := g.JSON.Redact(params, nil)
	draft := &action.Draft{
		Invocation: action.Invocation{
			ID: g.NewID(), Organization: c.Session.Organization, Session: c.Session.ID,
			Source: act.Source, SourceName: act.SourceName, Action: act.Name, Risk: act.Risk,
			Mode: d.Mode, ModeSource: d.Source, Steps: d.Steps,
			Summary: g.summary(act, params, redacted), Params: redacted, ParamsHash: hash, ToolHash: act.Hash, Revision: act.Revision,
			CreatedAt: now,
		},
		PolicyVersion:  d.Version,
		IdempotencyKey: c.IdempotencyKey,
		Unattended:     c.Session.Kind == action.Unattended,
	}
	switch d.Mode {
	case action.ModeAllow:
		draft.Status = action.StatusExecuting
		draft.StartedAt = &now
		draft.Executor = g.Instance
		draft.LeaseUntil = now.Add(g.timeout(act) + g.LeaseMargin)
		// An allowed read never joins, so that asking again asks again; with
		// an idempotency key its caller wants the opposite.
		draft.Joins = act.Risk != action.RiskRead || c.IdempotencyKey != ""
		draft.Snapshot = !draft.Joins && len(d.Grants) == 0
		draft.Grants = d.Grants
		draft.DeniedSince = now.Add(-g.DenialHolds) // a person's no to this very call goes before a grant
	case action.ModeRequireApproval:
		if len(params) > g.MaxHeldParams {
			return nil, action.Errorf(action.ErrTooLarge, "params_too_large",
				"A person must approve this call, and nobody can read %d KiB: a held call has at most %d KiB of params.", len(params)>>10, g.MaxHeldParams>>10)
		}
		if act.Bind != nil && params != nil {
			b, err := act.Bind(ctx, &c.Session, params)
			if err != nil {
				return nil, err
			}
			draft.Integration, draft.Revision = b.Integration, act.Bound(b)
		}
		sealed, err := g.Vault.Seal(paramsRef(&draft.Invocation), params)
		if err != nil {
			return nil, err
		}
		draft.Status = action.StatusPending
		draft.SealedParams = sealed
		draft.Joins = true
		draft.MaxPending = g.MaxPending
		draft.DeniedSince = now.Add(-g.DenialHolds)
		draft.DenialLimit = d.DenialLimit
		expires := now.Add(g.HoldInteractive)
		if draft.Unattended {
			expires = now.Add(g.HoldUnattended)
		}
		draft.ExpiresAt = &expires
	case action.ModeDeny:
		draft.Status = action.StatusDenied
		draft.DeniedReason = action.DeniedPolicy
		draft.DeniedNote = d.Why()
		draft.CompletedAt = &now
	default:
		return nil, fmt.Errorf("policy answered with mode %q", d.Mode)
	}
	if c.Session.Status == action.SessionPaused {
		draft.Paused, draft.Snapshot = true, false
	}
	return draft, nil
}

// summary says in a line what the call would do.
func (g *Gate) summary(act *action.Action, params, redacted json.RawMessage) string {
	if act.Summarize != nil {
		if text := act.Summarize(params); text != "" {
			return clipped(g.JSON.RedactText(text, nil), g.KeepSummary)
		}
	}
	return g.JSON.Summary(redacted, g.KeepSummary)
}

// clipped cuts text to at most limit bytes, between two runes.
func clipped(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := 0
	for i := range text {
		if i > limit-len("…") {
			break
		}
		end = i
	}
	return text[:end] + "…"
}

// wait is a caller who is on the board and waits for an invocation to end.
type wait struct {
	inv      action.Invocation
	w        *waiter
	joins    bool // see Outcome
	repeated bool
	new      bool      // this caller's call wrote the row
	holds    time.Time // since when the caller waits for a person, in a traced call
}

// begin writes the draft's row, or joins the one that answers the call. It
// returns the outcome or what to wait for; with an error perhaps neither. The
// caller is put on the board before its row exists, so that no decision can come
// between the two unseen.
func (g *Gate) begin(ctx context.Context, c *action.Call, act *action.Action, d *action.Draft, params json.RawMessage) (*action.Outcome, *wait, error) {
	if d.Status == action.StatusDenied {
		begun, err := g.Ledger.Begin(ctx, d)
		if err != nil {
			return nil, nil, action.Unwritten(err)
		}
		g.changed(&begun.Invocation)
		return &action.Outcome{Invocation: begun.Invocation}, nil, nil
	}
	c.Unattended = d.Unattended
	w := g.board.enter(d.ID, &c.Waiting, g.Now())
	begun, err := g.Ledger.Begin(ctx, d)
	if err != nil {
		g.board.leave(d.ID, w)
		return nil, nil, action.Unwritten(err)
	}
	if !begun.New {
		g.board.leave(d.ID, w)
		return g.join(ctx, begun, &c.Waiting)
	}
	switch begun.Status {
	case action.StatusExecuting:
		g.board.start(begun.ID)
		j := &job{Invocation: begun.Invocation, act: act, params: params, joins: d.Joins, unattended: d.Unattended, trace: g.bare(ctx)}
		g.work.run(func() { g.execute(j) })
	case action.StatusDenied: // a person said no to the same call a while ago
		g.board.leave(d.ID, w)
		g.changed(&begun.Invocation)
		return &action.Outcome{Invocation: g.linked(begun.Invocation)}, nil, nil
	}
	if begun.Status == action.StatusPending {
		g.keepTrace(ctx, begun.ID)
		g.changed(&begun.Invocation)
	}
	return nil, &wait{inv: begun.Invocation, w: w, joins: d.Joins, new: true}, nil
}

// join takes part in an invocation that another call began, or hands out what
// it came to.
func (g *Gate) join(ctx context.Context, b *action.Begun, how *action.Waiting) (*action.Outcome, *wait, error) {
	if b.Status.Terminal() {
		out, err := g.reopen(&b.Record)
		out.Repeated = true
		return out, nil, err
	}
	out, wait, err := g.enter(ctx, b.Organization, b.ID, how)
	if wait != nil {
		wait.repeated = true
		return nil, wait, err
	}
	if out != nil {
		out.Repeated = true
	}
	return out, nil, err
}

// withdrawnUnder tells a caller whose call was withdrawn though he waits. A
// note says that it was meant so.
func withdrawnUnder(out *action.Outcome, err error) error {
	if err == nil && out.Invocation.DeniedReason == action.DeniedWithdrawn && out.Invocation.DeniedNote == "" {
		return errWithdrawn
	}
	return err
}

// errWithdrawn tells that a call was withdrawn under a caller who waits for
// it: by another who was the last on his instance and did not see this one, or
// for a silence in which this one could not be noted. Begin anew.
var errWithdrawn = errors.New("the call was withdrawn under its caller")

// enter puts a caller on the board of an invocation that exists, unless it
// ended.
func (g *Gate) enter(ctx context.Context, organization, id string, how *action.Waiting) (*action.Outcome, *wait, error) {
	w := g.board.enter(id, how, g.Now())
	rec, err := g.Ledger.Load(ctx, organization, id) // after entering: see begin
	if err != nil {
		g.board.leave(id, w)
		return nil, nil, action.Unread(err, id)
	}
	if rec.Status.Terminal() {
		g.board.leave(id, w)
		out, err := g.reopen(&rec)
		return out, nil, err
	}
	if rec.Status != action.StatusExecuting {
		g.keepTrace(ctx, id)
	}
	switch rec.Status {
	case action.StatusApproved:
		g.claim(rec.Invocation)
	case action.StatusExecuting:
		if how.Can != 0 { // it may be asking already
			g.board.asks(id)
		}
	}
	return nil, &wait{inv: rec.Invocation, w: w, joins: true}, nil
}

func paramsRef(inv *action.Invocation) action.Ref {
	return action.Ref{Organization: inv.Organization, Table: "invocations", Row: inv.ID, Column: "sealed_params"}
}

func resultRef(inv *action.Invocation) action.Ref {
	return action.Ref{Organization: inv.Organization, Table: "invocations", Row: inv.ID, Column: "sealed_result"}
}

func (g *Gate) linked(inv action.Invocation) action.Invocation {
	inv.ApprovalURL = g.ApprovalURL(inv.ID)
	return inv
}

// changed tells everybody who may care that this instance gave the invocation a
// new status.
func (g *Gate) changed(inv *action.Invocation) {
	g.Observer.Changed(inv)
	g.announce(inv)
}

func (g *Gate) announce(inv *action.Invocation) {
	g.Hints.Publish(action.Hint{
		Kind: action.HintInvocation, Organization: inv.Organization, Session: inv.Session,
		Invocation: inv.ID, Status: inv.Status,
	})
}
