package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// checkSQL asks everything that Begin must know before it inserts, in one
// round trip. What a draft does not need is not looked up.
//
//	?1 organization, ?2 session, ?3 source, ?4 action, ?5 params hash,
//	?6 now, ?7 idempotency key, ?8 joins, ?9 pending, ?10 denied since,
//	?11 denial limit, ?12 grants
const checkSQL = `SELECT s.revoked_at, s.expires_at, s.completed_at, s.status, o.policy_version,
  CASE WHEN ?8 = 1 AND ?7 <> '' THEN (SELECT k.invocation_id FROM idempotency_keys k
    WHERE k.organization_id = ?1 AND k.session_id = ?2 AND k.source_id = ?3 AND k.action = ?4 AND k.key = ?7) END,
  CASE WHEN ?8 = 1 THEN (` + openSQL + `) END,
  CASE WHEN ?8 = 1 THEN (` + undeliveredSQL + `) END,
  CASE WHEN ?9 = 1 OR ?12 = 1 THEN (` + refusedSQL + `) END,
  CASE WHEN ?9 = 1 AND ?11 > 0 THEN (` + denialsSQL + `) END,
  CASE WHEN ?9 = 1 THEN (` + pendingSQL + `) END
FROM sessions s JOIN organizations o ON o.id = s.organization_id
WHERE s.organization_id = ?1 AND s.id = ?2`

// The look-ups repeat the predicates of their partial indexes word by word:
// otherwise the database does not see that they fit.
const (
	openSQL = `SELECT i.id FROM invocations i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.source_id = ?3 AND i.action = ?4 AND i.params_hash = ?5
    AND i.joins = 1 AND i.completed_at IS NULL AND i.status IN ('pending', 'approved', 'executing')`
	undeliveredSQL = `SELECT i.id FROM invocations i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.source_id = ?3 AND i.action = ?4 AND i.params_hash = ?5
    AND i.joins = 1 AND i.delivered_at IS NULL AND i.pickup_until IS NOT NULL AND i.pickup_until > ?6
    AND i.status IN ('completed', 'failed')
    ORDER BY i.pickup_until DESC LIMIT 1`
	refusedSQL = `SELECT i.id FROM invocations i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.source_id = ?3 AND i.action = ?4 AND i.params_hash = ?5
    AND i.denied_reason = 'human' AND i.completed_at >= ?10
    ORDER BY i.completed_at DESC LIMIT 1`
	// The sum keeps SQLite from planning, and so preparing, anew whenever the
	// limit is bound: that took 220 µs of the 490 of a write.
	denialsSQL = `SELECT count(*) FROM (SELECT 1 FROM invocations i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.source_id = ?3 AND i.action = ?4 AND i.denied_reason = 'human'
    LIMIT ?11 + 0) AS denials`
	// coalesce keeps PostgreSQL from the index of all sessions' expiries, which
	// it takes for as good when its statistics are older than what waits now.
	pendingSQL = `SELECT count(*) FROM invocations i
    WHERE i.organization_id = ?1 AND i.session_id = ?2 AND i.status = 'pending' AND coalesce(i.expires_at, ?6) > ?6`
)

// These write a row with the values of beginColumns. Its caller was seen when it was
// created; the placeholder is used twice, so that the time is written as text once.
var (
	insertValues  = beginColumns.placeholders() + ", " + beginColumns.placeholder("created_at")
	insertColumns = `INSERT INTO invocations (` + beginColumns.list() + `, waiter_seen_at)
`
	insertSQL = insertColumns + `VALUES (` + insertValues + `)`

	// insertLiveSQL writes nothing when policy moved, or the session ended or was paused:
	// where there are several writers, that may have happened since checkSQL.
	insertLiveSQL = insertColumns + `SELECT ` + insertValues + ` FROM organizations o JOIN sessions s ON s.organization_id = o.id
WHERE o.id = ` + beginColumns.placeholder("organization_id") + ` AND s.id = ` + beginColumns.placeholder("session_id") + `
  AND o.policy_version = ` + beginColumns.placeholder("policy_version") + ` AND s.revoked_at IS NULL AND s.completed_at IS NULL AND s.status <> 'paused'`

	// queueSQL is insertSQL for a row that may be written twice, when nobody knows
	// whether the first time was committed.
	queueSQL = insertSQL + ` ON CONFLICT (id) DO NOTHING`

	// endedSQL is queueSQL for a row that ended before it was written, with the values of
	// endedColumns.
	endedSQL = `INSERT INTO invocations (` + endedColumns.list() + `, waiter_seen_at)
VALUES (` + endedColumns.placeholders() + `, ` + endedColumns.placeholder("created_at") + `) ON CONFLICT (id) DO NOTHING`
)

