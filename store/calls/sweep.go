package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	sessionsrows "sallyport/store/sessions"
)

// unknownOutcome is the error message of executions whose instance died.
const unknownOutcome = "The gateway lost track of this call while it was executing: it may or may not have happened. " +
	"Check at the service before you try again."

// Sweep describes the rows of one kind of overdue work and their end. where repeats the
// predicate of a partial index word for word.
type Sweep struct {
	Name        string
	table       string
	where       string
	order       string
	set         map[string]string // expressions of the columns that change
	args        []any             // of where and set: ?0 is now
	keepsStatus bool              // its rows ended before
}

// Sweeps returns the sweeps of the rules.
func Sweeps(r action.SweepRules) []Sweep {
	now := database.NewTimestamp(r.Now)
	before := func(t time.Time) database.Timestamp { return database.NewTimestamp(t).Or(database.Epoch) }
	lostWhere := "status = 'executing' AND lease_until < ?1"
	if r.SoleInstance != "" {
		lostWhere = "status = 'executing' AND (lease_until < ?1 OR executor <> ?5)"
	}
	return []Sweep{
		{
			Name: "expired", table: "open_calls", order: "expires_at", where: "status = 'pending' AND expires_at <= ?0", args: []any{now},
			set: map[string]string{"status": "'expired'", "completed_at": "?0"},
		},
		{
			// The index is by created_at, which is never after waiter_seen_at: an
			// index by the latter would be written each time that a caller is
			// seen, and PostgreSQL would write every other one with it.
			Name: "withdrawn", table: "open_calls", order: "created_at",
			where: "status = 'pending' AND unattended = 0 AND answered = 0 AND created_at < ?1 AND waiter_seen_at < ?1",
			args:  []any{now, before(r.SeenBefore)},
			set:   map[string]string{"status": "'denied'", "denied_reason": "'" + action.DeniedWithdrawn + "'", "completed_at": "?0"},
		},
		{
			Name: "unclaimed", table: "open_calls", order: "approved_at", where: "status = 'approved' AND approved_at < ?1",
			args: []any{now, before(r.ApprovedBefore)},
			set:  map[string]string{"status": "'expired'", "completed_at": "?0"},
		},
		{
			Name: "lost", table: "open_calls", order: "lease_until", where: lostWhere,
			args: []any{
				now, before(r.LeaseBefore), unknownOutcome,
				database.NewTimestamp(r.Now.Add(r.PickupUnattended)), database.NewTimestamp(r.Now.Add(r.PickupInteractive)), r.SoleInstance,
			},
			set: map[string]string{
				"status": "'failed'", "error_code": "'" + action.FailedUnknown + "'", "error_message": "?2", "completed_at": "?0",
				"pickup_until": "CASE WHEN unattended = 1 THEN ?3 WHEN unattended = 0 THEN ?4 ELSE CAST(NULL AS TIMESTAMPTZ) END",
			},
		},
		{
			Name: "sealed", table: "invocations", order: "pickup_until", where: "sealed_result IS NOT NULL AND pickup_until < ?0", args: []any{now},
			keepsStatus: true,
		},
	}
}

// Sweep implements [action.Ledger]. Each kind of work is a transaction of its
// own, and none when there is nothing to do, so that calls get between them;
// what one did stays done when another fails.
func (st *Store) Sweep(ctx context.Context, r action.SweepRules) (done action.Swept, err error) {
	if r.Limit <= 0 {
		r.Limit = 100
	}
	var errs []error
	for _, s := range Sweeps(r) {
		list, n, err := st.sweep(ctx, s, r.Limit)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweeping %s invocations: %w", s.Name, err))
		}
		if errors.Is(err, action.ErrUnavailable) {
			return done, errors.Join(errs...) // the others would only wait as long again
		}
		for _, inv := range list {
			st.executing.Take(inv.Organization, inv.ID)
		}
		done.Ended = append(done.Ended, list...)
		done.Results += n
	}
	if done.Keys, err = st.sweepKeys(ctx, r); err != nil {
		errs = append(errs, fmt.Errorf("sweeping idempotency keys: %w", err))
	}
	if done.Rounds, err = st.sweepRounds(ctx, r.Now, r.Limit); err != nil {
		errs = append(errs, err)
	}
	return done, errors.Join(errs...)
}

