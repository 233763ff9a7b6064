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

// maxClaimBytes bounds what one claim returns, but for the first delivery: a
// hundred of the largest ones are more than a worker has room for.
const maxClaimBytes = 32 << 20

// unworked is one kind of deliveries that wait for a worker. The where names a
// partial index's predicate word by word.
type claimable struct {
	where, order string
	addedLosses  int // that one of them more has then
	now          database.Timestamp
}

// ClaimableReceipts are those that a worker lost, and those that are due.
func ClaimableReceipts(now database.Timestamp) []claimable {
	return []claimable{
		{"status = 'processing' AND lease_until < ?", "lease_until", 1, now},
		{"status = 'queued' AND next_at <= ?", "next_at, id", 0, now},
	}
}

// Due finds the oldest of them.
func (u claimable) Due(db bun.IDB, limit int) *bun.SelectQuery {
	return db.NewSelect().Table("inbox").Column("id").Where(u.where, u.now).OrderExpr(u.order).Limit(int64(limit))
}

// Claim takes them. The array is made once; see [sweep.update]. They are locked
// as they are found, so nothing is asked of them again: PostgreSQL would read
// all that is due for it.
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

// ClaimReceipts gives the worker up to limit queued receipts that are due, or
// whose worker lost them, the oldest first, with one attempt counted, and of the
// latter one loss. Others get other ones. There may be fewer than that when they are large. A claim
// whose commit was not answered lapses like that of a worker that died.
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

// claimReceipts takes those of one kind. A reader looks first, as in a sweep:
// whoever asks when nothing is due writes nothing.
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

// RenewReceipts has the leases of those of the worker begin anew. One that is
// being settled is passed by.
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

func RenewReceipts(db bun.IDB, worker string, ids []string, until database.Timestamp) *bun.UpdateQuery {
	q := db.NewUpdate().Table("inbox").Set("lease_until = ?", until)
	held := db.NewSelect().Table("inbox").Column("id").Where("id IN (?)", bun.List(ids)).
		Where("holder = ?", worker).Where("status = 'processing'")
	if database.Shared(db) {
		return q.Where("id = ANY (ARRAY(?))", held.For("NO KEY UPDATE SKIP LOCKED"))
	}
	return q.Where("id IN (?)", held)
}

// settled is a settlement and what else came of it.
type settlement struct {
	event.Settlement
	duplicate bool
}

// Settle writes what came of claimed receipts, all in one transaction: events,
// runs and outbox of each match whose trigger has no event of the key yet. A
// receipt that the worker lost is left as it is, with all that came of it. It
// takes a handful of statements, however many receipts there are.
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

// heldReceipts are the settlements of receipts that the worker still has: none
// is taken from him before the transaction ends.
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
			delete(attempts, list[i].Receipt.ID) // each is settled once
		}
	}
	return held, nil
}

func SelectHeldReceipts(db bun.IDB, worker string, ids []string) *bun.SelectQuery {
	q := db.NewSelect().Table("inbox").Column("id", "attempt").Where("id IN (?)", bun.List(ids)).
		Where("holder = ?", worker).Where("status = 'processing'")
	if database.Shared(db) {
		q = q.Order("id").For("NO KEY UPDATE")
	}
	return q
}

// matches are what is to be kept of those that are not the same as another.
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

// ReceiptOutcome is what is written of a receipt. The types are PostgreSQL's, which
// does not see them in a list of values.
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

func UpdateReceipts(db bun.IDB, rows *[]ReceiptOutcome) *bun.UpdateQuery {
	return db.NewUpdate().With("v", db.NewValues(rows)).Table("inbox").TableExpr("v").
		Set("status = v.status, holder = NULL, lease_until = NULL, processed_at = v.processed_at, doubled = v.doubled, failures = v.failures, losses = v.losses, last_error = v.last_error").
		Set("next_at = coalesce(v.next_at, inbox.next_at), native = coalesce(v.native, inbox.native), sealed = CASE WHEN v.kept THEN inbox.sealed END").
		Set("shown = CASE WHEN v.status = 'completed' THEN v.shown ELSE coalesce(v.shown, inbox.shown) END").
		Where("inbox.id = v.id")
}