// checked is what checkSQL found.
type checked struct {
	session                          action.Session
	version                          int64
	keyed, open, undelivered, denial opt
	denials, pending                 sql.NullInt64
}

// candidates reports whether a row was found that may answer the call.
func (c *checked) candidates() bool { return c.keyed != "" || c.open != "" || c.undelivered != "" }

// Begin implements [action.Ledger].
func (db *DB) Begin(ctx context.Context, d *action.Draft) (*action.Begun, error) {
	r, err := newRow(d)
	if err != nil {
		return nil, err
	}
	if d.Snapshot && !d.Joins && d.Status != action.StatusPending && len(d.Grants) == 0 {
		return db.beginQueued(ctx, d, r)
	}
	again := false
	for range lostRaces {
		// A copy: what is written may differ from the draft, and be undone.
		row, joined, first := *r, (*action.Begun)(nil), looked{}
		j := &job{
			again: again, single: d.IdempotencyKey == "" && len(d.Grants) == 0, whole: true, passes: true,
			// Without a key or a grant its only write that needs company is
			// none: what expires an overdue row, or notes a waiter, is right
			// whether or not the insert is.
		}
		if shared(db.write.db) {
			j.opening = db.opening(d, &first)
		}
		j.run = func(ctx context.Context, tx bun.IDB) (err error) {
			row = *r
			joined, err = db.begin(ctx, tx, j, d, &row, &first)
			return err
		}
		err = db.write.do(ctx, j)
		again = j.again // the row that came first may be its own
		var behind *behindError
		switch {
		case errors.As(err, &behind):
			if err := db.write.flush(ctx, behind.rows...); err != nil {
				return nil, err
			}
		case err == nil && joined != nil:
			return joined, nil
		case err == nil:
			return db.begun(d, &row), nil
		case !shared(db.write.db) || !taken(err):
			return nil, err
		}
	}
	return nil, err
}

// lostRaces is how often Begin looks again after another row came first, or
// was still queued.
const lostRaces = 8

// behindError tells of rows that queued writes are about to change. Where the
// writer does not work in order, Begin waits for them and looks again.
type behindError struct{ rows []string }

func (e *behindError) Error() string { return "queued writes come first" }

// begunRow is a row that a queued job writes.
type begunRow struct {
	draft *action.Draft
	row   *invocationRow
}

