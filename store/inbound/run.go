package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
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
		ColumnExpr(`(SELECT count(*) FROM invocations AS i
			WHERE i.organization_id = r.organization_id AND i.session_id = r.session_id AND i.status = 'pending') AS waiting`)
}

func (r *RunRow) run() event.Run {
	return event.Run{
		ID: r.ID, Organization: r.Organization, Automation: r.Automation, Event: r.Event, Trigger: r.Trigger,
		Status: event.RunStatus(r.Status), Attempt: r.Attempt, Claim: string(r.Claim), ClaimedBy: string(r.ClaimedBy),
		LeaseUntil: r.LeaseUntil.Ptr(), Deadline: r.Deadline.Ptr(), Session: string(r.Session), Waiting: r.Waiting,
		Code: string(r.Code), Message: string(r.Message), Result: json.RawMessage(r.Result),
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
	after, err := database.ParseCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	if f.Status != "" && !slices.Contains(runStatuses, f.Status) {
		return page, database.Invalid("/status", fmt.Sprintf("There is no status %q of a run; it is one of %q.", f.Status, runStatuses))
	}
	limit := database.PageSize(f.Limit)
	var rows []RunRow
	if err := database.NewestFirst(FilterRuns(f, SelectRuns(st.db.Read, &rows)), after, limit).Scan(ctx); err != nil {
		return page, fmt.Errorf("listing runs: %w", err)
	}
	total, capped, err := database.CountUpTo(ctx, FilterRuns(f, st.db.Read.NewSelect().TableExpr("runs AS r")))
	if err != nil {
		return page, fmt.Errorf("counting runs: %w", err)
	}
	list := make([]event.Run, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].run())
	}
	return database.NewPage(list, limit, total, capped, func(r event.Run) database.Cursor {
		return database.Cursor{Time: database.NewTimestamp(r.CreatedAt), ID: r.ID}
	}), nil
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
	return q
}

// ErrRunChanged reports that a run changed after it was read; nothing was
// written.
var ErrRunChanged = errors.New("the run changed meanwhile")

// checkSwapped returns [ErrRunChanged] if a compare-and-swap changed no row.
func checkSwapped(n int, err error) error {
	if err == nil && n == 0 {
		return ErrRunChanged
	}
	return err
}
