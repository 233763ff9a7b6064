package sessions

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/store/database"
)

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
