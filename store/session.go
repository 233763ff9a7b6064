package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type sessionRow struct {
	bun.BaseModel `bun:"table:sessions"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Kind         string `bun:"kind"`
	Type         string `bun:"type"`
	Automation   opt    `bun:"automation_id"`
	Group        opt    `bun:"group_id"`
	Task         opt    `bun:"task_id"`
	Event        opt    `bun:"event_id"`
	Title        opt    `bun:"title"`
	CreatedBy    string `bun:"created_by"`
	CreatedAt    stamp  `bun:"created_at"`
	ExpiresAt    stamp  `bun:"expires_at"`
	RevokedAt    stamp  `bun:"revoked_at"`
	CompletedAt  stamp  `bun:"completed_at"`

	Connections asJSON[[]string] `bun:"connections"`

	Status     string                   `bun:"status"`
	Tools      opt                      `bun:"tools"`
	Prompt     opt                      `bun:"prompt"`
	Model      opt                      `bun:"model"`
	LastSeenAt stamp                    `bun:"last_seen_at"`
	Idle       sql.NullInt64            `bun:"idle_seconds"` // NULL: the gateway's; 0: never
	EndedNote  opt                      `bun:"ended_note"`
	LeftOut    asJSON[[]action.LeftOut] `bun:"left_out"`
	Key        opt                      `bun:"idempotency_key"`
	Hash       opt                      `bun:"idempotency_hash"`
}

func (r *sessionRow) session() action.Session {
	status := action.SessionStatus(r.Status)
	if !r.RevokedAt.t.IsZero() && !status.Ended() {
		status = action.SessionStopped // by an instance that knows no status
	}
	return action.Session{
		ID: r.ID, Organization: r.Organization, Kind: action.SessionKind(r.Kind), Type: action.SessionType(r.Type),
		Automation: string(r.Automation), Group: string(r.Group), Task: string(r.Task), Event: string(r.Event), Title: string(r.Title),
		Connections: r.Connections.v, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.t, ExpiresAt: r.ExpiresAt.ptr(), RevokedAt: r.RevokedAt.ptr(),
		CompletedAt: r.CompletedAt.ptr(),
		Status:      status, Tools: action.ToolListing(r.Tools), Prompt: string(r.Prompt), Model: string(r.Model),
		LastSeenAt: r.LastSeenAt.ptr(), IdleTimeout: fromIdle(r.Idle), EndedNote: string(r.EndedNote), LeftOut: r.LeftOut.v,
	}
}

func fromIdle(seconds sql.NullInt64) time.Duration {
	switch {
	case !seconds.Valid:
		return 0
	case seconds.Int64 == 0:
		return action.NeverIdle
	}
	return time.Duration(seconds.Int64) * time.Second
}

func toIdle(d time.Duration) sql.NullInt64 {
	return sql.NullInt64{Int64: int64(max(d, 0) / time.Second), Valid: d != 0}
}

// CreateSession writes a session and returns it with what was left out: an id,
// its kind (interactive, or unattended with an automation), its type (coding)
// and when it was made. It can be bound to integrations that who makes it may
// see.
func (db *DB) CreateSession(ctx context.Context, s action.Session) (action.Session, error) {
	if err := db.completeSession(&s); err != nil {
		return action.Session{}, err
	}
	r := newSessionRow(&s)
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkConnections(ctx, tx, s.Organization, s.CreatedBy, s.Connections, false); err != nil {
			return err
		}
		_, err := tx.NewInsert().Model(r).Exec(ctx)
		return err
	})
	if err != nil {
		return action.Session{}, fmt.Errorf("making a session: %w", err)
	}
	return r.session(), nil
}

func newSessionRow(s *action.Session) *sessionRow {
	r := &sessionRow{
		ID: s.ID, Organization: s.Organization, Kind: string(s.Kind), Type: string(s.Type), Automation: opt(s.Automation),
		Group: opt(s.Group), Task: opt(s.Task), Event: opt(s.Event), Title: opt(s.Title), CreatedBy: s.CreatedBy,
		CreatedAt: at(s.CreatedAt), ExpiresAt: atPtr(s.ExpiresAt),
	}
	r.Connections.v = s.Connections
	r.Status, r.Tools, r.Prompt, r.Model = string(s.Status), opt(s.Tools), opt(s.Prompt), opt(s.Model)
	r.LastSeenAt, r.Idle, r.LeftOut.v = atPtr(s.LastSeenAt), toIdle(s.IdleTimeout), s.LeftOut
	return r
}

func (db *DB) completeSession(s *action.Session) error {
	if s.CreatedAt.IsZero() {
		s.CreatedAt = db.now()
	}
	return first(s.Check(), idOr(&s.ID))
}

// invalid is bad input in a field.
func invalid(field, message string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid", Field: field, Message: message}
}

// Session returns one session by its id alone: who presents a token knows no
// more. Whether it is live is for [action.Session.Live] to say.
func (db *DB) Session(ctx context.Context, id string) (action.Session, error) {
	r := &sessionRow{ID: id}
	ctx, stop := db.lookup(ctx)
	defer stop()
	err := db.stmts.session.model(ctx, db.read, r, id)
	if errors.Is(err, sql.ErrNoRows) {
		return action.Session{}, noSession()
	}
	if err != nil {
		return action.Session{}, fmt.Errorf("reading session %s: %w", id, err)
	}
	return r.session(), nil
}

func sessionQuery(db *bun.DB) string {
	return db.NewSelect().Model((*sessionRow)(nil)).Where("id = ?", bun.Safe("?1")).String()
}

func noSession() error {
	return action.NewError("session_not_found")
}

// ListSessions returns a page of sessions, newest first.
func (db *DB) ListSessions(ctx context.Context, f action.SessionFilter) (action.Page[action.Session], error) {
	after, err := parseCursor(f.Cursor)
	if err != nil {
		return action.Page[action.Session]{}, err
	}
	now := at(db.now())
	match := func(q *bun.SelectQuery) *bun.SelectQuery {
		q = q.Where("organization_id = ?", f.Organization)
		if f.Automation != "" {
			q = q.Where("automation_id = ?", f.Automation)
		}
		if f.Live {
			q = q.Where("revoked_at IS NULL").Where("completed_at IS NULL").Where("expires_at IS NULL OR expires_at > ?", now)
		}
		if f.Ended {
			q = q.Where("revoked_at IS NOT NULL OR completed_at IS NOT NULL OR expires_at <= ?", now)
		}
		switch f.Status {
		case "":
		case action.SessionFailed:
			q = q.Where("status = 'failed'")
		case action.SessionStopped: // also by an instance that knows no status
			q = q.Where("revoked_at IS NOT NULL").Where("status <> 'failed'")
		case action.SessionPending, action.SessionRunning, action.SessionPaused:
			q = live(q.Where("status = ?", f.Status), now)
		}
		return q
	}
	limit := pageSize(f.Limit)
	var rows []sessionRow
	err = newestFirst(match(db.read.NewSelect().Model(&rows).ExcludeColumn("prompt")), after, limit).Scan(ctx)
	if err != nil {
		return action.Page[action.Session]{}, fmt.Errorf("listing sessions: %w", err)
	}
	total, capped, err := countUpTo(ctx, match(db.read.NewSelect().Table("sessions")))
	if err != nil {
		return action.Page[action.Session]{}, fmt.Errorf("counting sessions: %w", err)
	}
	list := make([]action.Session, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].session())
	}
	return newPage(list, limit, total, capped, func(s action.Session) cursor { return cursor{at(s.CreatedAt), s.ID} }), nil
}

// RevokeSession ends a session for good and withdraws its pending invocations,
// which are returned. A second time changes nothing.
func (db *DB) RevokeSession(ctx context.Context, organization, id string) (withdrew []action.Invocation, err error) {
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		withdrew, err = revokeSession(ctx, tx, organization, id, db.now(), action.NoteRevoked)
		return err
	})
	return withdrew, err
}

// revokeSession tells with the note why its calls were withdrawn. The session's
// row comes first: who begins a call that waits holds it, too.
func revokeSession(ctx context.Context, tx bun.IDB, organization, id string, now time.Time, note string) ([]action.Invocation, error) {
	n, err := affected(tx.NewUpdate().Table("sessions").
		Set("status = CASE WHEN revoked_at IS NULL THEN 'stopped' ELSE status END").
		Set("ended_note = CASE WHEN revoked_at IS NULL THEN ? ELSE ended_note END", note).
		Set("revoked_at = coalesce(revoked_at, ?)", at(now)).
		Where("organization_id = ?", organization).Where("id = ?", id).Exec(ctx))
	if err != nil {
		return nil, fmt.Errorf("revoking session %s: %w", id, err)
	}
	if n == 0 {
		return nil, noSession()
	}
	return withdrawCalls(ctx, tx, organization, "session_id", id, now, note)
}

// completeSession has a session do nothing new from now on, but live until a
// time, so that its agent hears what it was answered. Its calls are withdrawn as
// by [revokeSession].
func completeSession(ctx context.Context, tx bun.IDB, organization, id string, now, until time.Time, note string) ([]action.Invocation, error) {
	n, err := affected(tx.NewUpdate().Table("sessions").Set("completed_at = ?", at(now)).
		Set("expires_at = CASE WHEN expires_at < ? THEN expires_at ELSE ? END", at(until), at(until)).
		Where("organization_id = ?", organization).Where("id = ?", id).Where("revoked_at IS NULL").Where("completed_at IS NULL").Exec(ctx))
	if err != nil {
		return nil, fmt.Errorf("completing session %s: %w", id, err)
	}
	if n == 0 {
		return nil, noSession()
	}
	return withdrawCalls(ctx, tx, organization, "session_id", id, now, note)
}

// withdrawCalls withdraws what waits in a session whose row the caller holds, or
// for a source.
func withdrawCalls(ctx context.Context, tx bun.IDB, organization, column, id string, now time.Time, note string) ([]action.Invocation, error) {
	var rows []invocationRow
	err := withdrawn(tx.NewUpdate().Table("invocations"), now, note).
		Where("organization_id = ?", organization).Where("? = ?", bun.Ident(column), id).Where("status = 'pending'").
		Returning(shownList).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("withdrawing the calls of %s: %w", id, err)
	}
	return invocations(rows)
}
