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

// SeenEvery is how exact a session's last use is.
const SeenEvery = time.Minute

// SeeSessions notes that sessions were used now, and returns those that ran
// since: they had waited for their first use. A use within [SeenEvery] of the
// one before is not written.
func (st *Store) SeeSessions(ctx context.Context, ids []string) (began []action.Session, err error) {
	now := database.NewTimestamp(st.db.Now())
	ids = slices.Sorted(slices.Values(ids))
	for some := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		var rows []SessionRow
		err := st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) error {
			err := tx.NewUpdate().Model(&rows).Set("status = 'running', last_seen_at = ?", now).
				Where("id IN (?)", bun.List(some)).Where("status = 'pending'").Where("revoked_at IS NULL").Returning("id, organization_id").Scan(ctx)
			if err != nil {
				return err
			}
			_, err = tx.NewUpdate().Table("sessions").Set("last_seen_at = ?", now).Where("id IN (?)", bun.List(some)).
				Where("revoked_at IS NULL").Where("last_seen_at IS NULL OR last_seen_at <= ?", database.NewTimestamp(now.Time.Add(-SeenEvery))).Exec(ctx)
			return err
		})
		if err != nil {
			return began, fmt.Errorf("noting that sessions are used: %w", err)
		}
		for _, r := range rows {
			began = append(began, action.Session{ID: r.ID, Organization: r.Organization})
		}
	}
	return began, nil
}
