package sessions

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// ExcludedApproverSQL selects the user that may not approve the calls of a session:
// its creator, if the organization forbids self-approval, and otherwise the empty
// string. It is part of the deciding statement, so that no change comes between.
func ExcludedApproverSQL(organization, session string) string {
	return `coalesce((SELECT s.created_by FROM sessions s JOIN organizations o ON o.id = s.organization_id
  WHERE s.organization_id = ` + organization + ` AND s.id = ` + session + ` AND o.self_approval = 0), '')`
}

// CheckApprover returns an error if the user may not approve the calls of the session.
func CheckApprover(ctx context.Context, tx bun.IDB, organization, session, by, invocation string) error {
	var creator string
	if err := tx.NewRaw("SELECT "+ExcludedApproverSQL("?", "?"), organization, session).Scan(ctx, &creator); err != nil {
		return fmt.Errorf("reading the creator of session %s: %w", session, err)
	}
	if creator == by {
		return action.NewError("self_approval").WithInvocation(invocation)
	}
	return nil
}

// CheckApproval checks that the session is live, and that the user may approve its
// calls.
func CheckApproval(ctx context.Context, tx bun.IDB, organization, session, by string, now time.Time) error {
	s, err := ReadSession(ctx, tx, organization, session)
	if err != nil {
		return err
	}
	if s.Live(now) != nil {
		return action.Errorf(action.ErrConflict, "session_ended", "The session has ended, so it cannot get grants or approvals.")
	}
	return CheckApprover(ctx, tx, organization, session, by, "")
}

// ReadSession reads a session of the organization within a transaction.
func ReadSession(ctx context.Context, tx bun.IDB, organization, id string) (action.Session, error) {
	r, err := database.One[SessionRow](ctx, database.RowsOf[SessionRow](tx, organization).Where("id = ?", id), NotFound())
	return r.Session(), err
}

// SessionRow is a row of the table sessions.
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
	Idle       sql.NullInt64                   `bun:"idle_seconds"` // NULL: the gateway's default; 0: never
	EndedNote  database.NullString             `bun:"ended_note"`
	LeftOut    database.JSON[[]action.LeftOut] `bun:"left_out"`
	Key        database.NullString             `bun:"idempotency_key"`
	Hash       database.NullString             `bun:"idempotency_hash"`

	Workspace      database.NullString                       `bun:"workspace_id"`
	Repositories   database.JSON[[]action.SessionRepository] `bun:"repositories"`
	FirstPrompt    database.NullString                       `bun:"first_prompt"`
	Parent         database.NullString                       `bun:"parent_id"`
	Snapshot       database.NullString                       `bun:"snapshot_id"`
	Provider       database.NullString                       `bun:"provider"`
	Sandbox        string                                    `bun:"sandbox_state"`
	Client         database.NullString                       `bun:"client"`
	ClientMetadata database.NullString                       `bun:"client_metadata"`
	Origin         database.NullString                       `bun:"origin"`
	action.Budget
}

// Session converts the row.
func (r *SessionRow) Session() action.Session {
	status := action.SessionStatus(r.Status)
	if !r.RevokedAt.Time.IsZero() && !status.Ended() {
		status = action.SessionStopped // by an older instance, which does not write the status
	}
	return action.Session{
		ID: r.ID, Organization: r.Organization, Kind: action.SessionKind(r.Kind), Type: action.SessionType(r.Type),
		Automation: string(r.Automation), Group: string(r.Group), Task: string(r.Task), Event: string(r.Event), Title: string(r.Title),
		Connections: r.Connections.V, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.Time, ExpiresAt: r.ExpiresAt.Ptr(), RevokedAt: r.RevokedAt.Ptr(),
		CompletedAt: r.CompletedAt.Ptr(),
		Status:      status, Tools: action.ToolListing(r.Tools), Prompt: string(r.Prompt), Model: string(r.Model),
		LastSeenAt: r.LastSeenAt.Ptr(), IdleTimeout: idleTimeout(r.Idle), EndedNote: string(r.EndedNote), LeftOut: r.LeftOut.V,
		Workspace: string(r.Workspace), Repositories: r.Repositories.V, FirstPrompt: string(r.FirstPrompt), Parent: string(r.Parent), Snapshot: string(r.Snapshot),
		Provider: string(r.Provider), Sandbox: action.SandboxState(r.Sandbox), Client: string(r.Client), ClientMetadata: metadata(r.ClientMetadata), Origin: action.Origin(r.Origin), Budget: r.Budget,
	}
}

func metadata(text database.NullString) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func idleTimeout(seconds sql.NullInt64) time.Duration {
	switch {
	case !seconds.Valid:
		return 0
	case seconds.Int64 == 0:
		return action.NeverIdle
	}
	return time.Duration(seconds.Int64) * time.Second
}

