package calls

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// useGrant consumes the first usable grant of the draft and records it in the row.
//
// It cannot deadlock, whatever the order of the grants: a grant that cannot be consumed is
// not locked, and after the first consumed grant only the row is inserted. The insert
// waits only for calls of the same session, which lock the session before they get here.
func (st *Store) useGrant(ctx context.Context, tx bun.IDB, d *action.Draft, r *InvocationRow) error {
	for _, id := range d.Grants {
		n, err := database.RowsAffected(st.stmts.useGrant.Exec(ctx, tx, d.Organization, d.Session, id, r.CreatedAt))
		if err != nil {
			return fmt.Errorf("using grant %s: %w", id, err)
		}
		if n > 0 {
			r.Grant = database.NullString(id)
			return nil
		}
	}
	return action.ErrGrantSpent
}

// CheckSQL reads all that Begin needs before the insert in one round trip, except for what
// the draft does not need.
//
//	?1 organization, ?2 session, ?3 source, ?4 action, ?5 params hash,
//	?6 now, ?7 idempotency key, ?8 joins, ?9 pending, ?10 denied since,
//	?11 denial limit, ?12 grants
const CheckSQL = `SELECT s.revoked_at, s.expires_at, s.completed_at, s.status, o.policy_version,
  CASE WHEN ?8 = 1 AND ?7 <> '' THEN (SELECT k.invocation_id FROM idempotency_keys k
    WHERE k.organization_id = ?1 AND k.session_id = ?2 AND k.source_id = ?3 AND k.action = ?4 AND k.key = ?7) END,
  CASE WHEN ?8 = 1 THEN (` + openSQL + `) END,
  CASE WHEN ?8 = 1 THEN (` + undeliveredSQL + `) END,
  CASE WHEN ?9 = 1 OR ?12 = 1 THEN (` + deniedSQL + `) END,
  CASE WHEN ?9 = 1 AND ?11 > 0 THEN (` + denialsSQL + `) END,
  CASE WHEN ?9 = 1 THEN (` + pendingSQL + `) END
FROM sessions s JOIN organizations o ON o.id = s.organization_id
WHERE s.organization_id = ?1 AND s.id = ?2`

// These lookups repeat the predicates of their partial indexes word for word, because
// otherwise the planner does not use the indexes.
const (
	openSQL = `SELECT i.id FROM open_calls i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.source_id = ?3 AND i.action = ?4 AND i.params_hash = ?5
    AND i.joins = 1`
	undeliveredSQL = `SELECT i.id FROM invocations i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.source_id = ?3 AND i.action = ?4 AND i.params_hash = ?5
    AND i.joins = 1 AND i.delivered_at IS NULL AND i.pickup_until IS NOT NULL AND i.pickup_until > ?6
    AND i.status IN ('completed', 'failed')
    ORDER BY i.pickup_until DESC LIMIT 1`
	deniedSQL = `SELECT i.id FROM invocations i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.source_id = ?3 AND i.action = ?4 AND i.params_hash = ?5
    AND i.denied_reason = 'human' AND i.completed_at >= ?10
    ORDER BY i.completed_at DESC LIMIT 1`
	// The sum keeps SQLite from planning, and so preparing, anew whenever the
	// limit is bound: that took 220 µs of the 490 of a write.
	denialsSQL = `SELECT count(*) FROM (SELECT 1 FROM invocations i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.source_id = ?3 AND i.action = ?4 AND i.denied_reason = 'human'
    LIMIT ?11 + 0) AS denials`
	// The status and the expiry are expressions, so that the planner uses the index of the
	// session's open calls and not those of all pending ones.
	pendingSQL = `SELECT count(*) FROM open_calls i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.status || '' = 'pending' AND coalesce(i.expires_at, ?6) > ?6`
)

