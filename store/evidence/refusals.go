package evidence

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// refusalRow is a row of the table refusal_counts.
type refusalRow struct {
	bun.BaseModel `bun:"table:refusal_counts"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Session      string              `bun:"session_id"`
	Kind         string              `bun:"kind"`
	Source       database.NullString `bun:"source_id"`
	Action       database.NullString `bun:"action"`
	Count        int64               `bun:"count"`
	FirstAt      database.Timestamp  `bun:"first_at"`
	LastAt       database.Timestamp  `bun:"last_at"`
}

func (r *refusalRow) count() action.RefusalCount {
	return action.RefusalCount{
		ID: r.ID, Organization: r.Organization, Session: r.Session, Kind: action.RefusalKind(r.Kind),
		Source: string(r.Source), Action: string(r.Action), Count: r.Count, FirstAt: r.FirstAt.Time, LastAt: r.LastAt.Time,
	}
}

// AddRefusals writes counts of refusals and sets their ids. All are written or none.
func (st *Store) AddRefusals(ctx context.Context, list []action.RefusalCount) error {
	if len(list) == 0 {
		return nil
	}
	rows := make([]refusalRow, len(list))
	for i, c := range list {
		id, err := database.NewID()
		if err != nil {
			return err
		}
		list[i].ID = id
		rows[i] = refusalRow{
			ID: id, Organization: c.Organization, Session: c.Session, Kind: string(c.Kind), Source: database.NullString(c.Source),
			Action: database.NullString(c.Action), Count: c.Count, FirstAt: database.NewTimestamp(c.FirstAt), LastAt: database.NewTimestamp(c.LastAt),
		}
	}
	// In a transaction, so that a retry after an unconfirmed commit does not begin in the middle.
	err := st.db.Write.Do(ctx, &database.Job{InTransaction: true, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewInsert().Model(&rows).On("CONFLICT (id) DO NOTHING").Exec(ctx)
		return err
	}})
	if err != nil {
		return fmt.Errorf("writing counts of refusals: %w", err)
	}
	return nil
}

// FilterRefusals applies a filter to a query.
func FilterRefusals(f action.RefusalFilter, q *bun.SelectQuery) *bun.SelectQuery {
	q = q.Where("organization_id = ?", f.Organization)
	if f.Session != "" {
		q = q.Where("session_id = ?", f.Session)
	}
	if f.Kind != "" {
		q = q.Where("kind = ?", f.Kind)
	}
	if !f.From.IsZero() {
		q = q.Where("last_at >= ?", database.NewTimestamp(f.From))
	}
	if !f.To.IsZero() {
		q = q.Where("last_at < ?", database.NewTimestamp(f.To))
	}
	return q
}

// RefusalsQuery selects a page, and one row more to detect whether another page follows.
func RefusalsQuery(f action.RefusalFilter, db bun.IDB, after database.Cursor, limit int) *bun.SelectQuery {
	q := FilterRefusals(f, db.NewSelect().Model((*refusalRow)(nil)))
	if after.ID != "" {
		q = q.Where("(last_at, id) < (?, ?)", after.Time, after.ID)
	}
	return q.OrderExpr("last_at DESC, id DESC").Limit(int64(limit) + 1)
}

// Refusals returns a page of counts of refusals, newest first.
func (st *Store) Refusals(ctx context.Context, f action.RefusalFilter) (action.Page[action.RefusalCount], error) {
	return database.ListQuery[refusalRow, action.RefusalCount]{
		Cursor: f.Cursor, Limit: f.Limit, All: FilterRefusals(f, st.db.Read.NewSelect().Table("refusal_counts")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return RefusalsQuery(f, st.db.Read, after, limit)
		},
		Value: (*refusalRow).count, Position: func(r *refusalRow) database.Cursor { return database.Cursor{Time: r.LastAt, ID: r.ID} },
	}.Page(ctx)
}

// RefusalsPage selects counts of refusals after a cursor, oldest first.
func RefusalsPage(db bun.IDB, f action.RefusalFilter, after database.Cursor) *bun.SelectQuery {
	q := FilterRefusals(f, db.NewSelect().Model((*refusalRow)(nil))).OrderExpr("last_at, id").Limit(exportRows)
	if after.ID != "" {
		q = q.Where("(last_at, id) > (?, ?)", after.Time, after.ID)
	}
	return q
}

// ExportRefusals calls yield with every count of refusals of the organization whose last
// refusal was in [from, to), oldest first, as [Store.Export] does. A zero time is no bound.
func (st *Store) ExportRefusals(ctx context.Context, f action.RefusalFilter, yield func(action.RefusalCount) error) error {
	for after, n := (database.Cursor{}), exportRows; n == exportRows; {
		var rows []refusalRow
		if err := RefusalsPage(st.db.Read, f, after).Scan(ctx, &rows); err != nil {
			return fmt.Errorf("exporting counts of refusals: %w", err)
		}
		for i := range rows {
			after = database.Cursor{Time: rows[i].LastAt, ID: rows[i].ID}
			if err := yield(rows[i].count()); err != nil {
				return err
			}
		}
		n = len(rows)
	}
	return nil
}
