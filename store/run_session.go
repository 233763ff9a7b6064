package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
)

// RunOfSession returns the run that a session works on, or worked on before
// another one did; ErrNotFound.
func (db *DB) RunOfSession(ctx context.Context, organization, session string) (event.Run, error) {
	r, err := firstRun(ctx, func(into any) *bun.SelectQuery { return runOfSession(db.read, into, organization, session) })
	if err != nil {
		return event.Run{}, err
	}
	return r.run(), nil
}

// madeByRun goes by the event, which later sessions of the run have too. A
// person can name an event in a session that he makes; that of a run is made
// in no person's name.
const madeByRun = "s.event_id = r.event_id AND s.created_by = ? || r.automation_id"

func runOfSession(db bun.IDB, into any, organization, session string) *bun.SelectQuery {
	return runs(db, into).Join("JOIN sessions AS s ON "+madeByRun, action.ByAutomation("")).
		Where("s.organization_id = ?", organization).Where("s.id = ?", session).Where("r.organization_id = ?", organization)
}

// sessionsOfRun are those of all claims of a run.
func (db *DB) sessionsOfRun(ctx context.Context, organization, run string) (ids []string, err error) {
	if err := sessionsOfRun(db.read, organization, run).Scan(ctx, &ids); err != nil {
		return nil, fmt.Errorf("reading the sessions of run %s: %w", run, err)
	}
	return ids, nil
}

func sessionsOfRun(db bun.IDB, organization, run string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("runs AS r").Column("s.id").Join("JOIN sessions AS s ON s.organization_id = r.organization_id AND "+madeByRun, action.ByAutomation("")).
		Where("r.organization_id = ?", organization).Where("r.id = ?", run)
}

// originOfSession is of a session with an event.
type originOfSession struct {
	Session string `bun:"id"`
	Event   string `bun:"event_id"`
	Run     opt    `bun:"run_id"`
	Status  opt    `bun:"status"`
	Message opt    `bun:"message"`
}

// OriginsOfSessions returns what sessions were minted for, by their ids: those
// that were minted for no event are left out.
func (db *DB) OriginsOfSessions(ctx context.Context, organization string, sessions []string) (map[string]event.Origin, error) {
	known := map[string]event.Origin{}
	for some := range slices.Chunk(sessions, chunk) {
		var rows []originOfSession
		if err := originsOfSessions(db.read, organization, some).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("reading what sessions were minted for: %w", err)
		}
		for _, r := range rows {
			known[r.Session] = event.Origin{Event: r.Event, Run: string(r.Run), Status: event.RunStatus(r.Status), Message: string(r.Message)}
		}
	}
	return known, nil
}

func originsOfSessions(db bun.IDB, organization string, sessions []string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("sessions AS s").ColumnExpr("s.id, s.event_id, r.id AS run_id").
		ColumnExpr("CASE WHEN r.session_id = s.id THEN r.status END AS status, CASE WHEN r.session_id = s.id THEN substr(r.message, 1, 500) END AS message").
		Join("LEFT JOIN runs AS r ON r.organization_id = s.organization_id AND "+madeByRun, action.ByAutomation("")).
		Where("s.organization_id = ?", organization).Where("s.id IN (?)", bun.List(sessions)).Where("s.event_id IS NOT NULL")
}