// These statements insert the row of a call that begins open, with the values of
// beginColumns, or that ended before it was written, with those of EndedColumns.
var (
	InsertSQL     = insertInto("open_calls", beginColumns) + "VALUES (" + insertValues(beginColumns) + ")"
	InsertLiveSQL = insertLive("open_calls", beginColumns)
	EndedSQL      = insertInto("invocations", EndedColumns) + "VALUES (" + insertValues(EndedColumns) + ") ON CONFLICT (id) DO NOTHING"
	EndedLiveSQL  = insertLive("invocations", EndedColumns)

	// QueueSQL is InsertSQL made idempotent, for retries after an unconfirmed commit.
	QueueSQL = insertInto("open_calls", beginColumns) + "SELECT " + insertValues(beginColumns) + `
WHERE NOT EXISTS (SELECT 1 FROM invocations WHERE id = ` + beginColumns.placeholder("id") + `) ON CONFLICT (id) DO NOTHING`
)

func insertInto(table string, c InvocationColumns) string {
	return "INSERT INTO " + table + " (" + c.list() + ", waiter_seen_at)\n"
}

// insertValues returns the placeholders of a row. waiter_seen_at starts as created_at and
// reuses its placeholder, so that the time is formatted once.
func insertValues(c InvocationColumns) string {
	return c.placeholders() + ", " + c.placeholder("created_at")
}

// insertLive inserts nothing if the policy changed or the session ended or was paused
// since CheckSQL, which can happen on PostgreSQL.
func insertLive(table string, c InvocationColumns) string {
	return insertInto(table, c) + "SELECT " + insertValues(c) + ` FROM organizations o JOIN sessions s ON s.organization_id = o.id
WHERE o.id = ` + c.placeholder("organization_id") + ` AND s.id = ` + c.placeholder("session_id") + `
  AND o.policy_version = ` + c.placeholder("policy_version") + ` AND s.revoked_at IS NULL AND s.completed_at IS NULL AND s.status <> 'paused'`
}

// CheckResult is the result of CheckSQL.
type CheckResult struct {
	session                          action.Session
	version                          int64
	byKey, open, Undelivered, denial database.NullString
	denials, pending                 sql.NullInt64
}

// Begin implements [action.Ledger].
func (st *Store) Begin(ctx context.Context, d *action.Draft) (*action.BeginResult, error) {
	r, err := NewRow(d)
	if err != nil {
		return nil, err
	}
	if d.Snapshot && !d.Joins && d.Status != action.StatusPending && len(d.Grants) == 0 {
		return st.beginQueued(ctx, d, r)
	}
	retried := false
	for range MaxRaceRetries {
		// Work on a copy, because the row may differ from the draft and be rolled back.
		row, joined, opened := *r, (*action.BeginResult)(nil), checkRow{}
		j := &database.Job{
			Retried: retried, SingleStatement: d.IdempotencyKey == "" && len(d.Grants) == 0 && d.MaxCalls == 0, InTransaction: true, Unordered: true,
			// Without a key or a grant no write has to be atomic with the insert:
			// expiring an overdue row or recording a waiter is correct in any case.
		}
		if database.Shared(st.db.Write.DB) && d.MaxCalls == 0 {
			j.Pipeline = st.pipeline(d, &opened)
		}
		j.Run = func(ctx context.Context, tx bun.IDB) (err error) {
			row = *r
			joined, err = st.begin(ctx, tx, j, d, &row, &opened)
			return err
		}
		err = st.db.Write.Do(ctx, j)
		retried = j.Retried // the conflicting row may be the draft's own
		var queued *queuedWritesError
		switch {
		case errors.As(err, &queued):
			if err := st.db.Write.Flush(ctx, queued.rows...); err != nil {
				return nil, err
			}
		case err == nil && joined != nil:
			return joined, nil
		case err == nil:
			return st.newBegun(d, &row), nil
		case !database.Shared(st.db.Write.DB) || !database.IsUniqueViolation(err):
			return nil, err
		}
	}
	return nil, err
}

// MaxRaceRetries bounds the retries of Begin after a conflict with a concurrent or queued
// write.
const MaxRaceRetries = 8

// queuedWritesError reports rows with queued writes. On PostgreSQL, where writes are not
// executed in order, Begin waits for these writes and retries.
type queuedWritesError struct{ rows []string }

