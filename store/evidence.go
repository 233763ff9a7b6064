package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"sallyport/action"
)

const sealSQL = `SELECT seq, digest, sealed_at FROM audit_seals WHERE row_id = ? AND kind = 'invocation' AND organization_id || '' = ?`

// Evidence returns what proves an invocation; ErrNotFound. It compares the row
// with its seal, and does not follow the chain: see [DB.VerifyAudit].
func (db *DB) Evidence(ctx context.Context, organization, id string) (e action.Evidence, err error) {
	key := rowKey{sealedInvocation, id}
	digests, err := db.digests(ctx, organization, []rowKey{key})
	if err != nil {
		return e, err
	}
	digest, ok := digests[key]
	if !ok {
		return e, notFound(id)
	}
	e.Digest = hex.EncodeToString(digest)
	var sealed []byte
	var at, delivered stamp
	err = db.each(ctx, db.read.NewRaw(sealSQL, id, organization), func(rows *sql.Rows) error { return rows.Scan(&e.Seq, &sealed, &at) })
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return e, fmt.Errorf("reading the seal of invocation %s: %w", id, err)
	}
	e.SealedAt, e.Changed = at.ptr(), sealed != nil && !bytes.Equal(sealed, digest)
	q := db.read.NewSelect().Table("invocations").Column("delivered_at").Where("id = ?", id)
	if err := db.each(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&delivered) }); err != nil {
		return e, fmt.Errorf("reading the delivery of invocation %s: %w", id, err)
	}
	e.DeliveredAt = delivered.ptr()
	return e, nil
}
