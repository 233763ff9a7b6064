package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// useGrantSQL uses up one call of a grant, if it is still usable: everything
// that may have changed since the decision is looked at again, and nothing
// counts twice.
//
//	?1 organization, ?2 session, ?3 grant, ?4 now
var useGrantSQL = `UPDATE grants SET used_calls = used_calls + 1, spent_at = CASE WHEN used_calls + 1 = max_calls THEN ?4 ELSE spent_at END
WHERE organization_id = ?1 AND id = ?3 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?4)
  AND (max_calls IS NULL OR used_calls < max_calls) AND (scope = 'organization' OR session_id = ?2)
  AND created_by <> ` + creatorSQL("?1", "?2")

// useGrant uses up the first of the draft's grants that is still usable, and
// notes it in the row.
//
// No deadlock comes of it, in whatever order calls name their grants: one that
// cannot be used up is not locked, and behind the first that is only the row
// is inserted, which waits for calls of the same session alone, and those wait
// for the session before they come here.
func (db *DB) useGrant(ctx context.Context, tx bun.IDB, d *action.Draft, r *invocationRow) error {
	for _, id := range d.Grants {
		n, err := affected(db.stmts.use.exec(ctx, tx, d.Organization, d.Session, id, r.CreatedAt))
		if err != nil {
			return fmt.Errorf("using up grant %s: %w", id, err)
		}
		if n > 0 {
			r.Grant = opt(id)
			return nil
		}
	}
	return action.ErrGrantSpent
}
