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

// ApproveRequest makes the grant that was asked for, or a narrower one. Errors:
// ErrInvalid with the field that is too wide; ErrTooMany (code
// "too_many_grants"); ErrNotFound; ErrGone when the request expired; ErrConflict when it was decided (the message says how and by
// whom) or its session ended; ErrForbidden (code "self_approval") when v.By made
// the session and may not approve its calls.
func (st *Store) ApproveRequest(ctx context.Context, v action.RequestVerdict) (req action.GrantRequest, g action.Grant, err error) {
	id, err := database.NewID()
	if err != nil {
		return action.GrantRequest{}, action.Grant{}, err
	}
	now := st.db.Now()
	req, err = st.decideRequest(ctx, v, now, func(ctx context.Context, tx bun.IDB, r *RequestRow, asked *action.GrantRequest) error {
		if err := sessions.MayDecide(ctx, tx, r.Organization, r.Session, v.By, now); err != nil {
			return err
		}
		terms := asked.Terms
		if v.Terms != nil {
			terms = *v.Terms
		}
		if err := terms.CheckNarrower(&asked.Terms); err != nil {
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
			g.ToolHash = asked.ToolHash
		}
		r.Status, r.Grant = string(action.RequestApproved), database.NullString(id)
		return st.PutGrant(ctx, tx, &g)
	})
	if err != nil {
		return action.GrantRequest{}, action.Grant{}, err
	}
	return req, g, nil
}

// DenyRequest refuses a request, and the same one for a while. Errors as of
// ApproveRequest, but that everybody who may decide may deny.
func (st *Store) DenyRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, error) {
	return st.decideRequest(ctx, v, st.db.Now(), func(_ context.Context, _ bun.IDB, r *RequestRow, _ *action.GrantRequest) error {
		r.Status = string(action.RequestDenied)
		return nil
	})
}

// decideRequest moves a pending request where decide says.
func (st *Store) decideRequest(
	ctx context.Context, v action.RequestVerdict, now time.Time,
	decide func(ctx context.Context, tx bun.IDB, r *RequestRow, asked *action.GrantRequest) error,
) (req action.GrantRequest, err error) {
	if v.By == "" {
		return action.GrantRequest{}, errors.New("a verdict needs the person who gives it")
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readRequest(ctx, tx, v.Organization, v.ID)
		if err != nil {
			return err
		}
		if err := undecided(ctx, tx, r, now); err != nil {
			return err
		}
		asked, err := r.request()
		if err != nil {
			return err
		}
		if err := decide(ctx, tx, r, &asked); err != nil {
			return err
		}
		r.DecidedBy, r.DecidedAt, r.DecidedNote = database.NullString(v.By), database.NewTimestamp(now), database.NullString(v.Note)
		if err := settleRequest(ctx, tx, r, now); err != nil {
			return err
		}
		if req, err = r.request(); err != nil {
			return err
		}
		change := action.PolicyEvent{Organization: r.Organization, Kind: action.EventRequest, Subject: r.ID, By: v.By}
		return st.history.RecordChange(ctx, tx, change, asked, req)
	})
	return req, err
}

// settleRequest writes a decision, by compare-and-swap: a sweep may come
// between.
func settleRequest(ctx context.Context, tx bun.IDB, r *RequestRow, now time.Time) error {
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
	return undecided(ctx, tx, stored, now)
}

// undecided says why a request is no longer pending, if it is not.
func undecided(ctx context.Context, tx bun.IDB, r *RequestRow, now time.Time) error {
	switch {
	case r.Status == string(action.RequestExpired), r.Status == string(action.RequestPending) && !r.ExpiresAt.Time.After(now):
		return action.Errorf(action.ErrGone, "request_expired", "This request expired before anyone decided; the agent has to ask again.")
	case r.Status == string(action.RequestPending):
		return nil
	}
	return action.Errorf(action.ErrConflict, "already_decided", "This request was already %s by %s.",
		r.Status, history.NameOf(ctx, tx, r.Organization, string(r.DecidedBy)))
}
