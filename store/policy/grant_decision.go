package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/sessions"
)

// ApproveRequest creates the requested grant, or a narrower one. Errors: ErrInvalid
// with the field that is wider than requested; ErrTooMany (code "too_many_grants");
// ErrNotFound; ErrGone if the request has expired; ErrConflict if it is decided (the
// message names the decision and the user) or its session has ended; ErrForbidden
// (code "self_approval") if v.By created the session and may not approve its calls.
func (st *Store) ApproveRequest(ctx context.Context, v action.RequestVerdict) (req action.GrantRequest, g action.Grant, err error) {
	id, err := database.NewID()
	if err != nil {
		return action.GrantRequest{}, action.Grant{}, err
	}
	now := st.db.Now()
	req, err = st.decideRequest(ctx, v, now, func(ctx context.Context, tx bun.IDB, r *RequestRow, requested *action.GrantRequest) error {
		if err := sessions.CheckApproval(ctx, tx, r.Organization, r.Session, v.By, now); err != nil {
			return err
		}
		terms := requested.Terms
		if v.Terms != nil {
			terms = *v.Terms
		}
		if err := terms.CheckNarrower(&requested.Terms); err != nil {
			return err
		}
		if err := terms.Check(now); err != nil {
			return err
		}
		g = action.Grant{
			ID: id, Organization: r.Organization, Terms: terms, Request: r.ID, CreatedBy: v.By, CreatedAt: now,
		}
		if terms.Scope == action.ScopeSession {
			g.Session = r.Session
		}
		if !terms.Any {
			g.ToolHash = requested.ToolHash
		}
		r.Status, r.Grant = string(action.RequestApproved), database.NullString(id)
		return st.PutGrant(ctx, tx, &g)
	})
	if err != nil {
		return action.GrantRequest{}, action.Grant{}, err
	}
	return req, g, nil
}

// DenyRequest denies a request, and the same request for some time. It has the errors
// of [Store.ApproveRequest], except that a user may deny requests of their own
// session.
func (st *Store) DenyRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, error) {
	return st.decideRequest(ctx, v, st.db.Now(), func(_ context.Context, _ bun.IDB, r *RequestRow, _ *action.GrantRequest) error {
		r.Status = string(action.RequestDenied)
		return nil
	})
}

// decideRequest applies decide to a pending request, and stores and records the result.
func (st *Store) decideRequest(
	ctx context.Context, v action.RequestVerdict, now time.Time,
	decide func(ctx context.Context, tx bun.IDB, r *RequestRow, requested *action.GrantRequest) error,
) (req action.GrantRequest, err error) {
	if v.By == "" {
		return action.GrantRequest{}, errors.New("a decision needs the user that makes it")
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readRequest(ctx, tx, v.Organization, v.ID)
		if err != nil {
			return err
		}
		if err := checkPending(ctx, tx, r, now); err != nil {
			return err
		}
		before, err := r.request()
		if err != nil {
			return err
		}
		if err := decide(ctx, tx, r, &before); err != nil {
			return err
		}
		r.DecidedBy, r.DecidedAt, r.DecidedNote = database.NullString(v.By), database.NewTimestamp(now), database.NullString(v.Note)
		if err := writeDecision(ctx, tx, r, now); err != nil {
			return err
		}
		if req, err = r.request(); err != nil {
			return err
		}
		change := action.PolicyEvent{Organization: r.Organization, Kind: action.EventRequest, Subject: r.ID, By: v.By}
		return st.history.RecordChange(ctx, tx, change, before, req)
	})
	return req, err
}

// writeDecision writes a decision by compare-and-swap, because a sweep may have
// expired the request.
func writeDecision(ctx context.Context, tx bun.IDB, r *RequestRow, now time.Time) error {
	n, err := database.RowsAffected(tx.NewUpdate().Model(r).Column("status", "grant_id", "decided_by", "decided_at", "decided_note").
		WherePK().Where("status = 'pending'").Exec(ctx))
	if err != nil {
		return fmt.Errorf("deciding request %s: %w", r.ID, err)
	}
	if n > 0 {
		return nil
	}
	stored, err := readRequest(ctx, tx, r.Organization, r.ID)
	if err != nil {
		return err
	}
	return checkPending(ctx, tx, stored, now)
}

// checkPending returns why a request is no longer pending, or nil if it is.
func checkPending(ctx context.Context, tx bun.IDB, r *RequestRow, now time.Time) error {
	switch {
	case r.Status == string(action.RequestExpired), r.Status == string(action.RequestPending) && !r.ExpiresAt.Time.After(now):
		return action.Errorf(action.ErrGone, "request_expired", "This request expired before anyone decided; the agent has to ask again.")
	case r.Status == string(action.RequestPending):
		return nil
	}
	return action.Errorf(action.ErrConflict, "already_decided", "This request was already %s by %s.",
		r.Status, history.UserName(ctx, tx, r.Organization, string(r.DecidedBy)))
}
