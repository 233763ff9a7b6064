package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"
)

// revokeGrantsOf ends every grant that names the source, each with its event:
// behind it is another server now, or none, whatever its tools' hashes.
func (db *DB) revokeGrantsOf(ctx context.Context, tx bun.Tx, organization, source, by string) error {
	var rows []grantRow
	err := tx.NewUpdate().Model(&rows).Set("revoked_at = ?, revoked_by = ?", at(db.now()), by).
		Where("organization_id = ?", organization).Where("source_id = ?", source).Where("revoked_at IS NULL").Returning(grantColumns).Scan(ctx)
	if err != nil {
		return fmt.Errorf("revoking the grants of %s: %w", source, err)
	}
	for i := range rows {
		g, err := rows[i].grant()
		if err != nil {
			return err
		}
		before := g
		before.RevokedAt, before.RevokedBy = nil, ""
		if err := db.recordChange(ctx, tx, grantChanged(&g, by), before, g); err != nil {
			return err
		}
	}
	return nil
}
