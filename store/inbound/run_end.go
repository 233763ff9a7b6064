package inbound

import (
	"context"
	"encoding/json"
	"fmt"
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

// RunEnd is how the claim of a run ends, or a run that nobody has.
type RunEnd struct {
	Status event.RunStatus
	Result event.RunResult    // its outcome; Status is not looked at
	Parcel event.ParcelStatus // of a delivery that is under way; empty: it stays
	Note   string             // why its calls are withdrawn
	// SessionUntil is how long the session lives on, though it may do nothing new. The
	// zero time: it is revoked.
	SessionUntil time.Time
	// fresh tells that the run has its attempts anew.
	resetAttempts bool
	// Finished tells that its worker ends it, who may ask again.
	Finished bool
	// lapsed tells that it ends for its lease, unless that began anew.
	leaseExpired bool
	// unbegun tells that it ends so unless a call of its session may have changed
	// something, or may yet: then nothing is written.
	onlyUnstarted bool
}

// errRunStarted tells that calls of a run's session say that it was begun.
var errRunStarted = fmt.Errorf("the run was begun: %w", ErrRunChanged)

// begun finds the calls of a session that may have changed something.
func effectfulCalls(db bun.IDB, organization, session string) *bun.SelectQuery {
	return db.NewSelect().Table("invocations").ColumnExpr("1").Where("organization_id = ?", organization).Where("session_id = ?", session).
		Where("risk <> ?", string(action.RiskRead)).Where("status IN ('approved', 'executing', 'completed', 'failed')")
}

// ValidateResult refuses what no run ends with, and shortens what is too long.
func ValidateResult(e *event.RunResult, statuses ...event.RunStatus) error {
	ok := false
	for _, s := range statuses {
		ok = ok || e.Status == s
	}
	switch {
	case !ok:
		return database.Invalid("/status", fmt.Sprintf("A run ends here as one of %q.", statuses))
	case len(e.Code) > maxRunCode || strings.ContainsFunc(e.Code, func(r rune) bool { return r <= ' ' || r > '~' }):
		return database.Invalid("/code", fmt.Sprintf("A code is at most %d letters, digits and signs without a space, as tests_failed.", maxRunCode))
	case len(e.Result) > 0 && !json.Valid(e.Result):
		return database.Invalid("/result", "The result is not JSON; give a JSON value, or leave it out.")
	}
	e.Message = TruncateMessage(e.Message)
	e.Result = redact.JSON{}.Prune(e.Result, MaxRunResult)
	return nil
}

// TruncateMessage is text that a row can keep.
func TruncateMessage(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if utf8.RuneCountInString(text) <= MaxRunMessage {
		return text
	}
	return string([]rune(text)[:MaxRunMessage-1]) + "…"
}

// EndRun ends the claim of a run as it was read, and its session with it; r is
// then as it was written. ErrRunChanged when another claim, or none, is there by
// now: then its transaction must be undone.
//
// The session comes first, then its calls, then the run, then its delivery: a
// call that begins holds the session and then changes the run, and so does a
// decision with its call.
func (st *Store) EndRun(ctx context.Context, tx bun.IDB, r *RunRow, e RunEnd, now time.Time) (withdrawn []action.Invocation, err error) {
	if r.Claim != "" {
		if withdrawn, err = e.endSession(ctx, tx, r, now); err != nil {
			return nil, err
		}
	}
	if e.leaseExpired && len(withdrawn) > 0 {
		return nil, ErrRunChanged // it waits for a person since it was looked at
	}
	if e.onlyUnstarted {
		// The session is locked by now, and no call of it begins any more.
		started, err := database.Exists(ctx, effectfulCalls(tx, r.Organization, string(r.Session)))
		if err != nil {
			return nil, fmt.Errorf("looking for calls of run %s: %w", r.ID, err)
		}
		if started || len(withdrawn) > 0 {
			return nil, errRunStarted
		}
	}
	swap := tx.NewUpdate().Model(r).Column("status", "attempt", "claim_id", "last_claim", "claimed_by", "lease_until", "lease_seconds", "deadline",
		"code", "message", "result", "started_at", "completed_at").WherePK()
	swap = r.whereUnchanged(swap)
	if e.leaseExpired {
		swap = swap.Where("lease_until = ?", r.LeaseUntil)
	}
	r.applyEnd(e, now)
	if err := checkSwapped(database.RowsAffected(swap.Exec(ctx))); err != nil {
		return nil, fmt.Errorf("ending run %s: %w", r.ID, err)
	}
	if e.Parcel != "" {
		if err := endParcel(ctx, tx, r.ID, e.Parcel, now); err != nil {
			return nil, err
		}
	}
	if e.Status == event.RunQueued {
		return withdrawn, insertParcel(ctx, tx, r, now)
	}
	return withdrawn, nil
}

func (e *RunEnd) endSession(ctx context.Context, tx bun.IDB, r *RunRow, now time.Time) ([]action.Invocation, error) {
	if e.SessionUntil.IsZero() {
		return calls.RevokeSession(ctx, tx, r.Organization, string(r.Session), now, e.Note)
	}
	return calls.CompleteSession(ctx, tx, r.Organization, string(r.Session), now, e.SessionUntil, e.Note)
}

// whereUnchanged restricts q to the run while it is in the same hands. Calls that begin
// and are decided move its status, and no more.
func (r *RunRow) whereUnchanged(q *bun.UpdateQuery) *bun.UpdateQuery {
	if r.Claim != "" {
		return q.Where("claim_id = ?", string(r.Claim))
	}
	return q.Where("claim_id IS NULL").Where("status = ?", r.Status)
}

// end is the row as it is afterwards. Its session stays noted.
func (r *RunRow) applyEnd(e RunEnd, now time.Time) {
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
}
