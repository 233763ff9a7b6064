package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// ClaimPoll gives the worker the group that is overdue most and that nobody
// holds, or whose worker lost it; false: there is none. Its turn counts up:
// whoever had it before can write nothing of it any more.
func (db *DB) ClaimPoll(ctx context.Context, worker string, lease time.Duration) (g event.PollGroup, found bool, err error) {
	// A reader looks first: mostly nothing is due.
	some, err := exists(ctx, duePolls(db.read.NewSelect(), db.clockNow()))
	if err != nil || !some {
		return g, false, wrapped("looking for what is to be polled", err)
	}
	var rows []pollGroupRow
	err = db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
		now, until := db.leaseTimes(lease)
		return claimPoll(tx, worker, now, until).Scan(ctx, &rows)
	}})
	if err != nil || len(rows) == 0 {
		return g, false, wrapped("taking what is to be polled", err)
	}
	return rows[0].group(), true, nil
}

// duePolls finds the group that is next.
func duePolls(q *bun.SelectQuery, now any) *bun.SelectQuery {
	return q.Table("poll_groups").Column("id").Where(dueSQL, now).Order("next_at").Limit(1)
}

const dueSQL = "next_at <= ?0 AND (holder IS NULL OR lease_until <= ?0)"

// claimPoll takes one. On PostgreSQL those that others take in this moment are
// left to them.
func claimPoll(db bun.IDB, worker string, now, until any) *bun.UpdateQuery {
	q := db.NewUpdate().Model((*pollGroupRow)(nil)).Set("holder = ?, lease_until = ?, turn = turn + 1", worker, until)
	due := duePolls(db.NewSelect(), now)
	if shared(db) {
		q = q.Where("id = ANY (ARRAY(?))", due.For("NO KEY UPDATE SKIP LOCKED"))
	} else {
		q = q.Where("id IN (?)", due)
	}
	return q.Where(dueSQL, now).Returning("*")
}

// RenewPoll has the lease of a claimed group begin anew; false: the worker lost
// it.
func (db *DB) RenewPoll(ctx context.Context, worker string, g event.PollGroup, lease time.Duration) (held bool, err error) {
	err = db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
		_, until := db.leaseTimes(lease)
		n, err := affected(tx.NewUpdate().Table("poll_groups").Set("lease_until = ?", until).
			Where("id = ?", g.ID).Where("holder = ?", worker).Where("turn = ?", g.Turn).Exec(ctx))
		held = n == 1
		return err
	}})
	return held && err == nil, wrapped("renewing what is polled", err)
}

// wrapped says what was done when err came; nil when there was none.
func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
