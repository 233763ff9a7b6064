package calls

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	sessionsrows "sallyport/store/sessions"
)

// maxPendingCount limits the count of pending items, well beyond what anybody
// scrolls through.
const maxPendingCount = 100_000

// The status is an expression, so that the planner uses only the primary key.
const waitersSQL = `SELECT id, waiter_seen_at, answered FROM invocations WHERE id IN (?) AND organization_id || '' = ? AND status || '' = 'pending'`

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
			return nil, fmt.Errorf("reading who waits: %w", err)
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

// CountWaiting counts the pending calls, and the pending requests for grants
// and environment variables, each up to 100,000.
func (st *Store) CountWaiting(ctx context.Context, organization string) (calls, requests int, err error) {
	var variables int
	for table, n := range map[string]*int{"invocations": &calls, "grant_requests": &requests, "env_requests": &variables} {
		capped := st.db.Read.NewSelect().Table(table).ColumnExpr("1").Where("organization_id = ?", organization).Where("status = 'pending'").Limit(maxPendingCount)
		if err := st.db.Read.NewSelect().TableExpr("(?) AS part", capped).ColumnExpr("count(*)").Scan(ctx, n); err != nil {
			return 0, 0, fmt.Errorf("counting what waits: %w", err)
		}
	}
	return calls, requests + variables, nil
}
