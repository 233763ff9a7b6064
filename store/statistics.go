package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// counts is how many calls statistics look at, the newest ones first. Each row
// must be read: an index that had all of this would cost every call something.
type counts struct {
	all     int
	special int // of those that were held, and of those that were denied
	atOnce  int // in one statement, which has a connection for itself meanwhile
}

// Statistics counts the calls of an organization in a period. It reads short
// parts of rows one after the other, and nothing that grows with what the
// period has: of more calls than it looks at, only the newest ones are counted.
// A call that changes meanwhile is counted as it was or as it is, and once.
func (db *DB) Statistics(ctx context.Context, organization string, p action.Period) (action.Statistics, error) {
	return db.statistics(ctx, organization, p, counts{all: 50_000, special: 10_000, atOnce: 1000})
}

func (db *DB) statistics(ctx context.Context, organization string, p action.Period, most counts) (action.Statistics, error) {
	calls, held, denied := newTally(p), &holdTally{}, denialTally{}
	s := action.Statistics{From: p.From, To: p.To, Width: int(p.Width.Seconds())}
	for _, part := range []struct {
		rows counted
		into *action.Extent
	}{
		{counted{"", most.all, most.atOnce, calls.add}, &s.Calls},
		{counted{heldCalls, most.special, most.atOnce, held.add}, &s.Held.Extent},
		{counted{deniedCalls, most.special, most.atOnce, denied.add}, &s.Denied.Extent},
	} {
		var err error
		if *part.into, err = db.count(ctx, organization, p, part.rows); err != nil {
			return s, fmt.Errorf("counting calls: %w", err)
		}
	}
	calls.write(&s)
	held.write(&s.Held)
	s.Denied.Reasons = denied.list()
	var err error
	s.Queues, err = db.queues(ctx, organization)
	return s, err
}

// These name what is in an index, word by word.
const (
	heldCalls   = "mode = 'require_approval' AND mode <> 'allow'"
	deniedCalls = "status = 'denied'"
)

// counted is some of a period's calls, and what counts each: all of them, or
// those of a where that an index has in the order of time.
type counted struct {
	where  string
	limit  int
	atOnce int
	add    func(*invocationRow)
}

// countedColumns are what is counted. They stand before the wide ones in the
// table, which SQLite therefore does not read.
const countedColumns = `created_at, id, status, mode, mode_source, risk, source_id, source_name, action,
  denied_reason, approved_at, completed_at, duration_ms`

func (r *invocationRow) countedFields() []any {
	return []any{
		&r.CreatedAt, &r.ID, &r.Status, &r.Mode, &r.ModeSource, &r.Risk, &r.Source, &r.SourceName, &r.Action,
		&r.DeniedReason, &r.ApprovedAt, &r.CompletedAt, &r.DurationMS,
	}
}

// count reads calls, newest first, until there are no more or enough.
func (db *DB) count(ctx context.Context, organization string, p action.Period, c counted) (action.Extent, error) {
	e := action.Extent{Since: p.From}
	row := &invocationRow{} // each in its turn
	fields := row.countedFields()
	for before := (cursor{at: at(p.To)}); ; {
		n, last := 0, before
		want := min(c.atOnce, c.limit+1-e.Count) // one more tells whether there are more
		err := db.each(ctx, c.find(db.read, organization, p, before, want), func(rows *sql.Rows) error {
			if err := rows.Scan(fields...); err != nil {
				return err
			}
			if n++; e.Count == c.limit {
				e.Capped, e.Since = true, last.at.t
				return nil
			}
			last = cursor{row.CreatedAt, row.ID}
			e.Count++
			c.add(row)
			return nil
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return e, err
		}
		if n < want || e.Capped {
			return e, nil
		}
		before = last
	}
}

// find selects the next calls before a place. What was made at From is behind
// the lower place, as no id is empty.
func (c counted) find(db bun.IDB, organization string, p action.Period, before cursor, n int) *bun.SelectQuery {
	q := db.NewSelect().Table("invocations").ColumnExpr(countedColumns).Where("organization_id = ?", organization)
	if c.where != "" {
		q = q.Where(c.where)
	}
	return q.Where("(created_at, id) > (?, '')", at(p.From)).Where("(created_at, id) < (?, ?)", before.at, before.id).
		OrderExpr("created_at DESC, id DESC").Limit(int64(n))
}
