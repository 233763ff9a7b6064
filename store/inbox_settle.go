package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// settled is a settlement and what else came of it.
type settled struct {
	event.Settlement
	doubled bool
}

// Settle writes what came of claimed receipts, all in one transaction: events,
// runs and outbox of each match whose trigger has no event of the key yet. A
// receipt that the worker lost is left as it is, with all that came of it. It
// takes a handful of statements, however many receipts there are.
func (db *DB) Settle(ctx context.Context, worker string, list []event.Settlement) (out event.Settled, err error) {
	if len(list) == 0 {
		return out, nil
	}
	err = db.write.do(ctx, &job{whole: true, numbered: true, slow: true, run: func(ctx context.Context, tx bun.IDB) error {
		mine, err := heldReceipts(ctx, tx, worker, list)
		if err != nil {
			return err
		}
		if err := markDoubled(ctx, tx, mine); err != nil {
			return err
		}
		out = event.Settled{Doubled: doubled(mine)}
		if out.Runs, err = db.writeMatches(ctx, tx, ofTriggers, matches(mine)); err != nil {
			return err
		}
		return endReceipts(ctx, tx, mine, at(db.now()))
	}})
	if err != nil {
		return event.Settled{}, fmt.Errorf("settling deliveries: %w", err)
	}
	return out, nil
}

// heldReceipts are the settlements of receipts that the worker still has: none
// is taken from him before the transaction ends.
func heldReceipts(ctx context.Context, tx bun.IDB, worker string, list []event.Settlement) ([]*settled, error) {
	attempts := map[string]int{}
	ids := make([]string, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].Receipt.ID)
	}
	for some := range slices.Chunk(ids, chunk) {
		var rows []receiptRow
		if err := receiptsOf(tx, worker, some).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("looking which of them the worker has: %w", err)
		}
		for i := range rows {
			attempts[rows[i].ID] = rows[i].Attempt
		}
	}
	var mine []*settled
	for i := range list {
		if attempt, ok := attempts[list[i].Receipt.ID]; ok && attempt == list[i].Receipt.Attempt {
			mine = append(mine, &settled{Settlement: list[i]})
			delete(attempts, list[i].Receipt.ID) // each is settled once
		}
	}
	return mine, nil
}

func receiptsOf(db bun.IDB, worker string, ids []string) *bun.SelectQuery {
	q := db.NewSelect().Table("inbox").Column("id", "attempt").Where("id IN (?)", bun.List(ids)).
		Where("holder = ?", worker).Where("status = 'processing'")
	if shared(db) {
		q = q.Order("id").For("NO KEY UPDATE")
	}
	return q
}

// matches are what is to be kept of those that are not the same as another.
func matches(list []*settled) (all []event.Match) {
	for _, s := range list {
		if !s.doubled {
			all = append(all, s.Matches...)
		}
	}
	return all
}

func doubled(list []*settled) (ids []string) {
	for _, s := range list {
		if s.doubled {
			ids = append(ids, s.Receipt.ID)
		}
	}
	return ids
}

// outcome is what is written of a receipt. The types are PostgreSQL's, which
// does not see them in a list of values.
type outcome struct {
	ID          string `bun:"id,type:text"`
	Status      string `bun:"status,type:text"`
	NextAt      stamp  `bun:"next_at,type:timestamptz"`
	ProcessedAt stamp  `bun:"processed_at,type:timestamptz"`
	LastError   opt    `bun:"last_error,type:text"`
	Native      opt    `bun:"native,type:text"`
	Shown       opt    `bun:"shown,type:text"`
	Doubled     bool   `bun:"doubled,type:boolean"`
	Failures    int    `bun:"failures,type:integer"`
	Losses      int    `bun:"losses,type:integer"`
	Kept        bool   `bun:"kept,type:boolean"`
}

func (s *settled) outcome(now stamp) outcome {
	o := outcome{
		ID: s.Receipt.ID, Status: string(s.Status), LastError: opt(s.Error), Native: opt(s.Native), Shown: opt(s.Shown), Doubled: s.doubled,
		Failures: s.Failures, Losses: s.Losses, Kept: s.Keep || s.Status != event.ReceiptCompleted,
	}
	if s.Status == event.ReceiptQueued {
		o.NextAt = at(s.NextAt).or(now)
	} else {
		o.ProcessedAt = now
	}
	return o
}

func endReceipts(ctx context.Context, tx bun.IDB, list []*settled, now stamp) error {
	slices.SortFunc(list, func(a, b *settled) int { return cmp.Compare(a.Receipt.ID, b.Receipt.ID) })
	for some := range slices.Chunk(list, chunk) {
		rows := make([]outcome, 0, len(some))
		for _, s := range some {
			rows = append(rows, s.outcome(now))
		}
		if _, err := writeOutcomes(tx, &rows).Exec(ctx); err != nil {
			return fmt.Errorf("writing what became of deliveries: %w", err)
		}
	}
	return nil
}

func writeOutcomes(db bun.IDB, rows *[]outcome) *bun.UpdateQuery {
	return db.NewUpdate().With("v", db.NewValues(rows)).Table("inbox").TableExpr("v").
		Set("status = v.status, holder = NULL, lease_until = NULL, processed_at = v.processed_at, doubled = v.doubled, failures = v.failures, losses = v.losses, last_error = v.last_error").
		Set("next_at = coalesce(v.next_at, inbox.next_at), native = coalesce(v.native, inbox.native), sealed = CASE WHEN v.kept THEN inbox.sealed END").
		Set("shown = CASE WHEN v.status = 'completed' THEN v.shown ELSE coalesce(v.shown, inbox.shown) END").
		Where("inbox.id = v.id")
}
