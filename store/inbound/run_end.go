package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/store/calls"
	"sallyport/store/database"
)

const (
	MaxRunResult  = 10 << 10 // bytes
	MaxRunMessage = 2000     // characters
	maxRunCode    = 64       // characters
)

// RunEnd describes how a run or its claim ends.
type RunEnd struct {
	Status   event.RunStatus
	Result   event.RunResult         // Status is ignored
	Delivery event.RunDeliveryStatus // of an active delivery; empty leaves it
	Note     string                  // why its calls are withdrawn
	// SessionUntil keeps the session alive until a time, without new calls. The
	// zero time revokes it.
	SessionUntil time.Time
	// resetAttempts resets the attempt count.
	resetAttempts bool
	// Finished is set if the worker ends the run: it may retry the request.
	Finished bool
	// leaseExpired ends the run only if its lease was not renewed since it was
	// read.
	leaseExpired bool
	// byPerson ends the run because of what a person did: nobody has to be asked to
	// look at it.
	byPerson bool
	// onlyUnstarted ends the run only if no call of its session changed
	// anything or still can. Otherwise nothing is written.
	onlyUnstarted bool
}

// errRunStarted reports that calls of the run's session may have changed
// something.
var errRunStarted = fmt.Errorf("the run has started: %w", ErrRunChanged)

// effectfulCalls selects the calls of a session that may have changed
// something.
func effectfulCalls(db bun.IDB, organization, session string) *bun.SelectQuery {
	return db.NewSelect().Table("all_calls").ColumnExpr("1").Where("organization_id = ?", organization).Where("session_id = ?", session).
		Where("risk <> ?", string(action.RiskRead)).Where("status IN ('approved', 'executing', 'completed', 'failed')")
}

// ValidateResult validates the result of a run and truncates long values.
func ValidateResult(e *event.RunResult, statuses ...event.RunStatus) error {
	switch {
	case !slices.Contains(statuses, e.Status):
		return database.Invalid("/status", fmt.Sprintf("A run can end only as one of %q.", statuses))
	case len(e.Code) > maxRunCode || strings.ContainsFunc(e.Code, func(r rune) bool { return r <= ' ' || r > '~' }):
		return database.Invalid("/code", fmt.Sprintf("A code can have at most %d letters, digits and signs without a space, such as tests_failed.", maxRunCode))
	case len(e.Result) > 0 && !json.Valid(e.Result):
		return database.Invalid("/result", "The result is not valid JSON. Send a JSON value, or leave it out.")
	}
	e.Message = TruncateMessage(e.Message)
	e.Result = redact.JSON{}.Prune(e.Result, MaxRunResult)
	return nil
}

// TruncateMessage returns valid text of at most [MaxRunMessage] characters.
func TruncateMessage(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if utf8.RuneCountInString(text) <= MaxRunMessage {
		return text
	}
	return string([]rune(text)[:MaxRunMessage-1]) + "…"
}