// beginQueued writes the row of an allowed read. Its read may start at once;
// it is answered after Finish, which comes later in the same queue, or in the
// place of this job.
func (db *DB) beginQueued(ctx context.Context, d *action.Draft, r *invocationRow) (*action.Begun, error) {
	args := func() []any { return beginColumns.values(r) } // not needed when the end comes first
	err := db.write.enqueue(ctx, &job{row: r.ID, single: true, begins: &begunRow{d, r}, quick: &quick{&db.stmts.queue, args, nil}, run: func(ctx context.Context, tx bun.IDB) error {
		_, err := db.stmts.queue.exec(ctx, tx, args()...)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return db.begun(d, r), nil
}

// opening locks and asks what begin does, see there.
func (db *DB) opening(d *action.Draft, first *looked) *opening {
	o := &opening{reset: func() { *first = looked{} }}
	if locks(d) {
		o.asks = append(o.asks, ask{stmt: &db.stmts.hold, args: []any{d.Organization, d.Session}})
	}
	o.asks = append(o.asks, ask{&db.stmts.check, checkArgs(d, d.CreatedAt), first.dest()})
	return o
}

// begin finds the row that answers the call, or writes the draft's own and
// returns nil. First is what check found, where the job's opening was done.
func (db *DB) begin(ctx context.Context, tx bun.IDB, j *job, d *action.Draft, r *invocationRow, first *looked) (*action.Begun, error) {
	now := r.CreatedAt.t
	look := first.checked
	if !j.opened() {
		if err := db.lockSession(ctx, tx, d); err != nil {
			return nil, err
		}
		if j.again { // not before the lock: the commit nobody heard of may be under way, and holds it
			if mine, err := db.mine(ctx, tx, d); mine != nil || err != nil {
				return mine, err
			}
		}
		look = func(d *action.Draft) (*checked, error) { return db.check(ctx, tx, d, now) }
	}
	c, err := look(d)
	if err != nil {
		return nil, err
	}
	if rows := []string{string(c.keyed), string(c.open), string(c.undelivered)}; shared(tx) && db.write.queued(rows) {
		return nil, &behindError{rows}
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
		joined, err := db.join(ctx, tx, d, c, now)
		if err != nil || joined != nil {
			return joined, err
		}
		if shared(tx) && c.candidates() {
			// One may have been denied since c was read.
			if c, err = db.check(ctx, tx, d, now); err != nil {
				return nil, err
			}
		}
	}
	if !d.Snapshot { // what joins nothing is new
		if err := c.session.Accepts(now); err != nil {
			return nil, err
		}
	}
	if d.Status == action.StatusPending {
		if err := db.hold(ctx, tx, d, c, r); err != nil {
			return nil, err
		}
	}
	if len(d.Grants) > 0 {
		if c.denial != "" {
			return nil, action.ErrDeniedBefore
		}
		if err := db.useGrant(ctx, tx, d, r); err != nil {
			return nil, err
		}
	}
	return nil, db.insert(ctx, tx, j, d, r)
}

// mine finds the draft's own row, which an attempt wrote whose end nobody heard.
func (db *DB) mine(ctx context.Context, tx bun.IDB, d *action.Draft) (*action.Begun, error) {
	r, err := db.inTx(ctx, tx, d.Organization, d.ID)
	if errors.Is(err, action.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, err := r.record()
	if rec.Status == action.StatusExecuting {
		db.running.put(rec.Invocation)
	}
	return &action.Begun{New: true, Record: rec}, err
}

// lockSession has the calls of one session begin one after the other where
// there are several writers: the next statement sees what the one before wrote.
// Only those whose row depends on others' wait, and those that use up a grant:
// when it is not known whether one was committed, the next attempt must not
// find the grant spent by it and its row not there yet.
func (db *DB) lockSession(ctx context.Context, tx bun.IDB, d *action.Draft) error {
	if !shared(tx) || !locks(d) {
		return nil
	}
	if err := db.holdSession(ctx, tx, d.Organization, d.Session); err != nil {
		return fmt.Errorf("beginning invocation %s: %w", d.ID, err)
	}
	return nil
}

// locks reports whether the draft's row depends on others of its session.
func locks(d *action.Draft) bool {
	return d.Joins || d.Status == action.StatusPending || len(d.Grants) > 0
}

const holdSessionSQL = `SELECT FROM sessions WHERE organization_id = ?1 AND id = ?2 FOR NO KEY UPDATE`

// holdSession locks a session's row where there are several writers.
func (db *DB) holdSession(ctx context.Context, tx bun.IDB, organization, id string) error {
	if !shared(tx) {
		return nil
	}
	_, err := db.stmts.hold.exec(ctx, tx, organization, id)
	return err
}

func (db *DB) check(ctx context.Context, tx bun.IDB, d *action.Draft, now time.Time) (*checked, error) {
	var l looked
	err := db.stmts.check.one(ctx, tx, checkArgs(d, now), l.dest())
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("beginning invocation %s: %w", d.ID, err)
	}
	return l.checked(d)
}

func checkArgs(d *action.Draft, now time.Time) []any {
	return []any{
		d.Organization, d.Session, d.Source, d.Action, d.ParamsHash,
		at(now), d.IdempotencyKey, flag(d.Joins), flag(d.Status == action.StatusPending), at(d.DeniedSince).or(epoch), d.DenialLimit, flag(len(d.Grants) > 0),
	}
}

// looked is the row of checkSQL, if there was one.
type looked struct {
	c                           checked
	revoked, expires, completed stamp
	status                      string // never empty
}

func (l *looked) dest() []any {
	c := &l.c
	return []any{&l.revoked, &l.expires, &l.completed, &l.status, &c.version, &c.keyed, &c.open, &c.undelivered, &c.denial, &c.denials, &c.pending}
}

func (l *looked) checked(d *action.Draft) (*checked, error) {
	if l.status == "" {
		return nil, action.NewError("session_unknown")
	}
	c := &l.c
	c.session.RevokedAt, c.session.ExpiresAt, c.session.CompletedAt = l.revoked.ptr(), l.expires.ptr(), l.completed.ptr()
	c.session.Status = action.SessionStatus(l.status)
	if d.Paused {
		c.session.Status = action.SessionPaused
	}
	return c, nil
}

// join finds the row that answers the call already: by its key, by being open,
// by waiting to be picked up.
func (db *DB) join(ctx context.Context, tx bun.IDB, d *action.Draft, c *checked, now time.Time) (*action.Begun, error) {
	for i, id := range []opt{c.keyed, c.open, c.undelivered} {
		if id == "" {
			continue
		}
		row, err := db.inTx(ctx, tx, d.Organization, string(id))
		if err != nil {
			return nil, err
		}
		if row.overdue(now) {
			// It would stand in the way of the new row until the next sweep.
			if err := expire(ctx, tx, row, now); err != nil {
				return nil, err
			}
		}
		keyed, kept := i == 0, i == 2
		if !row.answers(now) || kept && !row.DeliveredAt.t.IsZero() { // which came between c and the row
			continue
		}
		if keyed && row.ParamsHash != d.ParamsHash {
			return nil, keyReused(row.ID)
		}
		if err := db.joined(ctx, tx, d, row, keyed, now); err != nil {
			return nil, err
		}
		rec, err := row.record()
		return &action.Begun{Record: rec}, err
	}
	return nil, nil
}

func keyReused(id string) error {
	return action.Errorf(action.ErrConflict, "idempotency_key_reused",
		"This idempotency key was used for the same action with other params; use a new key for a new call.").WithInvocation(id)
}

// joined notes that a caller waits for the row again, and that its key means
// this row from now on: a later repeat with that key must not run anew.
func (db *DB) joined(ctx context.Context, tx bun.IDB, d *action.Draft, row *invocationRow, keyed bool, now time.Time) error {
	if row.Status == string(action.StatusPending) {
		if _, err := seen(tx, []string{row.ID}, at(now)).Exec(ctx); err != nil {
			return fmt.Errorf("joining invocation %s: %w", row.ID, err)
		}
	}
	if keyed || d.IdempotencyKey == "" {
		return nil
	}
	return putKey(ctx, tx, d, row.ID, now)
}

func (db *DB) insert(ctx context.Context, tx bun.IDB, j *job, d *action.Draft, r *invocationRow) error {
	insert, args := &db.stmts.insert, beginColumns.values(r)
	live := shared(tx) && !d.Snapshot
	if live {
		insert = &db.stmts.insertLive
	}
	if j.opened() && len(d.Grants) == 0 && d.IdempotencyKey == "" {
		j.opening.last = &ask{stmt: insert, args: args}
		return nil
	}
	n, err := affected(insert.exec(ctx, tx, args...))
	if err != nil {
		return fmt.Errorf("writing invocation %s: %w", d.ID, err)
	}
	if live && n == 0 {
		return db.moved(ctx, tx, d, r.CreatedAt.t)
	}
	if d.Joins && d.IdempotencyKey != "" {
		return putKey(ctx, tx, d, r.ID, r.CreatedAt.t)
	}
	return nil
}

// moved tells what changed between check and insert.
func (db *DB) moved(ctx context.Context, tx bun.IDB, d *action.Draft, now time.Time) error {
	c, err := db.check(ctx, tx, d, now)
	if err != nil {
		return err
	}
	if err := c.session.Accepts(now); err != nil {
		return err
	}
	return action.ErrPolicyMoved
}

// flag is a truth as the rows of invocations keep it: their partial indexes
// compare numbers, which every database can.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// begun is the draft as it was written: no need to read it again.
func (db *DB) begun(d *action.Draft, r *invocationRow) *action.Begun {
	b := &action.Begun{New: true, Record: action.Record{Invocation: d.Invocation, SealedParams: r.SealedParams}}
	inv := &b.Invocation
	inv.Params, inv.Grant, inv.Executor = json.RawMessage(r.Params), string(r.Grant), string(r.Executor)
	inv.Status, inv.DeniedReason, inv.DeniedNote = action.Status(r.Status), string(r.DeniedReason), string(r.DeniedNote)
	inv.CreatedAt, inv.ExpiresAt, inv.StartedAt, inv.CompletedAt = r.CreatedAt.t, r.ExpiresAt.ptr(), r.StartedAt.ptr(), r.CompletedAt.ptr()
	if inv.Status == action.StatusExecuting {
		db.running.put(*inv)
	}
	return b
}

// keyRow says which invocation an idempotency key means.
type keyRow struct {
	bun.BaseModel `bun:"table:idempotency_keys"`

	Organization string `bun:"organization_id,pk"`
	Session      string `bun:"session_id,pk"`
	Source       string `bun:"source_id,pk"`
	Action       string `bun:"action,pk"`
	Key          string `bun:"key,pk"`
	Invocation   string `bun:"invocation_id"`
	ParamsHash   string `bun:"params_hash"`
	CreatedAt    stamp  `bun:"created_at"`
}

func putKey(ctx context.Context, tx bun.IDB, d *action.Draft, id string, now time.Time) error {
	_, err := tx.NewInsert().Model(&keyRow{
		Organization: d.Organization, Session: d.Session, Source: d.Source, Action: d.Action, Key: d.IdempotencyKey,
		Invocation: id, ParamsHash: d.ParamsHash, CreatedAt: at(now),
	}).On("CONFLICT (organization_id, session_id, source_id, action, key) DO UPDATE").
		Set("invocation_id = EXCLUDED.invocation_id, params_hash = EXCLUDED.params_hash, created_at = EXCLUDED.created_at").
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("writing the idempotency key of invocation %s: %w", id, err)
	}
	return nil
}