func (e *queuedWritesError) Error() string { return "queued writes come first" }

// QueuedBegin is a draft whose row a queued job inserts.
type QueuedBegin struct {
	draft *action.Draft
	row   *InvocationRow
}

// beginQueued queues the row of an allowed read, so that the read can start immediately.
// Finish follows later in the same queue or replaces this job.
func (st *Store) beginQueued(ctx context.Context, d *action.Draft, r *InvocationRow) (*action.BeginResult, error) {
	stmt, columns := st.stmts.queue, beginColumns
	if !r.open() {
		stmt, columns = st.stmts.ended, EndedColumns
	}
	args := func() []any { return columns.Values(r) } // not called if Finish replaces this job
	err := st.db.Write.Enqueue(ctx, &database.Job{Row: r.ID, SingleStatement: true, Inserted: &QueuedBegin{d, r}, Batchable: &database.BatchStatement{Stmt: stmt, Args: args, Done: nil}, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := stmt.Exec(ctx, tx, args()...)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return st.newBegun(d, r), nil
}

// pipeline returns the lock and the check of begin as one round trip.
func (st *Store) pipeline(d *action.Draft, opened *checkRow) *database.Pipeline {
	o := &database.Pipeline{Reset: func() { *opened = checkRow{} }}
	if needsSessionLock(d) {
		o.Queries = append(o.Queries, database.PipelineQuery{Stmt: st.stmts.lockSession, Args: []any{d.Organization, d.Session}})
	}
	o.Queries = append(o.Queries, database.PipelineQuery{Stmt: st.stmts.check, Args: checkArgs(d, d.CreatedAt), Dest: opened.scanTargets()})
	return o
}

// begin returns the existing row that answers the call, or inserts the draft's own row and
// returns nil. opened holds the result of CheckSQL if the job was pipelined.
func (st *Store) begin(ctx context.Context, tx bun.IDB, j *database.Job, d *action.Draft, r *InvocationRow, opened *checkRow) (*action.BeginResult, error) {
	now := r.CreatedAt.Time
	check := opened.result
	if !j.Pipelined() {
		if needsSessionLock(d) {
			if err := st.sessions.LockSession(ctx, tx, d.Organization, d.Session); err != nil {
				return nil, fmt.Errorf("beginning invocation %s: %w", d.ID, err)
			}
		}
		if j.Retried { // after the lock, which an unconfirmed commit still in progress holds
			if own, err := st.ownRow(ctx, tx, d); own != nil || err != nil {
				return own, err
			}
		}
		check = func(d *action.Draft) (*CheckResult, error) { return st.check(ctx, tx, d, now) }
	}
	c, err := check(d)
	if err != nil {
		return nil, err
	}
	if rows := []string{string(c.byKey), string(c.open), string(c.Undelivered)}; database.Shared(tx) && st.db.Write.Queued(rows) {
		return nil, &queuedWritesError{rows}
	}
	if !d.Snapshot {
		if err := c.session.Working(now); err != nil {
			return nil, err
		}
		if c.version != d.PolicyVersion {
			return nil, action.ErrPolicyMoved
		}
	}
	if d.Joins {
		joined, err := st.Join(ctx, tx, d, c, now)
		if err != nil || joined != nil {
			return joined, err
		}
		if database.Shared(tx) && (c.byKey != "" || c.open != "" || c.Undelivered != "") {
			// The row that may answer the call may have been denied since c was read.
			if c, err = st.check(ctx, tx, d, now); err != nil {
				return nil, err
			}
		}
	}
	if !d.Snapshot { // what joins nothing is new
		if err := c.session.Accepts(now); err != nil {
			return nil, err
		}
	}
	if err := checkBudget(ctx, tx, d, r); err != nil {
		return nil, err
	}
	if r.Status == string(action.StatusPending) {
		if err := st.checkApprovalLimits(ctx, tx, d, c, r); err != nil {
			return nil, err
		}
	}
	if len(d.Grants) > 0 && r.Status != string(action.StatusDenied) {
		if c.denial != "" {
			return nil, action.ErrDeniedBefore
		}
		if err := st.useGrant(ctx, tx, d, r); err != nil {
			return nil, err
		}
	}
	return nil, st.insert(ctx, tx, j, d, r)
}

// ownRow returns the draft's own row if an earlier attempt committed it without
// confirmation.
func (st *Store) ownRow(ctx context.Context, tx bun.IDB, d *action.Draft) (*action.BeginResult, error) {
	r, err := st.LoadInTx(ctx, tx, d.Organization, d.ID)
	if errors.Is(err, action.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, err := r.record()
	if rec.Status == action.StatusExecuting {
		st.executing.put(rec.Invocation)
	}
	return &action.BeginResult{Created: true, Record: rec}, err
}

// needsSessionLock reports whether the call locks its session on PostgreSQL, so that each
// call sees the rows of the previous one. Only calls whose row depends on other rows or
// that consume a grant take the lock: after an unconfirmed commit the retry must not find
// the grant spent but the row missing.
func needsSessionLock(d *action.Draft) bool {
	return d.Joins || d.Status == action.StatusPending || len(d.Grants) > 0 || d.MaxCalls > 0
}

// SpentSQL counts the calls of a session that count against its budget, up to a limit.
const SpentSQL = `SELECT count(*) FROM (
  SELECT 1 FROM open_calls AS i WHERE i.organization_id = ?0 AND i.session_id = ?1
  UNION ALL SELECT 1 FROM invocations AS i WHERE i.organization_id = ?0 AND i.session_id = ?1 AND i.status <> 'denied'
  LIMIT ?2) AS spent`

// checkBudget denies the call if the session has made as many as it may.
func checkBudget(ctx context.Context, tx bun.IDB, d *action.Draft, r *InvocationRow) error {
	if d.MaxCalls == 0 || d.Status == action.StatusDenied {
		return nil
	}
	var spent int64
	if err := tx.NewRaw(SpentSQL, d.Organization, d.Session, d.MaxCalls).Scan(ctx, &spent); err != nil {
		return fmt.Errorf("counting the calls of session %s: %w", d.Session, err)
	}
	if spent >= d.MaxCalls {
		r.deny(action.DeniedQuota, database.NullString(fmt.Sprintf("This session has made the %d calls that it may make. Stop, and tell the user; an owner or admin can create another session.", spent)))
		r.StartedAt, r.Executor, r.LeaseUntil = database.Timestamp{}, "", database.Timestamp{}
	}
	return nil
}

func (st *Store) check(ctx context.Context, tx bun.IDB, d *action.Draft, now time.Time) (*CheckResult, error) {
	var l checkRow
	err := st.stmts.check.One(ctx, tx, checkArgs(d, now), l.scanTargets())
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("beginning invocation %s: %w", d.ID, err)
	}
	return l.result(d)
}

func checkArgs(d *action.Draft, now time.Time) []any {
	return []any{
		d.Organization, d.Session, d.Source, d.Action, d.ParamsHash,
		database.NewTimestamp(now), d.IdempotencyKey, database.BoolToInt(d.Joins), database.BoolToInt(d.Status == action.StatusPending), database.NewTimestamp(d.DeniedSince).Or(database.Epoch), d.DenialLimit, database.BoolToInt(len(d.Grants) > 0),
	}
}

// checkRow holds the row of CheckSQL, if there is one.
type checkRow struct {
	c                           CheckResult
	revoked, expires, completed database.Timestamp
	status                      string // never empty
}

func (l *checkRow) scanTargets() []any {
	c := &l.c
	return []any{&l.revoked, &l.expires, &l.completed, &l.status, &c.version, &c.byKey, &c.open, &c.Undelivered, &c.denial, &c.denials, &c.pending}
}

func (l *checkRow) result(d *action.Draft) (*CheckResult, error) {
	if l.status == "" {
		return nil, action.NewError("session_unknown")
	}
	c := &l.c
	c.session.RevokedAt, c.session.ExpiresAt, c.session.CompletedAt = l.revoked.Ptr(), l.expires.Ptr(), l.completed.Ptr()
	c.session.Status = action.SessionStatus(l.status)
	if d.Paused {
		c.session.Status = action.SessionPaused
	}
	return c, nil
}

// Join returns the row that already answers the call: the one with its idempotency key, an
// open one, or one whose result was not delivered yet.
func (st *Store) Join(ctx context.Context, tx bun.IDB, d *action.Draft, c *CheckResult, now time.Time) (*action.BeginResult, error) {
	for i, id := range []database.NullString{c.byKey, c.open, c.Undelivered} {
		if id == "" {
			continue
		}
		row, err := st.LoadInTx(ctx, tx, d.Organization, string(id))
		if errors.Is(err, action.ErrNotFound) { // retention removed the call since
			continue
		}
		if err != nil {
			return nil, err
		}
		if row.overdue(now) {
			// Until the next sweep it would block the new row.
			if err := expire(ctx, tx, row, now); err != nil {
				return nil, err
			}
		}
		keyed, undelivered := i == 0, i == 2
		if !row.CanAnswer(now) || undelivered && !row.DeliveredAt.Time.IsZero() { // which came between c and the row
			continue
		}
		if keyed && row.ParamsHash != d.ParamsHash {
			return nil, action.Errorf(action.ErrConflict, "idempotency_key_reused",
				"This idempotency key was used for the same action with other params. Use a new key for a new call.").WithInvocation(row.ID)
		}
		if err := st.recordJoin(ctx, tx, d, row, keyed, now); err != nil {
			return nil, err
		}
		rec, err := row.record()
		return &action.BeginResult{Record: rec}, err
	}
	return nil, nil
}

// recordJoin records that a caller waits for the row again and maps its idempotency key to
// the row, so that a repeat with that key does not run again.
func (st *Store) recordJoin(ctx context.Context, tx bun.IDB, d *action.Draft, row *InvocationRow, keyed bool, now time.Time) error {
	if row.Status == string(action.StatusPending) {
		if _, err := MarkSeen(tx, []string{row.ID}, database.NewTimestamp(now)).Exec(ctx); err != nil {
			return fmt.Errorf("joining invocation %s: %w", row.ID, err)
		}
	}
	if keyed || d.IdempotencyKey == "" {
		return nil
	}
	return putKey(ctx, tx, d, row.ID, now)
}

func (st *Store) insert(ctx context.Context, tx bun.IDB, j *database.Job, d *action.Draft, r *InvocationRow) error {
	insert, insertLive, columns := st.stmts.insert, st.stmts.insertLive, beginColumns
	if !r.open() {
		insert, insertLive, columns = st.stmts.ended, st.stmts.endedLive, EndedColumns
	}
	live, args := database.Shared(tx) && !d.Snapshot, columns.Values(r)
	if live {
		insert = insertLive
	}
	if j.Pipelined() && len(d.Grants) == 0 && d.IdempotencyKey == "" {
		j.Pipeline.Last = &database.PipelineQuery{Stmt: insert, Args: args}
		return nil
	}
	n, err := database.RowsAffected(insert.Exec(ctx, tx, args...))
	if err != nil {
		return fmt.Errorf("writing invocation %s: %w", d.ID, err)
	}
	if live && n == 0 {
		return st.insertConflict(ctx, tx, d, r.CreatedAt.Time)
	}
	if d.Joins && d.IdempotencyKey != "" {
		return putKey(ctx, tx, d, r.ID, r.CreatedAt.Time)
	}
	return nil
}

// insertConflict returns what changed between check and insert.
func (st *Store) insertConflict(ctx context.Context, tx bun.IDB, d *action.Draft, now time.Time) error {
	c, err := st.check(ctx, tx, d, now)
	if err != nil {
		return err
	}
	if err := c.session.Accepts(now); err != nil {
		return err
	}
	return action.ErrPolicyMoved
}

// newBegun returns the draft as written, without reading it back.
func (st *Store) newBegun(d *action.Draft, r *InvocationRow) *action.BeginResult {
	b := &action.BeginResult{Created: true, Record: action.Record{Invocation: d.Invocation, SealedParams: r.SealedParams}}
	inv := &b.Invocation
	inv.Params, inv.Grant, inv.Executor = json.RawMessage(r.Params), string(r.Grant), string(r.Executor)
	inv.Status, inv.DeniedReason, inv.DeniedNote = action.Status(r.Status), string(r.DeniedReason), string(r.DeniedNote)
	inv.CreatedAt, inv.ExpiresAt, inv.StartedAt, inv.CompletedAt = r.CreatedAt.Time, r.ExpiresAt.Ptr(), r.StartedAt.Ptr(), r.CompletedAt.Ptr()
	if inv.Status == action.StatusExecuting {
		st.executing.put(*inv)
	}
	return b
}

// keyRow maps an idempotency key to its invocation.
type keyRow struct {
	bun.BaseModel `bun:"table:idempotency_keys"`

	Organization string             `bun:"organization_id,pk"`
	Session      string             `bun:"session_id,pk"`
	Source       string             `bun:"source_id,pk"`
	Action       string             `bun:"action,pk"`
	Key          string             `bun:"key,pk"`
	Invocation   string             `bun:"invocation_id"`
	ParamsHash   string             `bun:"params_hash"`
	CreatedAt    database.Timestamp `bun:"created_at"`
}

func putKey(ctx context.Context, tx bun.IDB, d *action.Draft, id string, now time.Time) error {
	_, err := tx.NewInsert().Model(&keyRow{
		Organization: d.Organization, Session: d.Session, Source: d.Source, Action: d.Action, Key: d.IdempotencyKey,
		Invocation: id, ParamsHash: d.ParamsHash, CreatedAt: database.NewTimestamp(now),
	}).On("CONFLICT (organization_id, session_id, source_id, action, key) DO UPDATE").
		Set("invocation_id = EXCLUDED.invocation_id, params_hash = EXCLUDED.params_hash, created_at = EXCLUDED.created_at").
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing the idempotency key of invocation %s: %w", id, err)
	}
	return nil
}

// Preview implements [action.Ledger]. It runs the checks of Begin on the same connection.
func (st *Store) Preview(ctx context.Context, d *action.Draft) (refused, note string, err error) {
	r, err := NewRow(d)
	if err != nil {
		return "", "", err
	}
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		row := *r
		c, err := st.check(ctx, tx, d, row.CreatedAt.Time)
		if err != nil {
			return err
		}
		err = st.checkApprovalLimits(ctx, tx, d, c, &row)
		refused, note = string(row.DeniedReason), string(row.DeniedNote)
		return err
	}})
	if e := action.Public(err); errors.Is(err, action.ErrTooMany) {
		return e.Code, e.Message, nil
	}
	return refused, note, err
}