// IdleSeconds converts an idle timeout to its column.
func IdleSeconds(d time.Duration) sql.NullInt64 {
	return sql.NullInt64{Int64: int64(max(d, 0) / time.Second), Valid: d != 0}
}

// NewSessionRow returns the row of a new session.
func NewSessionRow(s *action.Session) *SessionRow {
	r := &SessionRow{
		ID: s.ID, Organization: s.Organization, Kind: string(s.Kind), Type: string(s.Type), Automation: database.NullString(s.Automation),
		Group: database.NullString(s.Group), Task: database.NullString(s.Task), Event: database.NullString(s.Event), Title: database.NullString(s.Title), CreatedBy: s.CreatedBy,
		CreatedAt: database.NewTimestamp(s.CreatedAt), ExpiresAt: database.TimestampFromPtr(s.ExpiresAt),
	}
	r.Connections.V = s.Connections
	r.Status, r.Tools, r.Prompt, r.Model = string(s.Status), database.NullString(s.Tools), database.NullString(s.Prompt), database.NullString(s.Model)
	r.LastSeenAt, r.Idle, r.LeftOut.V = database.TimestampFromPtr(s.LastSeenAt), IdleSeconds(s.IdleTimeout), s.LeftOut
	r.Workspace, r.Repositories.V, r.FirstPrompt, r.Parent = database.NullString(s.Workspace), s.Repositories, database.NullString(s.FirstPrompt), database.NullString(s.Parent)
	r.Snapshot, r.Provider, r.Sandbox = database.NullString(s.Snapshot), database.NullString(s.Provider), string(s.Sandbox)
	r.Client, r.ClientMetadata, r.Origin, r.Budget = database.NullString(s.Client), database.NullString(s.ClientMetadata), database.NullString(s.Origin), s.Budget
	return r
}

// JoinDefaultGroup gives a new session without a group that of its automation, or
// else the organization's default group, if there is one.
func JoinDefaultGroup(ctx context.Context, tx bun.IDB, s *action.Session) error {
	if s.Group != "" {
		return nil
	}
	var group database.NullString
	err := tx.NewSelect().ColumnExpr("coalesce(a.group_id, o.default_group)").TableExpr("organizations AS o").
		Join("LEFT JOIN automations AS a ON a.organization_id = o.id AND a.id = ?", s.Automation).
		Where("o.id = ?", s.Organization).Scan(ctx, &group)
	if err != nil {
		return fmt.Errorf("reading the default group: %w", err)
	}
	s.Group = string(group)
	return nil
}

// Session returns a session by its id alone, since a session token holds no more.
// The caller checks [action.Session.Live]. Errors: ErrNotFound.
func (st *Store) Session(ctx context.Context, id string) (action.Session, error) {
	r := &SessionRow{ID: id}
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	err := st.stmts.session.Model(ctx, st.db.Read, r, id)
	if errors.Is(err, sql.ErrNoRows) {
		return action.Session{}, NotFound()
	}
	if err != nil {
		return action.Session{}, fmt.Errorf("reading session %s: %w", id, err)
	}
	return r.Session(), nil
}

func sessionQuery(db *bun.DB) string {
	return db.NewSelect().Model((*SessionRow)(nil)).Where("id = ?", bun.Safe("?1")).String()
}

// NotFound returns the error for a session that does not exist.
func NotFound() error {
	return action.NewError("session_not_found")
}

// ListSessions returns a page of sessions, newest first.
func (st *Store) ListSessions(ctx context.Context, f action.SessionFilter) (action.Page[action.Session], error) {
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
		case action.SessionStopped: // an older instance does not write the status
			q = q.Where("revoked_at IS NOT NULL").Where("status <> 'failed'")
		case action.SessionPending, action.SessionRunning, action.SessionPaused:
			q = WhereLive(q.Where("status = ?", f.Status), now)
		}
		return q
	}
	return database.ListQuery[SessionRow, action.Session]{
		Cursor: f.Cursor, Limit: f.Limit, All: match(st.db.Read.NewSelect().Table("sessions")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return database.NewestFirst(match(st.db.Read.NewSelect().Model((*SessionRow)(nil)).ExcludeColumn("prompt", "first_prompt", "client_metadata")), after, limit)
		},
		Value: (*SessionRow).Session, Position: func(r *SessionRow) database.Cursor { return database.Cursor{Time: r.CreatedAt, ID: r.ID} },
	}.Page(ctx)
}

// LockSessionSQL locks a session's row until the transaction ends.
const LockSessionSQL = `SELECT FROM sessions WHERE organization_id = ?1 AND id = ?2 FOR NO KEY UPDATE`

// LockSession locks a session's row on databases with several writers.
func (st *Store) LockSession(ctx context.Context, tx bun.IDB, organization, id string) error {
	if !database.Shared(tx) {
		return nil
	}
	_, err := st.stmts.hold.Exec(ctx, tx, organization, id)
	return err
}

