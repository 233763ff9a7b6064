package inbound

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
	"sallyport/store/database"
)

// maxClaimBytes limits the total size of the deliveries that one claim returns,
// except for the first: a hundred of the largest would not fit in a worker's
// memory.
const maxClaimBytes = 32 << 20

// claimable is a condition under which deliveries can be claimed. The where
// clause repeats the predicate of a partial index verbatim.
type claimable struct {
	where, order string
	addedLosses  int // losses that the claim adds
	now          database.Timestamp
}

// ClaimableReceipts returns the conditions for deliveries whose lease expired
// and for those that are due.
func ClaimableReceipts(now database.Timestamp) []claimable {
	return []claimable{
		{"status = 'processing' AND lease_until < ?", "lease_until", 1, now},
		{"status = 'queued' AND next_at <= ?", "next_at, id", 0, now},
	}
}

// Due selects the oldest of them.
func (u claimable) Due(db bun.IDB, limit int) *bun.SelectQuery {
	return db.NewSelect().Table("inbox").Column("id").Where(u.where, u.now).OrderExpr(u.order).Limit(int64(limit))
}

// Claim claims them. The array is evaluated once. The rows are locked when they
// are found, so the update does not repeat the condition: PostgreSQL would read
// all due rows for it.
func (u claimable) Claim(db bun.IDB, worker string, until database.Timestamp, limit int) *bun.UpdateQuery {
	due := u.Due(db, limit).Column("size", "next_at")
	if database.Shared(db) {
		due = due.For("NO KEY UPDATE SKIP LOCKED")
	}
	sized := db.NewSelect().TableExpr("(?) AS due", due).ColumnExpr("id, sum(size) OVER (ORDER BY next_at, id) - size AS before")
	selected := db.NewSelect().TableExpr("(?) AS sized", sized).Column("id").Where("before < ?", maxClaimBytes)
	q := db.NewUpdate().Table("inbox").Set("status = 'processing', holder = ?, lease_until = ?, attempt = attempt + 1, losses = losses + ?", worker, until, u.addedLosses)
	if database.Shared(db) {
		return q.Where("id = ANY (ARRAY(?))", selected)
	}
	return q.Where("id IN (?)", selected)
}

// ClaimReceipts claims for the worker up to limit receipts that are due or
// whose lease expired, the oldest first. Each claim counts one attempt, and an
// expired lease counts one loss. Concurrent workers get different receipts.
// Large receipts make a claim smaller. If the response to a commit is lost, the
// claim expires like that of a dead worker.
func (st *Store) ClaimReceipts(ctx context.Context, worker string, limit int, lease time.Duration) ([]event.Receipt, error) {
	now := st.db.Now()
	var rows []receiptRow
	for _, kind := range ClaimableReceipts(database.NewTimestamp(now)) {
		if len(rows) >= limit {
			break
		}
		claimed, err := st.claimReceipts(ctx, kind, worker, database.NewTimestamp(now.Add(lease)), limit-len(rows))
		if err != nil {
			return nil, fmt.Errorf("claiming deliveries: %w", err)
		}
		rows = append(rows, claimed...)
	}
	slices.SortFunc(rows, func(a, b receiptRow) int {
		return cmp.Or(a.NextAt.Time.Compare(b.NextAt.Time), cmp.Compare(a.ID, b.ID))
	})
	return toReceipts(rows), nil
}

// claimReceipts claims receipts that meet one condition. It checks with a read
// first, so that a worker that polls an empty queue writes nothing.
func (st *Store) claimReceipts(ctx context.Context, kind claimable, worker string, until database.Timestamp, limit int) (rows []receiptRow, err error) {
	found, err := database.Exists(ctx, kind.Due(st.db.Read, 1))
	if err != nil || !found {
		return nil, err
	}
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Slow: true, Run: func(ctx context.Context, tx bun.IDB) error {
		rows = nil
		return kind.Claim(tx, worker, until, limit).Returning("*").Scan(ctx, &rows)
	}})
	return rows, err
}

// RenewReceipts extends the leases of the worker's receipts. It skips receipts
// that are being settled.
func (st *Store) RenewReceipts(ctx context.Context, worker string, ids []string, lease time.Duration) error {
	until := database.NewTimestamp(st.db.Now().Add(lease))
	for batch := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		err := st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
			_, err := RenewReceipts(tx, worker, batch, until).Exec(ctx)
			return err
		}})
		if err != nil {
			return fmt.Errorf("renewing the leases of deliveries: %w", err)
		}
	}
	return nil
}

// RenewReceipts extends the leases of the receipts that the worker still holds.
func RenewReceipts(db bun.IDB, worker string, ids []string, until database.Timestamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("inbox").Set("lease_until = ?", until)
	held := db.NewSelect().Table("inbox").Column("id").Where("id IN (?)", bun.List(ids)).
		Where("holder = ?", worker).Where("status = 'processing'")
	if database.Shared(db) {
		return q.Where("id = ANY (ARRAY(?))", held.For("NO KEY UPDATE SKIP LOCKED"))
	}
	return q.Where("id IN (?)", held)
}

// settlement is an [event.Settlement] and whether its delivery is a duplicate.
type settlement struct {
	event.Settlement
	duplicate bool
}

