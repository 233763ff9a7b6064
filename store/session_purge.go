package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

const (
	// purgeAgain is when a session that had to stay is looked at again: what
	// refers to it may be gone.
	purgeAgain = 7 * 24 * time.Hour
	// purgeBatch is how many sessions go at once: calls wait meanwhile.
	purgeBatch = 20
)

// staysSQL is true of a session that something refers to which stays: without
// its row nobody could say whose call, grant or run that was.
const staysSQL = `EXISTS (SELECT 1 FROM invocations AS i WHERE i.organization_id = s.organization_id AND i.session_id = s.id)
  OR EXISTS (SELECT 1 FROM grants AS g WHERE g.organization_id = s.organization_id AND g.session_id = s.id)
  OR EXISTS (SELECT 1 FROM grant_requests AS g WHERE g.organization_id = s.organization_id AND g.session_id = s.id)
  OR EXISTS (SELECT 1 FROM runs AS r WHERE r.organization_id = s.organization_id AND r.session_id = s.id)`

// PurgeSessions deletes up to limit (zero: 100) sessions that ended before a
// time, and returns how many it looked at: while that is limit, there may be
// more. One that calls, grants or runs refer to keeps its row, by which
// evidence says who and for what it was, and loses what is its own alone:
// title, prompt, model, notes and key.
func (db *DB) PurgeSessions(ctx context.Context, before time.Time, limit int) (n int, err error) {
	now := db.now()
	ids, err := db.purgeable(ctx, before, now, orHundred(limit))
	for some := range slices.Chunk(ids, purgeBatch) {
		if err == nil {
			err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error { return purge(ctx, tx, some, now) })
		}
	}
	if err != nil {
		return 0, fmt.Errorf("deleting sessions that ended long ago: %w", err)
	}
	return len(ids), nil
}

// purgeable finds sessions that ended before a time: first those that were never
// looked at.
func (db *DB) purgeable(ctx context.Context, before, now time.Time, limit int) (ids []string, err error) {
	if err := unpurged(db.read, before, limit).Scan(ctx, &ids); err != nil || len(ids) == limit {
		return ids, err
	}
	var again []string
	err = purgedLongAgo(db.read, now, limit-len(ids)).Scan(ctx, &again)
	return append(ids, again...), err
}

func unpurged(db bun.IDB, before time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Table("sessions").Column("id").Where("purged_at IS NULL").
		Where("coalesce(revoked_at, expires_at) <= ?", at(before)).OrderExpr("coalesce(revoked_at, expires_at)").Limit(int64(limit))
}

func purgedLongAgo(db bun.IDB, now time.Time, limit int) *bun.SelectQuery {
	return db.NewSelect().Table("sessions").Column("id").Where("purged_at IS NOT NULL").
		Where("purged_at <= ?", at(now.Add(-purgeAgain))).Order("purged_at").Limit(int64(limit))
}

func purge(ctx context.Context, tx bun.IDB, ids []string, now time.Time) error {
	if _, err := deletePurged(tx, ids).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewUpdate().Table("sessions").Set("title = NULL, prompt = NULL, model = NULL, ended_note = NULL, left_out = NULL").
		Set("idempotency_key = NULL, idempotency_hash = NULL").Set("purged_at = ?", at(now)).Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}

func deletePurged(tx bun.IDB, ids []string) *bun.RawQuery {
	return tx.NewRaw("DELETE FROM sessions AS s WHERE s.id IN (?) AND NOT ("+staysSQL+")", bun.List(ids))
}
