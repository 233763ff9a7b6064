package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// RunRow is a row of the runs table.
type RunRow struct {
	bun.BaseModel `bun:"table:runs,alias:r"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Automation   string              `bun:"automation_id"`
	Event        string              `bun:"event_id"`
	Trigger      string              `bun:"trigger_id"`
	Status       string              `bun:"status"`
	Attempt      int                 `bun:"attempt"`
	Claim        database.NullString `bun:"claim_id"`
	LastClaim    database.NullString `bun:"last_claim"` // the claim with which its worker ended it
	ClaimedBy    database.NullString `bun:"claimed_by"`
	LeaseUntil   database.Timestamp  `bun:"lease_until"`
	LeaseSeconds *int64              `bun:"lease_seconds"`
	Deadline     database.Timestamp  `bun:"deadline"`
	Session      database.NullString `bun:"session_id"`
	Code         database.NullString `bun:"code"`
	Message      database.NullString `bun:"message"`
	Result       database.NullString `bun:"result"`
	Attention    database.NullString `bun:"attention_id"` // of [event.Run.NeedsAttention]: another one each time
	CreatedAt    database.Timestamp  `bun:"created_at"`
	StartedAt    database.Timestamp  `bun:"started_at"`
	CompletedAt  database.Timestamp  `bun:"completed_at"`

	Title   string `bun:"title,scanonly"`
	Waiting int    `bun:"waiting,scanonly"`
}

// SelectRuns selects runs with their titles and pending calls. Subqueries keep
// the order of the runs' indexes and read only the rows of the page.
func SelectRuns(db bun.IDB, dest any) *bun.SelectQuery {
	return db.NewSelect().Model(dest).ColumnExpr("r.*").
		ColumnExpr("(SELECT e.title FROM events AS e WHERE e.id = r.event_id) AS title").
		ColumnExpr(`(SELECT count(*) FROM open_calls AS i
			WHERE i.organization_id = r.organization_id AND i.session_id = r.session_id AND i.status || '' = 'pending') AS waiting`)
}

func (r *RunRow) run() event.Run {
	return event.Run{
		ID: r.ID, Organization: r.Organization, Automation: r.Automation, Event: r.Event, Trigger: r.Trigger,
		Status: event.RunStatus(r.Status), Attempt: r.Attempt, Claim: string(r.Claim), ClaimedBy: string(r.ClaimedBy),
		LeaseUntil: r.LeaseUntil.Ptr(), Deadline: r.Deadline.Ptr(), Session: string(r.Session), Waiting: r.Waiting,
		Code: string(r.Code), Message: string(r.Message), Result: json.RawMessage(r.Result), NeedsAttention: r.Attention != "",
		CreatedAt: r.CreatedAt.Time, StartedAt: r.StartedAt.Ptr(), EndedAt: r.CompletedAt.Ptr(), Title: r.Title,
	}
}

func (r *RunRow) is(s event.RunStatus) bool { return r.Status == string(s) }

// Run returns a run; ErrNotFound.
func (st *Store) Run(ctx context.Context, organization, id string) (event.Run, error) {
	return readRunValue(ctx, st.db.Read, organization, id)
}

func readRunValue(ctx context.Context, db bun.IDB, organization, id string) (event.Run, error) {
	r, err := ReadRun(ctx, db, organization, id)
	if err != nil {
		return event.Run{}, err
	}
	return r.run(), nil
}

// ReadRun reads a run; ErrNotFound.
func ReadRun(ctx context.Context, db bun.IDB, organization, id string) (*RunRow, error) {
	return FirstRun(ctx, func(dest any) *bun.SelectQuery {
		return SelectRuns(db, dest).Where("r.organization_id = ?", organization).Where("r.id = ?", id)
	})
}

// FirstRun returns the first run of a query; ErrNotFound.
func FirstRun(ctx context.Context, find func(dest any) *bun.SelectQuery) (*RunRow, error) {
	var rows []RunRow
	if err := find(&rows).Limit(1).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading a run: %w", err)
	}
	if len(rows) == 0 {
		return nil, action.NewError("run_not_found")
	}
	return &rows[0], nil
}

// runStatuses lists all statuses of a run. The first indexedStatuses of them
// are in the partial index by status.
var runStatuses = []event.RunStatus{
	event.RunQueued, event.RunClaimed, event.RunRunning, event.RunNeedsHuman, event.RunFailed, event.RunSucceeded, event.RunSkipped,
}

const (
	indexedStatuses  = 5 // of runStatuses; the others are too common to index
	indexedStatusSQL = "r.status IN ('queued', 'claimed', 'running', 'needs_human', 'failed')"
)

// ListRuns returns a page of runs, newest first.
func (st *Store) ListRuns(ctx context.Context, f event.RunFilter) (page action.Page[event.Run], err error) {
	if f.Status != "" && !slices.Contains(runStatuses, f.Status) {
		return page, database.Invalid("/status", fmt.Sprintf("There is no status %q of a run. Use one of %q.", f.Status, runStatuses))
	}
	return database.ListQuery[RunRow, event.Run]{
		Cursor: f.Cursor, Limit: f.Limit, All: FilterRuns(f, st.db.Read.NewSelect().TableExpr("runs AS r")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return database.NewestFirst(FilterRuns(f, SelectRuns(st.db.Read, (*RunRow)(nil))), after, limit)
		},
		Value: (*RunRow).run, Position: func(r *RunRow) database.Cursor { return database.Cursor{Time: r.CreatedAt, ID: r.ID} },
	}.Page(ctx)
}

// LastRuns returns the newest run of each automation that has one, by the
// automation's ID.
func (st *Store) LastRuns(ctx context.Context, organization string) (map[string]event.Run, error) {
	var rows []RunRow
	if err := LastRuns(st.db.Read, &rows, organization).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the last runs: %w", err)
	}
	last := make(map[string]event.Run, len(rows))
	for i := range rows {
		last[rows[i].Automation] = rows[i].run()
	}
	return last, nil
}

// LastRuns probes the index once for each automation, however many runs it has.
// The organization is an expression, so that the planner uses only the primary
// key.
func LastRuns(db bun.IDB, dest any, organization string) *bun.SelectQuery {
	return SelectRuns(db, dest).Where("r.organization_id || '' = ?", organization).Where(`r.id IN (SELECT (
		SELECT l.id FROM runs AS l WHERE l.organization_id = a.organization_id AND l.automation_id = a.id ORDER BY l.created_at DESC, l.id DESC LIMIT 1)
		FROM automations AS a WHERE a.organization_id = ?0)`, organization)
}

// FilterRuns restricts q to the runs that f matches.
func FilterRuns(f event.RunFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("r.organization_id = ?", f.Organization)
	if f.Automation != "" {
		q = q.Where("r.automation_id = ?", f.Automation)
	}
	if f.Trigger != "" {
		q = q.Where("r.trigger_id = ?", f.Trigger)
	}
	if f.Event != "" {
		q = q.Where("r.event_id = ?", f.Event)
	}
	if f.Status != "" {
		q = q.Where("r.status = ?", string(f.Status))
		if slices.Contains(runStatuses[:indexedStatuses], f.Status) {
			q = q.Where(indexedStatusSQL) // SQLite only uses a partial index if the query repeats its predicate
		}
	}
	if f.Attention {
		q = q.Where("r.attention_id IS NOT NULL")
	}
	return q
}

// ErrRunChanged reports that a run changed after it was read; nothing was
// written.
var ErrRunChanged = errors.New("the run was changed concurrently")

// checkSwapped returns [ErrRunChanged] if a compare-and-swap changed no row.
func checkSwapped(n int, err error) error {
	if err == nil && n == 0 {
		return ErrRunChanged
	}
	return err
}

// RunOfSession returns the run that the session was created for, also if a
// later session replaced it; ErrNotFound.
func (st *Store) RunOfSession(ctx context.Context, organization, session string) (event.Run, error) {
	r, err := FirstRun(ctx, func(dest any) *bun.SelectQuery { return SelectRunOfSession(st.db.Read, dest, organization, session) })
	if err != nil {
		return event.Run{}, err
	}
	return r.run(), nil
}

// SelectRunOfSession selects the run that the session was created for.
func SelectRunOfSession(db bun.IDB, dest any, organization, session string) *bun.SelectQuery {
	return SelectRuns(db, dest).Join("JOIN sessions AS s ON "+sessions.CreatedByRunSQL, action.AutomationCreator("")).
		Where("s.organization_id = ?", organization).Where("s.id = ?", session).Where("r.organization_id = ?", organization)
}

// sessionOrigin is an [event.SessionOrigin].
type sessionOrigin struct {
	Session   string              `bun:"id"`
	Title     database.NullString `bun:"title"`
	CreatedBy string              `bun:"created_by"`
	Creator   database.NullString `bun:"creator"`
	Group     database.NullString `bun:"group_id"`
	Event     database.NullString `bun:"event_id"`
	Run       database.NullString `bun:"run_id"`
	Status    database.NullString `bun:"status"`
	Message   database.NullString `bun:"message"`
}

// OriginsOfSessions returns the creators, groups, events and runs of sessions by
// session ID.
func (st *Store) OriginsOfSessions(ctx context.Context, organization string, ids []string) (map[string]event.SessionOrigin, error) {
	origins := map[string]event.SessionOrigin{}
	for batch := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		var rows []sessionOrigin
		if err := SelectSessionOrigins(st.db.Read, organization, batch).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("reading the runs of sessions: %w", err)
		}
		for _, r := range rows {
			origins[r.Session] = event.SessionOrigin{
				Title: string(r.Title), CreatedBy: r.CreatedBy, Creator: string(r.Creator), Group: string(r.Group),
				Event: string(r.Event), Run: string(r.Run), Status: event.RunStatus(r.Status), Message: string(r.Message),
			}
		}
	}
	return origins, nil
}

// SelectSessionOrigins selects the origins of sessions, all joins by unique keys.
func SelectSessionOrigins(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("sessions AS s").ColumnExpr("s.id, s.title, s.created_by, s.group_id, s.event_id, r.id AS run_id").
		ColumnExpr("CASE WHEN s.created_by = ? || a.id THEN a.name ELSE u.name END AS creator", action.AutomationCreator("")).
		ColumnExpr("CASE WHEN r.session_id = s.id THEN r.status END AS status, CASE WHEN r.session_id = s.id THEN substr(r.message, 1, 500) END AS message").
		Join("LEFT JOIN runs AS r ON r.organization_id = s.organization_id AND "+sessions.CreatedByRunSQL, action.AutomationCreator("")).
		Join("LEFT JOIN users AS u ON u.organization_id = s.organization_id AND u.id = s.created_by").
		Join("LEFT JOIN automations AS a ON a.organization_id = s.organization_id AND a.id = s.automation_id").
		Where("s.organization_id = ?", organization).Where("s.id IN (?)", bun.List(ids))
}

// originTable is the table of triggers or of schedules, which own events.
type originTable string

const (
	TriggersTable  originTable = "triggers"
	schedulesTable originTable = "schedules"
)

// originRow is an enabled trigger or schedule.
type originRow struct {
	ID           string             `bun:"id"`
	Organization string             `bun:"organization_id"`
	Enabled      bool               `bun:"enabled"`       // whether its automation is enabled
	LastEventAt  database.Timestamp `bun:"last_event_at"` // only of triggers
}

// origins are triggers or schedules by ID.
type origins map[string]originRow

// readOrigins reads the enabled triggers or schedules of the matches. It locks
// their automations, so that none is deleted before the transaction inserts
// runs.
func readOrigins(ctx context.Context, tx bun.IDB, table originTable, list []event.Match) (origins, error) {
	ids := make([]string, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].Record.Trigger)
	}
	slices.Sort(ids)
	enabled := origins{}
	for batch := range slices.Chunk(slices.Compact(ids), database.MaxIDsPerStatement) {
		var rows []originRow
		if err := SelectOrigins(tx, table, batch).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("reading %s: %w", table, err)
		}
		for _, r := range rows {
			enabled[r.ID] = r
		}
	}
	return enabled, nil
}

// lookup returns the trigger or schedule of the match.
func (live origins) lookup(m *event.Match) (originRow, bool) {
	o, ok := live[m.Record.Trigger]
	return o, ok && o.Organization == m.Record.Organization
}

// SelectOrigins selects the enabled triggers or schedules and locks their
// automations.
func SelectOrigins(db bun.IDB, table originTable, ids []string) *bun.SelectQuery {
	q := db.NewSelect().TableExpr("? AS o", bun.Ident(table)).ColumnExpr("o.id, o.organization_id, a.enabled").
		Join("JOIN automations AS a ON a.organization_id = o.organization_id AND a.id = o.automation_id").
		Where("o.id IN (?)", bun.List(ids)).Where("o.enabled")
	if table == TriggersTable {
		q = q.Column("o.last_event_at")
	}
	if database.Shared(db) {
		q = q.OrderExpr("a.organization_id, a.id").For("KEY SHARE OF a")
	}
	return q
}

// lastEventInterval limits how often a trigger's last_event_at is written, so
// that transactions do not contend for the row of a busy trigger.
const lastEventInterval = time.Minute

// updateLastEvent records when an event last matched each trigger.
func (live origins) updateLastEvent(ctx context.Context, tx bun.IDB, list []event.Match, now database.Timestamp) error {
	var ids []string
	for i := range list {
		o, ok := live.lookup(&list[i])
		if ok && list[i].Record.Skip == "" && now.Time.Sub(o.LastEventAt.Time) >= lastEventInterval {
			ids = append(ids, o.ID)
		}
	}
	slices.Sort(ids)
	for batch := range slices.Chunk(slices.Compact(ids), database.MaxIDsPerStatement) {
		if _, err := updateLastEventAt(tx, batch, now).Exec(ctx); err != nil {
			return fmt.Errorf("recording events of triggers: %w", err)
		}
	}
	return nil
}

// updateLastEventAt skips rows that another transaction has locked.
func updateLastEventAt(db bun.IDB, ids []string, now database.Timestamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("triggers").Set("last_event_at = ?", now)
	if !database.Shared(db) {
		return q.Where("id IN (?)", bun.List(ids))
	}
	unlocked := db.NewSelect().Table("triggers").Column("id").Where("id IN (?)", bun.List(ids)).For("NO KEY UPDATE SKIP LOCKED")
	return q.Where("id = ANY (ARRAY(?))", unlocked)
}
