package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/ingest/event"
)

// bodyRow is a body that was worked off, of a delivery whose id is not signed:
// whoever captured one can send it again under another.
type bodyRow struct {
	bun.BaseModel `bun:"table:inbox_bodies"`

	Endpoint   string `bun:"endpoint,pk"`
	Hash       string `bun:"hash,pk"`
	Receipt    string `bun:"inbox_id"`
	ReceivedAt stamp  `bun:"received_at"`
}

func (s *settled) body() bodyRow {
	return bodyRow{Endpoint: s.Receipt.Endpoint, Hash: s.Body, Receipt: s.Receipt.ID, ReceivedAt: at(s.Receipt.ReceivedAt)}
}

// markDoubled finds the deliveries that are the same as another one, before or
// in the list. One that came to nothing hides none that comes to something: what
// it was for may be there by then. All lock bodies in one order, and keep them until the
// transaction ends: of two at once the later one sees the other.
func markDoubled(ctx context.Context, tx bun.IDB, list []*settled) error {
	unsigned := slices.DeleteFunc(slices.Clone(list), func(s *settled) bool {
		return s.Body == "" || s.Status != event.ReceiptCompleted || s.Keep || len(s.Matches) == 0
	})
	if len(unsigned) == 0 {
		return nil
	}
	slices.SortFunc(unsigned, compareBodies)
	last, err := lastBodies(ctx, tx, unsigned)
	if err != nil {
		return err
	}
	moved := map[[2]string]bodyRow{}
	for _, s := range unsigned {
		key := [2]string{s.Receipt.Endpoint, s.Body}
		was, is := last[key], s.body()
		switch apart := is.ReceivedAt.t.Sub(was.ReceivedAt.t); {
		case was.Receipt == is.Receipt:
		case apart.Abs() < s.Window:
			s.doubled = true
		case apart > 0:
			last[key], moved[key] = is, is
		}
	}
	return moveBodies(ctx, tx, moved)
}

// compareBodies orders deliveries of one body by time.
func compareBodies(a, b *settled) int {
	return cmp.Or(
		cmp.Compare(a.Receipt.Endpoint, b.Receipt.Endpoint), cmp.Compare(a.Body, b.Body),
		a.Receipt.ReceivedAt.Compare(b.Receipt.ReceivedAt), cmp.Compare(a.Receipt.ID, b.Receipt.ID),
	)
}

// lastBodies writes down the first of each body, where there is none yet, and
// returns which there are then.
func lastBodies(ctx context.Context, tx bun.IDB, list []*settled) (map[[2]string]bodyRow, error) {
	firsts := slices.CompactFunc(slices.Clone(list), func(a, b *settled) bool {
		return a.Receipt.Endpoint == b.Receipt.Endpoint && a.Body == b.Body
	})
	last := map[[2]string]bodyRow{}
	for some := range slices.Chunk(firsts, chunk) {
		var rows, there []bodyRow
		for _, s := range some {
			rows = append(rows, s.body())
		}
		// The update changes nothing: it has the row locked and returned.
		err := tx.NewInsert().Model(&rows).On("CONFLICT (endpoint, hash) DO UPDATE").Set("inbox_id = body_row.inbox_id").
			Returning("*").Scan(ctx, &there)
		if err != nil {
			return nil, fmt.Errorf("looking for deliveries with the same body: %w", err)
		}
		for _, r := range there {
			last[[2]string{r.Endpoint, r.Hash}] = r
		}
	}
	return last, nil
}

// moveBodies has bodies count from a later delivery on.
func moveBodies(ctx context.Context, tx bun.IDB, moved map[[2]string]bodyRow) error {
	for _, r := range moved { // they are locked
		_, err := tx.NewUpdate().Model(&r).Column("inbox_id", "received_at").WherePK().Exec(ctx)
		if err != nil {
			return fmt.Errorf("noting the body of a delivery: %w", err)
		}
	}
	return nil
}