// EndRun ends the run or claim that r holds, and the claim's session, and
// updates r. [ErrRunChanged] if the claim changed since r was read: roll back
// the transaction.
//
// Lock order: the session, its calls, the run, its delivery. A call that begins
// locks the session and then changes the run; a decision locks the call and
// then changes the run.
func (st *Store) EndRun(ctx context.Context, tx bun.IDB, r *RunRow, e RunEnd, now time.Time) (withdrawn []action.Invocation, err error) {
	if r.Claim != "" {
		if e.SessionUntil.IsZero() {
			withdrawn, err = calls.RevokeSession(ctx, tx, r.Organization, string(r.Session), now, e.Note)
		} else {
			withdrawn, err = calls.CompleteSession(ctx, tx, r.Organization, string(r.Session), now, e.SessionUntil, e.Note)
		}
		if err != nil {
			return nil, err
		}
	}
	if e.leaseExpired && len(withdrawn) > 0 {
		return nil, ErrRunChanged // it needs a person since it was read
	}
	if e.onlyUnstarted {
		// The session is locked, so no call of it can begin.
		started, err := database.Exists(ctx, effectfulCalls(tx, r.Organization, string(r.Session)))
		if err != nil {
			return nil, fmt.Errorf("reading the calls of run %s: %w", r.ID, err)
		}
		if started || len(withdrawn) > 0 {
			return nil, errRunStarted
		}
	}
	swap := tx.NewUpdate().Model(r).Column("status", "attempt", "claim_id", "last_claim", "claimed_by", "lease_until", "lease_seconds", "deadline",
		"code", "message", "result", "attention_id", "started_at", "completed_at").WherePK()
	swap = r.whereUnchanged(swap)
	if e.leaseExpired {
		swap = swap.Where("lease_until = ?", r.LeaseUntil)
	}
	if err := r.applyEnd(e, now); err != nil {
		return nil, err
	}
	if err := checkSwapped(database.RowsAffected(swap.Exec(ctx))); err != nil {
		return nil, fmt.Errorf("ending run %s: %w", r.ID, err)
	}
	if e.Delivery != "" {
		if err := endRunDelivery(ctx, tx, r.ID, e.Delivery, now); err != nil {
			return nil, err
		}
	}
	if e.Status == event.RunQueued {
		return withdrawn, insertRunDelivery(ctx, tx, r, now)
	}
	return withdrawn, nil
}

// whereUnchanged restricts q to the run while its claim is unchanged. Calls and
// decisions change only its status.
func (r *RunRow) whereUnchanged(q *bun.UpdateQuery) *bun.UpdateQuery {
	if r.Claim != "" {
		return q.Where("claim_id = ?", string(r.Claim))
	}
	return q.Where("claim_id IS NULL").Where("status = ?", r.Status)
}

// applyEnd updates the row for the end. The session stays set.
func (r *RunRow) applyEnd(e RunEnd, now time.Time) error {
	r.Attention = ""
	if r.is(event.RunFailed) && e.Status == event.RunFailed && e.Result.Code == "" && e.Result.Message == "" && e.Result.Result == nil {
		return nil // a person has seen it; why it failed stays
	}
	if !e.byPerson && (e.Status == event.RunNeedsHuman || e.Status == event.RunFailed) {
		id, err := database.NewID()
		if err != nil {
			return err
		}
		r.Attention = database.NullString(id)
	}
	r.Status, r.Waiting, r.LastClaim = string(e.Status), 0, ""
	if e.Finished {
		r.LastClaim = r.Claim
	}
	r.Claim, r.LeaseUntil, r.LeaseSeconds, r.Deadline, r.CompletedAt = "", database.Timestamp{}, nil, database.Timestamp{}, database.Timestamp{}
	r.Code, r.Message, r.Result = database.NullString(e.Result.Code), database.NullString(e.Result.Message), database.NullString(e.Result.Result)
	switch {
	case e.Status.Ended():
		r.CompletedAt = database.NewTimestamp(now)
	case e.Status == event.RunQueued:
		r.ClaimedBy, r.StartedAt = "", database.Timestamp{}
		if e.resetAttempts {
			r.Attempt = 0
		}
	}
	return nil
}

// CancelRun ends an active run on behalf of a person. Its pending calls are
// withdrawn and returned. ErrNotFound; ErrConflict.
func (st *Store) CancelRun(ctx context.Context, organization, id, by, reason string) (event.Run, []action.Invocation, error) {
	end := RunEnd{
		Status: event.RunFailed, Result: event.RunResult{Code: event.RunCancelled, Message: TruncateMessage(reason)},
		Delivery: event.DeliveryVoid, Note: "The run was cancelled.",
	}
	return st.endByPerson(ctx, organization, id, by, end, func(_ context.Context, _ bun.IDB, r *RunRow) error {
		if event.RunStatus(r.Status).Ended() {
			return action.NewError("run_ended", r.Status)
		}
		return nil
	})
}

