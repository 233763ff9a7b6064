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

// receiptRow is a verified delivery. Workers hold it with a lease and an
// attempt number that each claim increments.
type receiptRow struct {
	bun.BaseModel `bun:"table:inbox"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Endpoint     string              `bun:"endpoint"`
	Provider     string              `bun:"provider"`
	Trigger      database.NullString `bun:"trigger_id"`
	Key          string              `bun:"dedup_key"`
	Native       database.NullString `bun:"native"`
	Size         int                 `bun:"size"`
	Status       string              `bun:"status"`
	Attempt      int                 `bun:"attempt"`
	Failures     int                 `bun:"failures"`
	Losses       int                 `bun:"losses"`
	NextAt       database.Timestamp  `bun:"next_at"`
	Holder       database.NullString `bun:"holder"`
	LeaseUntil   database.Timestamp  `bun:"lease_until"`
	Duplicate    bool                `bun:"doubled"`
	LastError    database.NullString `bun:"last_error"`
	ReceivedAt   database.Timestamp  `bun:"received_at"`
	ProcessedAt  database.Timestamp  `bun:"processed_at"`
	Shown        database.NullString `bun:"shown"`
	Sealed       []byte              `bun:"sealed"`
}

func (r *receiptRow) receipt() event.Receipt {
	return event.Receipt{
		ID: r.ID, Organization: r.Organization, Endpoint: r.Endpoint, Provider: r.Provider, Trigger: string(r.Trigger), Key: r.Key,
		Native: string(r.Native), Size: r.Size, Status: event.ReceiptStatus(r.Status), Attempt: r.Attempt, Failures: r.Failures, Losses: r.Losses, NextAt: r.NextAt.Time,
		LastError: string(r.LastError), Duplicate: r.Duplicate, ReceivedAt: r.ReceivedAt.Time, EndedAt: r.ProcessedAt.Ptr(),
		Redacted: r.Shown.Bytes(), Sealed: r.Sealed,
	}
}

// receiveSQL inserts a delivery. If the sender retries, the first row stays
// with its payload, because the new payload is sealed for another row.
const receiveSQL = `INSERT INTO inbox (id, organization_id, endpoint, provider, trigger_id, dedup_key, size, status, attempt, next_at, received_at, sealed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'queued', 0, ?8, ?9, ?10)
ON CONFLICT (endpoint, dedup_key) DO UPDATE SET status = 'queued', attempt = 0, failures = 0, losses = 0, next_at = EXCLUDED.next_at, processed_at = NULL, last_error = NULL
WHERE inbox.status IN ('failed', 'completed') AND inbox.sealed IS NOT NULL`

// Receive inserts a receipt as queued. If the endpoint already has a receipt
// with the key, nothing changes, unless that one failed or matched nothing:
// then it is queued again. queued reports whether a receipt was queued. A zero
// ReceivedAt means now; a zero NextAt means immediately.
func (st *Store) Receive(ctx context.Context, r event.Receipt) (queued bool, err error) {
	received := database.NewTimestamp(r.ReceivedAt).Or(database.NewTimestamp(st.db.Now()))
	args := []any{
		r.ID, r.Organization, r.Endpoint, r.Provider, database.NullString(r.Trigger), r.Key, r.Size, database.NewTimestamp(r.NextAt).Or(received), received, r.Sealed,
	}
	// A single statement can share its commit with others (group commit).
	err = st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n, err := database.RowsAffected(st.stmts.receive.Exec(ctx, tx, args...))
		queued = n > 0
		return err
	}})
	if err != nil {
		return false, fmt.Errorf("storing a delivery to %s: %w", r.Endpoint, err)
	}
	return queued, nil
}

// bodyRow is the body of a processed delivery whose ID is not signed. An
// attacker who captured the body could send it again under another ID.
type bodyRow struct {
	bun.BaseModel `bun:"table:inbox_bodies"`

	Endpoint   string             `bun:"endpoint,pk"`
	Hash       string             `bun:"hash,pk"`
	Receipt    string             `bun:"inbox_id"`
	ReceivedAt database.Timestamp `bun:"received_at"`
}

func (s *settlement) body() bodyRow {
	return bodyRow{Endpoint: s.Receipt.Endpoint, Hash: s.BodyHash, Receipt: s.Receipt.ID, ReceivedAt: database.NewTimestamp(s.Receipt.ReceivedAt)}
}

// markDuplicates marks the deliveries that have the same body as another one,
// stored or in the list. A delivery that matched nothing does not count,
// because a later one may match. Every transaction locks bodies in the same
// order until it ends, so of two concurrent deliveries the later one sees the
// other.
func markDuplicates(ctx context.Context, tx bun.IDB, list []*settlement) error {
	unsigned := slices.DeleteFunc(slices.Clone(list), func(s *settlement) bool {
		return s.BodyHash == "" || s.Status != event.ReceiptCompleted || s.KeepPayload || len(s.Matches) == 0
	})
	if len(unsigned) == 0 {
		return nil
	}
	slices.SortFunc(unsigned, compareBodies)
	stored, err := lockBodies(ctx, tx, unsigned)
	if err != nil {
		return err
	}
	updates := map[[2]string]bodyRow{}
	for _, s := range unsigned {
		key := [2]string{s.Receipt.Endpoint, s.BodyHash}
		previous, current := stored[key], s.body()
		switch gap := current.ReceivedAt.Time.Sub(previous.ReceivedAt.Time); {
		case previous.Receipt == current.Receipt:
		case gap.Abs() < s.DedupWindow:
			s.duplicate = true
		case gap > 0:
			stored[key], updates[key] = current, current
		}
	}
	for _, r := range updates { // the rows are locked
		if _, err := tx.NewUpdate().Model(&r).Column("inbox_id", "received_at").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("recording the body of a delivery: %w", err)
		}
	}
	return nil
}

// compareBodies orders deliveries by body, then by time.
func compareBodies(a, b *settlement) int {
	return cmp.Or(
		cmp.Compare(a.Receipt.Endpoint, b.Receipt.Endpoint), cmp.Compare(a.BodyHash, b.BodyHash),
		a.Receipt.ReceivedAt.Compare(b.Receipt.ReceivedAt), cmp.Compare(a.Receipt.ID, b.Receipt.ID),
	)
}

// lockBodies inserts the bodies that are not stored yet, locks all of them and
// returns their rows.
func lockBodies(ctx context.Context, tx bun.IDB, list []*settlement) (map[[2]string]bodyRow, error) {
	firsts := slices.CompactFunc(slices.Clone(list), func(a, b *settlement) bool {
		return a.Receipt.Endpoint == b.Receipt.Endpoint && a.BodyHash == b.BodyHash
	})
	stored := map[[2]string]bodyRow{}
	for batch := range slices.Chunk(firsts, database.MaxIDsPerStatement) {
		var rows, locked []bodyRow
		for _, s := range batch {
			rows = append(rows, s.body())
		}
		// The update changes nothing; it locks and returns the row.
		err := tx.NewInsert().Model(&rows).On("CONFLICT (endpoint, hash) DO UPDATE").Set("inbox_id = body_row.inbox_id").
			Returning("*").Scan(ctx, &locked)
		if err != nil {
			return nil, fmt.Errorf("reading deliveries with the same body: %w", err)
		}
		for _, r := range locked {
			stored[[2]string{r.Endpoint, r.Hash}] = r
		}
	}
	return stored, nil
}

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
	return database.Values(rows, (*receiptRow).receipt), nil
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
		out = event.SettleResult{}
		var matches []event.Match
		for _, s := range held {
			if s.duplicate {
				out.Duplicates = append(out.Duplicates, s.Receipt.ID)
			} else {
				matches = append(matches, s.Matches...)
			}
		}
		if out.Runs, err = st.writeMatches(ctx, tx, TriggersTable, matches); err != nil {
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
			return nil, fmt.Errorf("reading the claimed deliveries: %w", err)
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
			return fmt.Errorf("writing the results of deliveries: %w", err)
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