// checkApprovalLimits denies or rejects a call that needs approval if it was denied before,
// was denied too often, or too many calls are pending.
func (st *Store) checkApprovalLimits(ctx context.Context, tx bun.IDB, d *action.Draft, c *CheckResult, r *InvocationRow) error {
	if c.denial != "" {
		denial, err := st.LoadInTx(ctx, tx, d.Organization, string(c.denial))
		if err != nil {
			return err
		}
		r.deny(action.DeniedRepeated, denial.DeniedNote)
		return nil
	}
	if d.DenialLimit > 0 && c.denials.Int64 >= int64(d.DenialLimit) {
		r.deny(action.DeniedOften, database.NullString(fmt.Sprintf("People denied this action %d times in this session, so it can no longer be requested. "+
			"Choose another approach, or ask the user what to do.", c.denials.Int64)))
		return nil
	}
	if d.MaxPending > 0 && c.pending.Int64 >= int64(d.MaxPending) {
		return action.NewError("too_many_pending", c.pending.Int64)
	}
	return nil
}

// deny turns the row of a call that would wait into one that was denied.
func (r *InvocationRow) deny(reason, note database.NullString) {
	r.Status, r.DeniedReason, r.DeniedNote = string(action.StatusDenied), reason, note
	r.CompletedAt, r.ExpiresAt, r.SealedParams = r.CreatedAt, database.Timestamp{}, nil
}
