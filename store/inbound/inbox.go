package inbound

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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

func toReceipts(rows []receiptRow) []event.Receipt {
	list := make([]event.Receipt, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].receipt())
	}
	return list
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
		return false, fmt.Errorf("keeping a delivery to %s: %w", r.Endpoint, err)
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
	return updateBodies(ctx, tx, updates)
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
			return nil, fmt.Errorf("looking for deliveries with the same body: %w", err)
		}
		for _, r := range locked {
			stored[[2]string{r.Endpoint, r.Hash}] = r
		}
	}
	return stored, nil
}

// updateBodies stores the later delivery of bodies that the caller has locked.
func updateBodies(ctx context.Context, tx bun.IDB, updates map[[2]string]bodyRow) error {
	for _, r := range updates { // the rows are locked
		_, err := tx.NewUpdate().Model(&r).Column("inbox_id", "received_at").WherePK().Exec(ctx)
		if err != nil {
			return fmt.Errorf("noting the body of a delivery: %w", err)
		}
	}
	return nil
}
