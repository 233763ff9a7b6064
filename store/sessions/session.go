package sessions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// CreatorSQL finds who may not decide about the calls of a session: the one
// who made it, where the organization's settings say so. It is asked in the
// statement that decides; the empty text is nobody.
func CreatorSQL(organization, session string) string {
	return `coalesce((SELECT s.created_by FROM sessions s JOIN organizations o ON o.id = s.organization_id
  WHERE s.organization_id = ` + organization + ` AND s.id = ` + session + ` AND o.self_approval = 0), '')`
}

func selfApproval(invocation string) error {
	return action.NewError("self_approval").WithInvocation(invocation)
}

// Barred returns an error when the person may not approve what the session
// asks for.
func Barred(ctx context.Context, tx bun.IDB, organization, session, by, invocation string) error {
	var creator string
	if err := tx.NewRaw("SELECT "+CreatorSQL("?", "?"), organization, session).Scan(ctx, &creator); err != nil {
		return fmt.Errorf("reading who made session %s: %w", session, err)
	}
	if creator == by {
		return selfApproval(invocation)
	}
	return nil
}

// MayDecide checks that the session is live, and that the person may let
// through what it asks for.
func MayDecide(ctx context.Context, tx bun.IDB, organization, session, by string, now time.Time) error {
	s, err := SessionIn(ctx, tx, organization, session)
	if err != nil {
		return err
	}
	if s.Live(now) != nil {
		return action.Errorf(action.ErrConflict, "session_ended", "The session has ended, so nothing can be let through for it any more.")
	}
	return Barred(ctx, tx, organization, session, by, "")
}

// SessionIn reads a session of the organization within a transaction.
func SessionIn(ctx context.Context, tx bun.IDB, organization, id string) (action.Session, error) {
	r, err := database.One[SessionRow](ctx, database.RowsOf[SessionRow](tx, organization).Where("id = ?", id), NoSession())
	return r.Session(), err
}

type SessionRow struct {
	bun.BaseModel `bun:"table:sessions"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Kind         string              `bun:"kind"`
	Type         string              `bun:"type"`
	Automation   database.NullString `bun:"automation_id"`
	Group        database.NullString `bun:"group_id"`
	Task         database.NullString `bun:"task_id"`
	Event        database.NullString `bun:"event_id"`
	Title        database.NullString `bun:"title"`
	CreatedBy    string              `bun:"created_by"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	ExpiresAt    database.Timestamp  `bun:"expires_at"`
	RevokedAt    database.Timestamp  `bun:"revoked_at"`
	CompletedAt  database.Timestamp  `bun:"completed_at"`

	Connections database.JSON[[]string] `bun:"connections"`

	Status     string                          `bun:"status"`
	Tools      database.NullString             `bun:"tools"`
	Prompt     database.NullString             `bun:"prompt"`
	Model      database.NullString             `bun:"model"`
	LastSeenAt database.Timestamp              `bun:"last_seen_at"`
	Idle       sql.NullInt64                   `bun:"idle_seconds"` // NULL: the gateway's; 0: never
	EndedNote  database.NullString             `bun:"ended_note"`
	LeftOut    database.JSON[[]action.LeftOut] `bun:"left_out"`
	Key        database.NullString             `bun:"idempotency_key"`
	Hash       database.NullString             `bun:"idempotency_hash"`
}

