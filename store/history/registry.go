package history

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"sallyport/action"
	"sallyport/store/database"
)

// A table of settings has a row type that embeds the word that it stores: a
// field is a column of the same name in snake case, unless its bun tag says
// otherwise. Sealed and internal columns stand outside the word, as fields of
// the row. The hot tables (calls, inbox, events, runs, evidence) bind their
// columns by hand instead.

// Recorded is a pointer to such a row, as the history of policy records it.
type Recorded interface {
	// Event has the organization, kind and subject of a change of the row.
	Event(by string) action.PolicyEvent
	// Snapshot is the row's state in history.
	Snapshot() any
}

// Create writes a row, of which an organization may have so many, and its
// history. Zero is no limit. The row was created now, unless it says when.
func (st *Store) Create(ctx context.Context, tx bun.Tx, r Recorded, by string, limit int) error {
	table, row := reflected(tx, r)
	if f := table.FieldMap["created_at"]; f != nil {
		created := f.Value(row).Addr().Interface().(*time.Time)
		*created = database.NewTimestamp(*created).Or(database.NewTimestamp(st.db.Now())).Time
	}
	st.setUpdated(table, row, by)
	e := r.Event(by)
	if limit > 0 {
		if err := checkCount(ctx, tx, e.Organization, table.Name, limit); err != nil {
			return err
		}
	}
	if _, err := tx.NewInsert().Model(r).Returning("NULL").Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", table.Name, err)
	}
	return st.recordRow(ctx, tx, e, nil, r.Snapshot())
}

// Update writes the columns of a row that differ from old, and its history. If
// none do, nothing is written, and the row is as it was.
func (st *Store) Update(ctx context.Context, tx bun.Tx, old, r Recorded, by string) error {
	table, row := reflected(tx, r)
	before := reflect.ValueOf(old).Elem()
	if !slices.ContainsFunc(differing(table, before, row), func(column string) bool { return !signature(column) }) {
		row.Set(before)
		return nil
	}
	st.setUpdated(table, row, by)
	if _, err := tx.NewUpdate().Model(r).Column(differing(table, before, row)...).WherePK().Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", table.Name, err)
	}
	return st.recordRow(ctx, tx, r.Event(by), old.Snapshot(), r.Snapshot())
}

// Upsert creates the row of a key, or updates the one that there is.
func Upsert[R any, P interface {
	*R
	Recorded
}](ctx context.Context, db *Store, tx bun.Tx, r P, by string) error {
	old, err := database.Optional[R](ctx, tx.NewSelect().Model(r).WherePK())
	if err != nil {
		return err
	}
	if old == nil {
		return db.Create(ctx, tx, r, by, 0)
	}
	return db.Update(ctx, tx, P(old), r, by)
}

// Remove deletes a row and records that in history.
func (st *Store) Remove(ctx context.Context, tx bun.Tx, r Recorded, by string) error {
	q := tx.NewDelete().Model(r).WherePK()
	if _, err := q.Exec(ctx); err != nil {
		return fmt.Errorf("deleting from %s: %w", q.GetTableName(), err)
	}
	return st.recordRow(ctx, tx, r.Event(by), r.Snapshot(), nil)
}

// RemoveAll deletes the rows of an organization with a value in a column, and
// reports how many. Their history is recorded, but no version of policy is
// counted: that is for the caller.
func RemoveAll[R any, P interface {
	*R
	Recorded
}](ctx context.Context, db *Store, tx bun.Tx, organization, column, value, by string) (int, error) {
	var rows []R
	q := tx.NewDelete().Model(&rows).Where("organization_id = ?", organization).Where("? = ?", bun.Ident(column), value).Returning("*")
	if err := q.Scan(ctx); err != nil {
		return 0, fmt.Errorf("deleting from %s: %w", q.GetTableName(), err)
	}
	for i := range rows {
		r := P(&rows[i])
		was := r.Snapshot()
		if was == nil {
			continue
		}
		if err := db.RecordChange(ctx, tx, r.Event(by), was, nil); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// recordRow records a change of a row, and counts it when decisions rest on it.
func (st *Store) recordRow(ctx context.Context, tx bun.Tx, e action.PolicyEvent, before, after any) error {
	switch e.Kind {
	case action.EventMode, action.EventCapability, action.EventGate, action.EventQuota:
		return st.PolicyChanged(ctx, tx, e, before, after)
	}
	return st.RecordChange(ctx, tx, e, before, after)
}

// reflected returns the columns of a row, and the row to read them from.
func reflected(tx bun.Tx, r Recorded) (*schema.Table, reflect.Value) {
	row := reflect.ValueOf(r).Elem()
	return tx.Dialect().Tables().Get(row.Type()), row
}

// differing returns the columns in which two rows differ.
func differing(table *schema.Table, a, b reflect.Value) (columns []string) {
	value := func(row reflect.Value, f *schema.Field) any {
		v, err := row.FieldByIndexErr(f.Index)
		if err != nil {
			return nil // of a struct that is missing
		}
		return v.Interface()
	}
	for _, f := range table.DataFields {
		if !reflect.DeepEqual(value(a, f), value(b, f)) {
			columns = append(columns, f.Name)
		}
	}
	return columns
}

// signature reports whether a column says who wrote a row, or when: a difference
// in it alone is no change.
func signature(column string) bool {
	return column == "updated_at" || column == "updated_by" || column == "granted_at" || column == "granted_by"
}

// setUpdated signs a row that is written, if it has such columns.
func (st *Store) setUpdated(table *schema.Table, row reflect.Value, by string) {
	if f := table.FieldMap["updated_at"]; f != nil {
		f.Value(row).Set(reflect.ValueOf(database.NewTimestamp(st.db.Now()).Time))
	}
	if f := table.FieldMap["updated_by"]; f != nil {
		f.Value(row).SetString(by)
	}
}

// checkCount refuses one more row of a table than an organization may have.
func checkCount(ctx context.Context, tx bun.Tx, organization, table string, most int) error {
	n, err := tx.NewSelect().Table(table).Where("organization_id = ?", organization).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting %s: %w", table, err)
	}
	if int(n) >= most {
		return action.NewError("too_many_"+table, most)
	}
	return nil
}
