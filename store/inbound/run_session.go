package inbound

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

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

// sessionOrigin is the event and run of a session.
type sessionOrigin struct {
	Session string              `bun:"id"`
	Event   string              `bun:"event_id"`
	Run     database.NullString `bun:"run_id"`
	Status  database.NullString `bun:"status"`
	Message database.NullString `bun:"message"`
}

// OriginsOfSessions returns the events and runs of sessions by session ID.
// Sessions without an event are omitted.
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

// SelectSessionOrigins selects the events and runs of sessions.
func SelectSessionOrigins(db bun.IDB, organization string, ids []string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("sessions AS s").ColumnExpr("s.id, s.event_id, r.id AS run_id").
		ColumnExpr("CASE WHEN r.session_id = s.id THEN r.status END AS status, CASE WHEN r.session_id = s.id THEN substr(r.message, 1, 500) END AS message").
		Join("LEFT JOIN runs AS r ON r.organization_id = s.organization_id AND "+sessions.CreatedByRunSQL, action.AutomationCreator("")).
		Where("s.organization_id = ?", organization).Where("s.id IN (?)", bun.List(ids)).Where("s.event_id IS NOT NULL")
}