// Select selects the overdue rows of a sweep.
func (s Sweep) Select(q *bun.SelectQuery, limit int) *bun.SelectQuery {
	return q.Table(s.table).Column("id").Where(s.where, s.args...).Order(s.order).Limit(int64(limit))
}

// Update ends the rows of a sweep, skipping rows that another process has locked. ARRAY
// evaluates the subquery once; otherwise it might run several times and exceed the limit.
func (s Sweep) Update(db bun.IDB, limit int) *bun.RawQuery {
	due := fmt.Sprintf("SELECT id FROM %s WHERE %s ORDER BY %s LIMIT %d", s.table, s.where, s.order, limit)
	where := "id IN (" + due + ") AND " + s.where
	if database.Shared(db) {
		where = "id = ANY (ARRAY(" + due + " FOR UPDATE SKIP LOCKED)) AND " + s.where
	}
	if s.keepsStatus {
		return db.NewRaw("UPDATE invocations SET sealed_result = NULL WHERE "+where, s.args...)
	}
	return db.NewRaw(endSQL(database.Shared(db), s.set, where)+" RETURNING "+publicColumnList, s.args...)
}

// sweep returns the invocations that it ended, or the number of others that it changed.
func (st *Store) sweep(ctx context.Context, s Sweep, limit int) (ended []action.Invocation, kept int, err error) {
	// Check with a read first: usually there is nothing to do for the writer.
	found, err := database.Exists(ctx, s.Select(st.db.Read.NewSelect(), 1))
	if err != nil || !found {
		return nil, 0, err
	}
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		q := s.Update(tx, limit)
		if s.keepsStatus {
			n, err := database.RowsAffected(q.Exec(ctx))
			kept = n
			return err
		}
		ended, err = scanInvocations(ctx, q)
		return err
	}})
	if err != nil {
		return nil, 0, err
	}
	return ended, kept, nil
}

// minKeyAge is how old a key is before a sweep looks whether it still means
// anything; longer than any hold and pick-up together.
const minKeyAge = 72 * time.Hour

// ExpiredKeys finds idempotency keys that no longer have any effect.
func ExpiredKeys(q *bun.SelectQuery, r action.SweepRules, limit int) *bun.SelectQuery {
	return q.TableExpr("idempotency_keys AS k").Join("JOIN invocations AS i ON i.id = k.invocation_id").
		Where("k.created_at < ?", database.NewTimestamp(r.Now.Add(-minKeyAge))).
		Where("i.completed_at IS NOT NULL").Where("i.pickup_until IS NULL OR i.pickup_until < ?", database.NewTimestamp(r.Now)).
		Order("k.created_at").Limit(int64(limit))
}

// DeleteExpiredKeys deletes the keys that [ExpiredKeys] finds, as [database.Expired.Remove] does.
func DeleteExpiredKeys(db bun.IDB, r action.SweepRules) *bun.DeleteQuery {
	due, q := ExpiredKeys(db.NewSelect(), r, r.Limit), db.NewDelete().Table("idempotency_keys")
	if database.Shared(db) {
		return q.Where("ctid = ANY (ARRAY(?))", due.ColumnExpr("k.ctid").For("UPDATE OF k SKIP LOCKED"))
	}
	return q.Where("invocation_id IN (?)", due.Column("k.invocation_id")).Where("created_at < ?", database.NewTimestamp(r.Now.Add(-minKeyAge)))
}

// sweepKeys deletes expired idempotency keys and returns their number.
func (st *Store) sweepKeys(ctx context.Context, r action.SweepRules) (n int, err error) {
	found, err := database.Exists(ctx, ExpiredKeys(st.db.Read.NewSelect(), r, 1).Column("k.invocation_id"))
	if err != nil || !found {
		return 0, err
	}
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		deleted, err := database.RowsAffected(DeleteExpiredKeys(tx, r).Exec(ctx))
		n = deleted
		return err
	}})
	return n, err
}

