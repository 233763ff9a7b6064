package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"sallyport/action"
)

// Approve lets a held call run. It changes the row and runs nothing itself:
// the instance where a caller waits claims it, or any other a moment later.
// With a Grant it makes that too, or neither.
func (g *Gate) Approve(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	v.Now = g.Now()
	if v.Grant != nil {
		if err := g.offer(ctx, &v); err != nil {
			return action.Invocation{}, err
		}
	}
	return g.settled(g.Ledger.Approve(ctx, v))
}

// offer checks the grant that goes with an approval, turns v.Pin into values,
// and makes sure that the grant covers the call itself.
func (g *Gate) offer(ctx context.Context, v *action.Verdict) error {
	terms := v.Grant.Terms
	terms.Any, terms.Source, terms.Action = false, "-", "-" // the row's own
	if err := terms.Check(v.Now); err != nil {
		return err
	}
	rec, err := g.Ledger.Load(ctx, v.Organization, v.ID)
	if err != nil {
		return err
	}
	if alerts := action.Alerts(rec.Steps); len(alerts) > 0 && !v.Unreviewed {
		return notReviewed(alerts[0])
	}
	if len(v.Pin) == 0 && len(v.Grant.Pins) == 0 {
		return nil
	}
	params, full, err := g.Params(ctx, v.Organization, v.ID)
	if err != nil {
		return err
	}
	if !full {
		return nil // it ended, which Approve says better
	}
	pins := make(map[string]json.RawMessage, len(v.Pin)+len(v.Grant.Pins))
	for pointer, value := range v.Grant.Pins {
		pins[pointer] = value
	}
	for _, pointer := range v.Pin {
		if pins[pointer] = g.JSON.At(params, pointer); pins[pointer] == nil {
			return action.BadTerm("/grant/pin", fmt.Sprintf("The call has no param at %q; pin one that it has by its JSON Pointer, such as /channel.", pointer))
		}
	}
	redacted := g.JSON.Redact(params, nil) // a value may be secret by what stands beside it
	for pointer, value := range pins {
		if !bytes.Equal(g.JSON.At(redacted, pointer), g.JSON.At(params, pointer)) {
			return secretPin(pointer)
		}
		if pins[pointer], err = g.pinned(pointer, value); err != nil {
			return err
		}
		if !bytes.Equal(g.JSON.At(params, pointer), pins[pointer]) {
			return action.BadTerm("/grant/pins", fmt.Sprintf("The call that you approve has another value at %s, so the grant would not cover it; pin the value that it has.", pointer))
		}
	}
	terms.Pins, v.Grant.Pins = pins, pins
	return terms.Check(v.Now)
}

// Deny refuses a held call, and the same call for Config.DenialHolds.
func (g *Gate) Deny(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	v.Now = g.Now()
	return g.settled(g.Ledger.Deny(ctx, v))
}

func (g *Gate) settled(inv action.Invocation, err error) (action.Invocation, error) {
	if err != nil {
		return inv, err
	}
	g.changed(&inv)
	return g.linked(inv), nil
}

// Wait waits for an invocation of the session as its caller would.
func (g *Gate) Wait(ctx context.Context, s *action.Session, id string, w action.Waiting) (out *action.Outcome, err error) {
	if !g.work.add() {
		return &action.Outcome{}, errDraining()
	}
	defer g.work.done()
	if g.Tracer != nil {
		var end func(action.Traced)
		ctx, end = g.Tracer.Start(ctx, action.TraceWait)
		defer func() { end(tracedAnswer(s, orNone(out), err)) }()
	}
	if _, err := g.Status(ctx, s, id); err != nil {
		return &action.Outcome{}, err
	}
	w.Unattended = s.Kind == action.Unattended
	out, wait, err := g.enter(ctx, s.Organization, id, &w)
	if wait != nil {
		return g.await(ctx, wait, &w)
	}
	return orNone(out), err
}

// Status returns an invocation of the session.
func (g *Gate) Status(ctx context.Context, s *action.Session, id string) (action.Invocation, error) {
	rec, err := g.sessionRecord(ctx, s, id)
	if err != nil {
		return action.Invocation{}, err
	}
	return g.linked(rec.Invocation), nil
}

// Delivered notes that the outcome reached its caller. Without it, a repeat
// of the call is handed the outcome again.
func (g *Gate) Delivered(o *action.Outcome) {
	s := o.Invocation.Status
	if !o.Joins || (s != action.StatusCompleted && s != action.StatusFailed) {
		return
	}
	if err := g.Ledger.Delivered(context.Background(), o.Invocation.Organization, o.Invocation.ID, g.Now()); err != nil {
		g.Log.Error("noting a delivery", "invocation", o.Invocation.ID, "error", err)
	}
}

// Params returns the full canonical params of a held call, for the approver;
// of one that ended, the redacted ones.
func (g *Gate) Params(ctx context.Context, organization, id string) (raw []byte, full bool, err error) {
	rec, err := g.Ledger.Load(ctx, organization, id)
	if err != nil {
		return nil, false, err
	}
	if rec.SealedParams == nil {
		return rec.Params, false, nil
	}
	raw, err = g.Vault.Open(paramsRef(&rec.Invocation), rec.SealedParams)
	return raw, err == nil, err
}
