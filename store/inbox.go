package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// receiptRow is a delivery that was verified. Workers hold it as they hold
// everything here: by a lease, and an attempt that counts up with each claim.
type receiptRow struct {
	bun.BaseModel `bun:"table:inbox"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Endpoint     string `bun:"endpoint"`
	Provider     string `bun:"provider"`
	Trigger      opt    `bun:"trigger_id"`
	Key          string `bun:"dedup_key"`
	Native       opt    `bun:"native"`
	Size         int    `bun:"size"`
	Status       string `bun:"status"`
	Attempt      int    `bun:"attempt"`
	Failures     int    `bun:"failures"`
	Losses       int    `bun:"losses"`
	NextAt       stamp  `bun:"next_at"`
	Holder       opt    `bun:"holder"`
	LeaseUntil   stamp  `bun:"lease_until"`
	Doubled      bool   `bun:"doubled"`
	LastError    opt    `bun:"last_error"`
	ReceivedAt   stamp  `bun:"received_at"`
	ProcessedAt  stamp  `bun:"processed_at"`
	Shown        opt    `bun:"shown"`
	Sealed       []byte `bun:"sealed"`
}

func (r *receiptRow) receipt() event.Receipt {
	return event.Receipt{
		ID: r.ID, Organization: r.Organization, Endpoint: r.Endpoint, Provider: r.Provider, Trigger: string(r.Trigger), Key: r.Key,
		Native: string(r.Native), Size: r.Size, Status: event.ReceiptStatus(r.Status), Attempt: r.Attempt, Failures: r.Failures, Losses: r.Losses, NextAt: r.NextAt.t,
		LastError: string(r.LastError), Doubled: r.Doubled, ReceivedAt: r.ReceivedAt.t, EndedAt: r.ProcessedAt.ptr(),
		Shown: r.Shown.bytes(), Sealed: r.Sealed,
	}
}

func receipts(rows []receiptRow) []event.Receipt {
	list := make([]event.Receipt, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].receipt())
	}
	return list
}

// receiveSQL writes a delivery. When the sender tries again, the row of the
// first time stays with its payload: the other one is sealed for another row.
const receiveSQL = `INSERT INTO inbox (id, organization_id, endpoint, provider, trigger_id, dedup_key, size, status, attempt, next_at, received_at, sealed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'queued', 0, ?8, ?9, ?10)
ON CONFLICT (endpoint, dedup_key) DO UPDATE SET status = 'queued', attempt = 0, failures = 0, losses = 0, next_at = EXCLUDED.next_at, processed_at = NULL, last_error = NULL
WHERE inbox.status IN ('failed', 'completed') AND inbox.sealed IS NOT NULL`

// Receive writes a receipt as queued. When its endpoint has one with the same
// key already nothing changes, but that one is queued anew that failed or reached
// nobody. fresh tells that there is something to be worked off now. A zero
// ReceivedAt is now, and a zero NextAt at once.
func (db *DB) Receive(ctx context.Context, r event.Receipt) (fresh bool, err error) {
	received := at(r.ReceivedAt).or(at(db.now()))
	args := []any{
		r.ID, r.Organization, r.Endpoint, r.Provider, opt(r.Trigger), r.Key, r.Size, at(r.NextAt).or(received), received, r.Sealed,
	}
	// One statement, so that 1,000 a second share their commits.
	err = db.write.do(ctx, &job{single: true, run: func(ctx context.Context, tx bun.IDB) error {
		n, err := affected(db.stmts.receive.exec(ctx, tx, args...))
		fresh = n > 0
		return err
	}})
	if err != nil {
		return false, fmt.Errorf("keeping a delivery to %s: %w", r.Endpoint, err)
	}
	return fresh, nil
}