// Settle writes the results of claimed receipts in one transaction: events,
// runs and outbox rows of each match whose trigger has no event with the key
// yet. It ignores receipts that the worker lost. The number of statements does
// not depend on the number of receipts.
func (st *Store) Settle(ctx context.Context, worker string, list []event.Settlement) (out event.SettleResult, err error) {
	if len(list) == 0 {
		return out, nil
	}
	err = st.db.Write.Do(ctx, &database.Job{InTransaction: true, TrackXID: true, Slow: true, Run: func(ctx context.Context, tx bun.IDB) error {
		held, err := heldReceipts(ctx, tx, worker, list)
		if err != nil {
			return err
		}
		if err := markDuplicates(ctx, tx, held); err != nil {
			return err
		}
		out = event.SettleResult{Duplicates: duplicateIDs(held)}
		if out.Runs, err = st.writeMatches(ctx, tx, TriggersTable, matches(held)); err != nil {
			return err
		}
		return writeOutcomes(ctx, tx, held, database.NewTimestamp(st.db.Now()))
	}})
	if err != nil {
		return event.SettleResult{}, fmt.Errorf("settling deliveries: %w", err)
	}
	return out, nil
}

// heldReceipts returns the settlements of receipts that the worker still holds,
// and locks those receipts.
func heldReceipts(ctx context.Context, tx bun.IDB, worker string, list []event.Settlement) ([]*settlement, error) {
	attempts := map[string]int{}
	ids := make([]string, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].Receipt.ID)
	}
	for batch := range slices.Chunk(ids, database.MaxIDsPerStatement) {
		var rows []receiptRow
		if err := SelectHeldReceipts(tx, worker, batch).Scan(ctx, &rows); err != nil {
			return nil, fmt.Errorf("looking which of them the worker has: %w", err)
		}
		for i := range rows {
			attempts[rows[i].ID] = rows[i].Attempt
		}
	}
	var held []*settlement
	for i := range list {
		if attempt, ok := attempts[list[i].Receipt.ID]; ok && attempt == list[i].Receipt.Attempt {
			held = append(held, &settlement{Settlement: list[i]})
			delete(attempts, list[i].Receipt.ID) // settle each receipt once
		}
	}
	return held, nil
}

// SelectHeldReceipts selects and locks the receipts that the worker still
// holds.
func SelectHeldReceipts(db bun.IDB, worker string, ids []string) *bun.SelectQuery {
	q := db.NewSelect().Table("inbox").Column("id", "attempt").Where("id IN (?)", bun.List(ids)).
		Where("holder = ?", worker).Where("status = 'processing'")
	if database.Shared(db) {
		q = q.Order("id").For("NO KEY UPDATE")
	}
	return q
}

// matches returns the matches of deliveries that are not duplicates.
func matches(list []*settlement) (all []event.Match) {
	for _, s := range list {
		if !s.duplicate {
			all = append(all, s.Matches...)
		}
	}
	return all
}

func duplicateIDs(list []*settlement) (ids []string) {
	for _, s := range list {
		if s.duplicate {
			ids = append(ids, s.Receipt.ID)
		}
	}
	return ids
}

// ReceiptOutcome holds the columns that a settlement writes. The types are for
// PostgreSQL, which cannot infer them in a VALUES list.
type ReceiptOutcome struct {
	ID          string              `bun:"id,type:text"`
	Status      string              `bun:"status,type:text"`
	NextAt      database.Timestamp  `bun:"next_at,type:timestamptz"`
	ProcessedAt database.Timestamp  `bun:"processed_at,type:timestamptz"`
	LastError   database.NullString `bun:"last_error,type:text"`
	Native      database.NullString `bun:"native,type:text"`
	Shown       database.NullString `bun:"shown,type:text"`
	Duplicate   bool                `bun:"doubled,type:boolean"`
	Failures    int                 `bun:"failures,type:integer"`
	Losses      int                 `bun:"losses,type:integer"`
	KeepPayload bool                `bun:"kept,type:boolean"`
}

func (s *settlement) outcome(now database.Timestamp) ReceiptOutcome {
	o := ReceiptOutcome{
		ID: s.Receipt.ID, Status: string(s.Status), LastError: database.NullString(s.Error), Native: database.NullString(s.Native), Shown: database.NullString(s.Redacted), Duplicate: s.duplicate,
		Failures: s.Failures, Losses: s.Losses, KeepPayload: s.KeepPayload || s.Status != event.ReceiptCompleted,
	}
	if s.Status == event.ReceiptQueued {
		o.NextAt = database.NewTimestamp(s.NextAt).Or(now)
	} else {
		o.ProcessedAt = now
	}
	return o
}

func writeOutcomes(ctx context.Context, tx bun.IDB, list []*settlement, now database.Timestamp) error {
	slices.SortFunc(list, func(a, b *settlement) int { return cmp.Compare(a.Receipt.ID, b.Receipt.ID) })
	for batch := range slices.Chunk(list, database.MaxIDsPerStatement) {
		rows := make([]ReceiptOutcome, 0, len(batch))
		for _, s := range batch {
			rows = append(rows, s.outcome(now))
		}
		if _, err := UpdateReceipts(tx, &rows).Exec(ctx); err != nil {
			return fmt.Errorf("writing what became of deliveries: %w", err)
		}
	}
	return nil
}

// UpdateReceipts ends or requeues receipts with one statement.
func UpdateReceipts(db bun.IDB, rows *[]ReceiptOutcome) *bun.UpdateQuery {
	return db.NewUpdate().With("v", db.NewValues(rows)).Table("inbox").TableExpr("v").
		Set("status = v.status, holder = NULL, lease_until = NULL, processed_at = v.processed_at, doubled = v.doubled, failures = v.failures, losses = v.losses, last_error = v.last_error").
		Set("next_at = coalesce(v.next_at, inbox.next_at), native = coalesce(v.native, inbox.native), sealed = CASE WHEN v.kept THEN inbox.sealed END").
		Set("shown = CASE WHEN v.status = 'completed' THEN v.shown ELSE coalesce(v.shown, inbox.shown) END").
		Where("inbox.id = v.id")
}
