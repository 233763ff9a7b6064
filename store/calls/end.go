package calls

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// endSQL ends the open calls that match where: it moves their rows from open_calls to
// invocations, in one statement. set holds the expressions of the columns that change,
// over the columns of the open row. On SQLite a trigger removes the open row.
func endSQL(shared bool, set map[string]string, where string) string {
	var names, values []string
	for _, c := range InvocationTable {
		value, changed := set[c.Name]
		if !changed {
			if c.Flags.Any(endOnly | openOnly) {
				continue
			}
			value = c.Name
		}
		names, values = append(names, c.Name), append(values, value)
	}
	insert := "INSERT INTO invocations (" + strings.Join(names, ", ") + ")\nSELECT " + strings.Join(values, ", ") + " FROM "
	if shared {
		return "WITH ended AS (DELETE FROM open_calls WHERE " + where + " RETURNING *)\n" + insert + "ended"
	}
	return insert + "open_calls WHERE " + where
}

// expire ends one pending row whose time is over.
func expire(ctx context.Context, tx bun.IDB, r *InvocationRow, now time.Time) error {
	ended := database.NewTimestamp(now)
	text := endSQL(database.Shared(tx), map[string]string{"status": "'expired'", "completed_at": "?0"},
		"organization_id = ?1 AND id = ?2 AND status = 'pending'")
	if _, err := tx.NewRaw(text, ended, r.Organization, r.ID).Exec(ctx); err != nil {
		return fmt.Errorf("expiring invocation %s: %w", r.ID, err)
	}
	r.Status, r.CompletedAt, r.SealedParams = string(action.StatusExpired), ended, nil
	return nil
}

// ExpireWaiting ends every pending or approved call as expired, and returns their number.
func ExpireWaiting(ctx context.Context, tx bun.IDB, now time.Time) (int, error) {
	return database.RowsAffected(tx.NewRaw(
		endSQL(database.Shared(tx), map[string]string{"status": "'expired'", "completed_at": "?0"}, "status IN ('pending', 'approved')"),
		database.NewTimestamp(now)).Exec(ctx))
}
