package action

import "context"

// Approve lets a held call run. It changes the row and runs nothing itself:
// the instance where a caller waits claims it, or any other a moment later.
func (g *Gate) Approve(ctx context.Context, v Verdict) (Invocation, error) {
	v.Now = g.Now()
	return g.settled(g.Ledger.Approve(ctx, v))
}

// Deny refuses a held call, and the same call for Config.DenialHolds.
func (g *Gate) Deny(ctx context.Context, v Verdict) (Invocation, error) {
	v.Now = g.Now()
	return g.settled(g.Ledger.Deny(ctx, v))
}

func (g *Gate) settled(inv Invocation, err error) (Invocation, error) {
	if err != nil {
		return inv, err
	}
	g.announce(inv)
	return g.linked(inv), nil
}

// Wait waits for an invocation of the session as its caller would.
func (g *Gate) Wait(ctx context.Context, s *Session, id string, w Waiting) (Outcome, error) {
	if !g.work.add() {
		return Outcome{}, errDraining()
	}
	defer g.work.done()
	if _, err := g.Status(ctx, s, id); err != nil {
		return Outcome{}, err
	}
	w.unattended = s.Kind == Unattended
	out, wait, err := g.enter(ctx, s.Organization, id)
	if wait != nil {
		return g.await(ctx, wait, &w)
	}
	out.joins = true
	return out, err
}

// Status returns an invocation of the session.
func (g *Gate) Status(ctx context.Context, s *Session, id string) (Invocation, error) {
	rec, err := g.Ledger.Load(ctx, s.Organization, id)
	if err != nil {
		return Invocation{}, unread(err, id)
	}
	if rec.Session != s.ID {
		return Invocation{}, Errorf(ErrNotFound, "unknown_invocation", "This session has no such invocation.")
	}
	return g.linked(rec.Invocation), nil
}

// Delivered notes that the outcome reached its caller. Without it, a repeat
// of the call is handed the outcome again.
func (g *Gate) Delivered(o Outcome) {
	s := o.Invocation.Status
	if !o.joins || (s != StatusCompleted && s != StatusFailed) {
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
