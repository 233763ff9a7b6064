package sessions

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

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
