package action

import "context"

// Gate is the one door to effects.
type Gate struct{}

// Call runs an action for a session: it checks, decides, records, holds and
// executes, and returns when the invocation ended or the caller's patience
// did. Errors, with no row behind them: ErrInvalid (params, named field),
// ErrNotFound (no such action), ErrUnauthenticated, ErrTooMany, ErrTooLarge,
// ErrConflict (idempotency key), ErrUnavailable.
func (g *Gate) Call(ctx context.Context, c Call) (Outcome, error) { panic("soon") }

// Wait waits for an invocation of the session as its caller would.
func (g *Gate) Wait(ctx context.Context, s *Session, id string, w Waiting) (Outcome, error) {
	panic("soon")
}

// Status returns an invocation of the session.
func (g *Gate) Status(ctx context.Context, s *Session, id string) (Invocation, error) { panic("soon") }

// Delivered notes that the outcome reached its caller. Without it, a repeat
// of the call is handed the outcome again.
func (g *Gate) Delivered(o Outcome) {}

// Available lists the actions that the session may call or ask for, denied
// ones left out, with a version that changes when the list may have.
func (g *Gate) Available(ctx context.Context, s *Session) (list []Available, version string, err error) {
	panic("soon")
}

// Approve lets a held call run; Deny refuses it for good.
func (g *Gate) Approve(ctx context.Context, v Verdict) (Invocation, error) { panic("soon") }

// Deny refuses a held call for good. See Approve.
func (g *Gate) Deny(ctx context.Context, v Verdict) (Invocation, error) { panic("soon") }

// Params returns the full canonical params of a held call, for the approver;
// after it ended, the redacted ones.
func (g *Gate) Params(ctx context.Context, organization, id string) (raw []byte, full bool, err error) {
	panic("soon")
}