// ResolveRun ends a run that needs a human, or replaces the result of a failed run
// that needs attention, with the person's result. A failed run that fails without
// one only stops to need attention. ErrInvalid with a field of the result;
// ErrNotFound; ErrConflict for other runs, and for a run whose worker continues when
// its calls are decided.
func (st *Store) ResolveRun(ctx context.Context, organization, id, by string, e event.RunResult) (event.Run, error) {
	if err := ValidateResult(&e, event.RunSucceeded, event.RunFailed); err != nil {
		return event.Run{}, err
	}
	run, _, err := st.endByPerson(ctx, organization, id, by, RunEnd{Status: e.Status, Result: e, Delivery: event.DeliveryVoid}, func(ctx context.Context, tx bun.IDB, r *RunRow) error {
		if r.Attention != "" {
			return nil
		}
		return checkNeedsHuman(ctx, tx, r)
	})
	return run, err
}

// checkNeedsHuman returns an error unless the worker left the run to a person.
func checkNeedsHuman(_ context.Context, _ bun.IDB, r *RunRow) error {
	switch {
	case !r.is(event.RunNeedsHuman):
		return action.NewError("run_needs_nobody", r.Status)
	case r.Claim != "":
		return action.NewError("run_has_worker")
	}
	return nil
}

// RedriveRun queues a run again that failed or that its worker left to a
// person. ErrNotFound; ErrConflict for other runs and if the automation was
// deleted.
func (st *Store) RedriveRun(ctx context.Context, organization, id, by string) (event.Run, error) {
	end := RunEnd{Status: event.RunQueued, Delivery: event.DeliveryVoid, resetAttempts: true}
	run, _, err := st.endByPerson(ctx, organization, id, by, end, func(ctx context.Context, tx bun.IDB, r *RunRow) error {
		if !r.is(event.RunFailed) {
			if !r.is(event.RunNeedsHuman) {
				return action.NewError("run_not_failed", r.Status)
			}
			if err := checkNeedsHuman(ctx, tx, r); err != nil {
				return err
			}
		}
		_, err := readAutomation(ctx, tx, r.Organization, r.Automation)
		if errors.Is(err, action.ErrNotFound) {
			return action.NewError("automation_gone")
		}
		return err
	})
	return run, err
}

// MaxConflictTries is how often a person's action is tried on a run that
// changes concurrently.
const MaxConflictTries = 5

// endByPerson ends a run on behalf of a person, if check allows it, and records
// the change. The transaction is exclusive, so the automation is not deleted
// meanwhile.
func (st *Store) endByPerson(
	ctx context.Context, organization, id, by string, e RunEnd, check func(context.Context, bun.IDB, *RunRow) error,
) (run event.Run, withdrawn []action.Invocation, err error) {
	if by == "" {
		return event.Run{}, nil, errors.New("an action on a run needs a person")
	}
	e.byPerson = true
	for range MaxConflictTries {
		err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
			r, err := ReadRun(ctx, tx, organization, id)
			if err != nil {
				return err
			}
			if err := check(ctx, tx, r); err != nil {
				return err
			}
			before := r.snapshot()
			if withdrawn, err = st.EndRun(ctx, tx, r, e, st.db.Now()); err != nil {
				return err
			}
			run = r.run()
			change := action.PolicyEvent{Organization: organization, Kind: action.EventRun, Subject: id, By: by}
			return st.history.RecordChange(ctx, tx, change, before, r.snapshot())
		})
		if !errors.Is(err, ErrRunChanged) {
			break
		}
	}
	if errors.Is(err, ErrRunChanged) {
		err = fmt.Errorf("%w: %w", err, action.NewError("run_moved"))
	}
	if err != nil {
		return event.Run{}, nil, err
	}
	return run, withdrawn, nil
}

// snapshot returns what history events hold of a run.
func (r *RunRow) snapshot() any {
	return struct {
		Automation string              `json:"automation_id"`
		Status     string              `json:"status"`
		Attempt    int                 `json:"attempt"`
		ClaimedBy  database.NullString `json:"claimed_by,omitempty"`
		Session    database.NullString `json:"session_id,omitempty"`
		Code       database.NullString `json:"code,omitempty"`
		Message    database.NullString `json:"message,omitempty"`
		Attention  bool                `json:"needs_attention,omitempty"`
	}{r.Automation, r.Status, r.Attempt, r.ClaimedBy, r.Session, r.Code, r.Message, r.Attention != ""}
}
