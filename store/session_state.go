package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// SessionStates returns those of some of an organization's sessions, by their
// ids.
func (db *DB) SessionStates(ctx context.Context, organization string, ids []string) (map[string]action.SessionState, error) {
	states := map[string]action.SessionState{}
	if len(ids) == 0 {
		return states, nil
	}
	var rows []struct {
		ID       string `bun:"id"`
		LastCall stamp  `bun:"last_call"`
		Pending  int    `bun:"pending"`
		Grants   int    `bun:"grants"`
	}
	if err := db.read.NewRaw(sessionStatesSQL, organization, bun.List(ids), at(db.now())).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading what goes on in sessions: %w", err)
	}
	for _, r := range rows {
		states[r.ID] = action.SessionState{LastCall: r.LastCall.ptr(), Pending: r.Pending, Grants: r.Grants}
	}
	return states, nil
}

const sessionStatesSQL = `SELECT s.id,
  (SELECT i.created_at FROM invocations AS i WHERE i.organization_id = ?0 AND i.session_id = s.id ORDER BY i.created_at DESC, i.id DESC LIMIT 1) AS last_call,
  (SELECT count(*) FROM invocations AS i WHERE i.organization_id = ?0 AND i.session_id = s.id AND i.status = 'pending') AS pending,
  (SELECT count(*) FROM grants AS g WHERE g.organization_id = ?0 AND coalesce(g.session_id, '') = s.id
    AND g.revoked_at IS NULL AND g.spent_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > ?2)) AS grants
FROM sessions AS s WHERE s.organization_id = ?0 AND s.id IN (?1)`
