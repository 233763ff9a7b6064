package inbound

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// CancelRun ends a run that has not ended, in a person's name; calls of it that
// wait are withdrawn and returned. ErrNotFound; ErrConflict.
func (st *Store) CancelRun(ctx context.Context, organization, id, by, reason string) (event.Run, []action.Invocation, error) {
	end := RunEnd{
		Status: event.RunFailed, Result: event.RunResult{Code: event.RunCancelled, Message: TruncateMessage(reason)},
		Parcel: event.ParcelVoid, Note: "The run was cancelled.",
	}
	return st.endByPerson(ctx, organization, id, by, end, func(_ context.Context, _ bun.IDB, r *RunRow) error {
		if event.RunStatus(r.Status).Ended() {
			return action.NewError("run_ended", r.Status)
		}
		return nil
	})
}

// ResolveRun ends a run that needs a human as a person says, who did it himself
// or gave it up. ErrInvalid with a field of the ending; ErrNotFound; ErrConflict
// for other runs, and for one whose worker goes on once its calls are decided.
func (st *Store) ResolveRun(ctx context.Context, organization, id, by string, e event.RunResult) (event.Run, error) {
	if err := ValidateResult(&e, event.RunSucceeded, event.RunFailed); err != nil {
		return event.Run{}, err
	}
	run, _, err := st.endByPerson(ctx, organization, id, by, RunEnd{Status: e.Status, Result: e, Parcel: event.ParcelVoid}, checkNeedsHuman)
	return run, err
}

// checkNeedsHuman is nil for a run whose worker left it to a person.
func checkNeedsHuman(_ context.Context, _ bun.IDB, r *RunRow) error {
	switch {
	case !r.is(event.RunNeedsHuman):
		return action.NewError("run_needs_nobody", r.Status)
	case r.Claim != "":
		return action.NewError("run_has_worker")
	}
	return nil
}

// RedriveRun queues a run anew that failed, or that its worker left to a person.
// ErrNotFound; ErrConflict for others, and when its automation is gone.
func (st *Store) RedriveRun(ctx context.Context, organization, id, by string) (event.Run, error) {
	end := RunEnd{Status: event.RunQueued, Parcel: event.ParcelVoid, resetAttempts: true}
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

// MaxConflictTries is how often a person's act is tried on a run that moves meanwhile.
const MaxConflictTries = 5

// act ends a run in a person's name, when it may be, and writes that down. No
// automation is deleted at the same time, whose runs nobody could take.
func (st *Store) endByPerson(
	ctx context.Context, organization, id, by string, e RunEnd, check func(context.Context, bun.IDB, *RunRow) error,
) (run event.Run, withdrawn []action.Invocation, err error) {
	if by == "" {
		return event.Run{}, nil, errors.New("an act on a run needs the person whose it is")
	}
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

// told is what history says of a run.
func (r *RunRow) snapshot() any {
	return struct {
		Automation string              `json:"automation_id"`
		Status     string              `json:"status"`
		Attempt    int                 `json:"attempt"`
		ClaimedBy  database.NullString `json:"claimed_by,omitempty"`
		Session    database.NullString `json:"session_id,omitempty"`
		Code       database.NullString `json:"code,omitempty"`
		Message    database.NullString `json:"message,omitempty"`
	}{r.Automation, r.Status, r.Attempt, r.ClaimedBy, r.Session, r.Code, r.Message}
}

// SelectRunOfSession returns the run that a session works on, or worked on before
// another one did; ErrNotFound.
func (st *Store) RunOfSession(ctx context.Context, organization, session string) (event.Run, error) {
	r, err := FirstRun(ctx, func(dest any) *bun.SelectQuery { return SelectRunOfSession(st.db.Read, dest, organization, session) })
	if err != nil {
		return event.Run{}, err
	}
	return r.run(), nil
}

func SelectRunOfSession(db bun.IDB, dest any, organization, session string) *bun.SelectQuery {
	return SelectRuns(db, dest).Join("JOIN sessions AS s ON "+sessions.MadeByRun, action.AutomationCreator("")).
		Where("s.organization_id = ?", organization).Where("s.id = ?", session).Where("r.organization_id = ?", organization)
}

// sessionOrigin is of a session with an event.
type sessionOrigin struct {
	Session string              `bun:"id"`
	Event   string              `bun:"event_id"`
	Run     database.NullString `bun:"run_id"`
	Status  database.NullString `bun:"status"`
	Message database.NullString `bun:"message"`
}

// SelectSessionOrigins returns what sessions were minted for, by their ids: those
// that were minted for no event are left out.
func (st *Store) OriginsOfSessions(ctx context.Context, organization string, ids []string) (map[string]event.SessionOrigin, error) {
	origins := map[string]event.SessionOrigin{}
	for batch := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		var rows []sessionOrigin
		if err := SelectSessionOrigins(st.db.Read, organization, batch).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("reading what sessions were minted for: %w", err)
		}
		for _, r := range rows {
			origins[r.Session] = event.SessionOrigin{Event: r.Event, Run: string(r.Run), Status: event.RunStatus(r.Status), Message: string(r.Message)}
		}
	}
	return origins, nil
}

func SelectSessionOrigins(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("sessions AS s").ColumnExpr("s.id, s.event_id, r.id AS run_id").
		ColumnExpr("CASE WHEN r.session_id = s.id THEN r.status END AS status, CASE WHEN r.session_id = s.id THEN substr(r.message, 1, 500) END AS message").
		Join("LEFT JOIN runs AS r ON r.organization_id = s.organization_id AND "+sessions.MadeByRun, action.AutomationCreator("")).
		Where("s.organization_id = ?", organization).Where("s.id IN (?)", bun.List(ids)).Where("s.event_id IS NOT NULL")
}