func (r *SessionRow) Session() action.Session {
	status := action.SessionStatus(r.Status)
	if !r.RevokedAt.Time.IsZero() && !status.Ended() {
		status = action.SessionStopped // by an instance that knows no status
	}
	return action.Session{
		ID: r.ID, Organization: r.Organization, Kind: action.SessionKind(r.Kind), Type: action.SessionType(r.Type),
		Automation: string(r.Automation), Group: string(r.Group), Task: string(r.Task), Event: string(r.Event), Title: string(r.Title),
		Connections: r.Connections.V, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.Time, ExpiresAt: r.ExpiresAt.Ptr(), RevokedAt: r.RevokedAt.Ptr(),
		CompletedAt: r.CompletedAt.Ptr(),
		Status:      status, Tools: action.ToolListing(r.Tools), Prompt: string(r.Prompt), Model: string(r.Model),
		LastSeenAt: r.LastSeenAt.Ptr(), IdleTimeout: fromIdle(r.Idle), EndedNote: string(r.EndedNote), LeftOut: r.LeftOut.V,
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

func ToIdle(d time.Duration) sql.NullInt64 {
	return sql.NullInt64{Int64: int64(max(d, 0) / time.Second), Valid: d != 0}
}

func NewSessionRow(s *action.Session) *SessionRow {
	r := &SessionRow{
		ID: s.ID, Organization: s.Organization, Kind: string(s.Kind), Type: string(s.Type), Automation: database.NullString(s.Automation),
		Group: database.NullString(s.Group), Task: database.NullString(s.Task), Event: database.NullString(s.Event), Title: database.NullString(s.Title), CreatedBy: s.CreatedBy,
		CreatedAt: database.NewTimestamp(s.CreatedAt), ExpiresAt: database.TimestampFromPtr(s.ExpiresAt),
	}
	r.Connections.V = s.Connections
	r.Status, r.Tools, r.Prompt, r.Model = string(s.Status), database.NullString(s.Tools), database.NullString(s.Prompt), database.NullString(s.Model)
	r.LastSeenAt, r.Idle, r.LeftOut.V = database.TimestampFromPtr(s.LastSeenAt), ToIdle(s.IdleTimeout), s.LeftOut
	return r
}

// Session returns one session by its id alone: who presents a token knows no
// more. Whether it is live is for [action.Session.Live] to say.
func (st *Store) Session(ctx context.Context, id string) (action.Session, error) {
	r := &SessionRow{ID: id}
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	err := st.stmts.session.Model(ctx, st.db.Read, r, id)
	if errors.Is(err, sql.ErrNoRows) {
		return action.Session{}, NoSession()
	}
	if err != nil {
		return action.Session{}, fmt.Errorf("reading session %s: %w", id, err)
	}
	return r.Session(), nil
}

func SessionQuery(db *bun.DB) string {
	return db.NewSelect().Model((*SessionRow)(nil)).Where("id = ?", bun.Safe("?1")).String()
}

func NoSession() error {
	return action.NewError("session_not_found")
}

// ListSessions returns a page of sessions, newest first.
func (st *Store) ListSessions(ctx context.Context, f action.SessionFilter) (action.Page[action.Session], error) {
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return action.Page[action.Session]{}, err
	}
	now := database.NewTimestamp(st.db.Now())
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
			q = Live(q.Where("status = ?", f.Status), now)
		}
		return q
	}
	limit := database.PageSize(f.Limit)
	var rows []SessionRow
	err = database.NewestFirst(match(st.db.Read.NewSelect().Model(&rows).ExcludeColumn("prompt")), after, limit).Scan(ctx)
	if err != nil {
		return action.Page[action.Session]{}, fmt.Errorf("listing sessions: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, match(st.db.Read.NewSelect().Table("sessions")))
	if err != nil {
		return action.Page[action.Session]{}, fmt.Errorf("counting sessions: %w", err)
	}
	list := make([]action.Session, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].Session())
	}
	return database.NewPage(list, limit, total, capped, func(s action.Session) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(s.CreatedAt), ID: s.ID}
	}), nil
}

const HoldSessionSQL = `SELECT FROM sessions WHERE organization_id = ?1 AND id = ?2 FOR NO KEY UPDATE`

// HoldSession locks a session's row where there are several writers.
func (st *Store) HoldSession(ctx context.Context, tx bun.IDB, organization, id string) error {
	if !database.Shared(tx) {
		return nil
	}
	_, err := st.stmts.hold.Exec(ctx, tx, organization, id)
	return err
}

func Live[Q interface{ Where(string, ...any) Q }](q Q, now database.Timestamp) Q {
	return q.Where("revoked_at IS NULL").Where("expires_at IS NULL OR expires_at > ?", now)
}

// MadeByRun goes by the event, which later sessions of the run have too. A
// person can name an event in a session that he makes; that of a run is made
// in no person's name.
const MadeByRun = "s.event_id = r.event_id AND s.created_by = ? || r.automation_id"

// SessionsOfRun are those of all claims of a run.
func (st *Store) SessionsOfRun(ctx context.Context, organization, run string) (ids []string, err error) {
	if err := SessionsOfRun(st.db.Read, organization, run).Scan(ctx, &ids); err != nil {
		return nil, fmt.Errorf("reading the sessions of run %s: %w", run, err)
	}
	return ids, nil
}

func SessionsOfRun(db bun.IDB, organization, run string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("runs AS r").Column("s.id").Join("JOIN sessions AS s ON s.organization_id = r.organization_id AND "+MadeByRun, action.AutomationCreator("")).
		Where("r.organization_id = ?", organization).Where("r.id = ?", run)
}