// WhereLive restricts a query to sessions that are neither revoked nor expired.
func WhereLive[Q interface{ Where(string, ...any) Q }](q Q, now database.Timestamp) Q {
	return q.Where("revoked_at IS NULL").Where("expires_at IS NULL OR expires_at > ?", now)
}

// CreatedByRunSQL matches the sessions of a run by event, which all of its claims
// share. The creator is compared too, because a person can name the same event in
// a session of their own.
const CreatedByRunSQL = "s.event_id = r.event_id AND s.created_by = ? || r.automation_id"

// SessionsOfRun returns the ids of the sessions of all claims of a run.
func (st *Store) SessionsOfRun(ctx context.Context, organization, run string) (ids []string, err error) {
	if err := RunSessionsQuery(st.db.Read, organization, run).Scan(ctx, &ids); err != nil {
		return nil, fmt.Errorf("reading the sessions of run %s: %w", run, err)
	}
	return ids, nil
}

// RunSessionsQuery selects the sessions of all claims of a run.
func RunSessionsQuery(db bun.IDB, organization, run string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("runs AS r").Column("s.id").Join("JOIN sessions AS s ON s.organization_id = r.organization_id AND "+CreatedByRunSQL, action.AutomationCreator("")).
		Where("r.organization_id = ?", organization).Where("r.id = ?", run)
}

// An MCP session has no row: its state is in its signed id. Only an early end is
// stored, until the id would have expired.
const (
	endMCPSessionSQL = `INSERT INTO ended_mcp_sessions (organization_id, session, expires_at) VALUES (?, ?, ?)
ON CONFLICT (organization_id, session) DO UPDATE SET expires_at = EXCLUDED.expires_at
WHERE ended_mcp_sessions.expires_at < EXCLUDED.expires_at`

	// MCPSessionEndedSQL reports whether a session was ended.
	MCPSessionEndedSQL = `SELECT EXISTS (SELECT 1 FROM ended_mcp_sessions WHERE organization_id = ? AND session = ?)`
)

// EndMCPSession records the end of a session. session is a hash of its id, and
// until is when the id expires; both are required. Repeated calls keep the latest
// until.
func (st *Store) EndMCPSession(ctx context.Context, organization, session string, until time.Time) error {
	err := st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewRaw(endMCPSessionSQL, organization, session, database.NewTimestamp(until)).Exec(ctx)
		return err
	}})
	if err != nil {
		return fmt.Errorf("ending an MCP session: %w", err)
	}
	return nil
}

// MCPSessionEnded reports whether a session of the organization was ended.
// After its id has expired the result is undefined.
func (st *Store) MCPSessionEnded(ctx context.Context, organization, session string) (ended bool, err error) {
	if err := st.db.Read.NewRaw(MCPSessionEndedSQL, organization, session).Scan(ctx, &ended); err != nil {
		return false, fmt.Errorf("checking whether an MCP session ended: %w", err)
	}
	return ended, nil
}

// SweepMCPSessions deletes at most limit (zero: 100) ended sessions whose ids
// have expired, and returns how many.
func (st *Store) SweepMCPSessions(ctx context.Context, now time.Time, limit int) (int, error) {
	return st.db.DeleteExpired(ctx, ExpiredMCPSessions(now), limit)
}

// ExpiredMCPSessions selects the ended sessions whose ids have expired.
func ExpiredMCPSessions(now time.Time) database.Expired {
	return database.Expired{Table: "ended_mcp_sessions", Key: "organization_id, session", Time: "expires_at", Before: database.NewTimestamp(now).Or(database.Epoch)}
}

// SeenInterval is the precision of a session's last use.
const SeenInterval = time.Minute

// SeeSessions records a use of sessions now, and returns those that were pending
// until this first use. A use within [SeenInterval] of the last one is not written.
func (st *Store) SeeSessions(ctx context.Context, ids []string) (started []action.Session, err error) {
	now := database.NewTimestamp(st.db.Now())
	ids = slices.Sorted(slices.Values(ids))
	for chunk := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		var rows []SessionRow
		err := st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
			err := tx.NewUpdate().Model(&rows).Set("status = 'running', last_seen_at = ?", now).
				Where("id IN (?)", bun.List(chunk)).Where("status = 'pending'").Where("revoked_at IS NULL").Returning("id, organization_id").Scan(ctx)
			if err != nil {
				return err
			}
			_, err = tx.NewUpdate().Table("sessions").Set("last_seen_at = ?", now).Where("id IN (?)", bun.List(chunk)).
				Where("revoked_at IS NULL").Where("last_seen_at IS NULL OR last_seen_at <= ?", database.NewTimestamp(now.Time.Add(-SeenInterval))).Exec(ctx)
			return err
		})
		if err != nil {
			return started, fmt.Errorf("recording the use of sessions: %w", err)
		}
		for _, r := range rows {
			started = append(started, action.Session{ID: r.ID, Organization: r.Organization})
		}
	}
	return started, nil
}