type eventRow struct {
	bun.BaseModel `bun:"table:invocation_events"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Invocation   string              `bun:"invocation_id"`
	Kind         string              `bun:"kind"`
	By           database.NullString `bun:"by"`
	At           database.Timestamp  `bun:"at"`
	Data         string              `bun:"data"`
}

// AppendEvent writes e to the history of its invocation.
func (st *Store) AppendEvent(ctx context.Context, e action.Event) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := st.LoadInTx(ctx, tx, e.Organization, e.Invocation); err != nil {
			return err
		}
		return appendEvent(ctx, tx, &e)
	})
}

// appendEvent appends e and fills in its id. With the same id again, it is the
// same event.
func appendEvent(ctx context.Context, tx bun.IDB, e *action.Event) (err error) {
	if e.ID == "" {
		if e.ID, err = database.NewID(); err != nil {
			return err
		}
	}
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("{}")
	}
	_, err = tx.NewInsert().Model(&eventRow{
		ID: e.ID, Organization: e.Organization, Invocation: e.Invocation, Kind: e.Kind, By: database.NullString(e.By), At: database.NewTimestamp(e.At), Data: string(e.Data),
	}).On("CONFLICT (id) DO NOTHING").Exec(ctx)
	if err != nil {
		return fmt.Errorf("appending an event to invocation %s: %w", e.Invocation, err)
	}
	return nil
}

// Events returns the events of an invocation, oldest first.
func (st *Store) Events(ctx context.Context, organization, invocation string) ([]action.Event, error) {
	q := database.RowsOf[eventRow](st.db.Read, organization).Where("invocation_id = ?", invocation).Order("at", "id").Limit(1000)
	return database.ListAs(ctx, q, func(r *eventRow) action.Event {
		return action.Event{
			ID: r.ID, Organization: r.Organization, Invocation: r.Invocation, Kind: r.Kind,
			By: string(r.By), At: r.At.Time, Data: json.RawMessage(r.Data),
		}
	})
}

// maxPendingCount limits the count of pending items, well beyond what anybody
// scrolls through.
const maxPendingCount = 100_000

// The status is an expression, so that the planner uses only the primary key.
const waitersSQL = `SELECT id, waiter_seen_at, answered FROM open_calls WHERE id IN (?) AND organization_id || '' = ? AND status || '' = 'pending'`

// Waiters returns the state of the callers of pending invocations by ID.
func (st *Store) Waiters(ctx context.Context, organization string, ids []string) (map[string]action.CallerState, error) {
	waiters := make(map[string]action.CallerState, len(ids))
	for batch := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		var rows []struct {
			ID       string             `bun:"id"`
			SeenAt   database.Timestamp `bun:"waiter_seen_at"`
			Answered bool               `bun:"answered"`
		}
		if err := st.db.Read.NewRaw(waitersSQL, bun.List(batch), organization).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("reading waiting callers: %w", err)
		}
		for _, r := range rows {
			waiters[r.ID] = action.CallerState{SeenAt: r.SeenAt.Time, Answered: r.Answered}
		}
	}
	return waiters, nil
}

// SessionsOf returns the organization's sessions by ID.
func (st *Store) SessionsOf(ctx context.Context, organization string, ids []string) (map[string]action.Session, error) {
	sessions := make(map[string]action.Session, len(ids))
	for batch := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		var rows []sessionsrows.SessionRow
		if err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", organization).Where("id IN (?)", bun.List(batch)).Scan(ctx); err != nil {
			return nil, fmt.Errorf("reading sessions: %w", err)
		}
		for i := range rows {
			sessions[rows[i].ID] = rows[i].Session()
		}
	}
	return sessions, nil
}

// CountWaiting counts what needs a person, each kind up to 100,000.
func (st *Store) CountWaiting(ctx context.Context, organization string) (w action.InboxCounts, err error) {
	const pending = "status = 'pending'"
	for _, part := range []struct {
		n            *int
		table, where string
	}{
		{&w.Calls, "open_calls", pending},
		{&w.Grants, "grant_requests", pending},
		{&w.Variables, "env_requests", pending},
		{&w.Runs, "runs", "attention_id IS NOT NULL"},
	} {
		capped := st.db.Read.NewSelect().Table(part.table).ColumnExpr("1").Where("organization_id = ?", organization).Where(part.where).Limit(maxPendingCount)
		if err := st.db.Read.NewSelect().TableExpr("(?) AS part", capped).ColumnExpr("count(*)").Scan(ctx, part.n); err != nil {
			return action.InboxCounts{}, fmt.Errorf("counting waiting rows: %w", err)
		}
	}
	return w, nil
}
