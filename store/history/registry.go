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

// A table of settings has a row type that embeds the type of the action package: a
// field is a column of the same name in snake case, unless its bun tag names
// another. Sealed and internal columns are fields of the row type itself. The hot
// tables (calls, inbox, events, runs, evidence) bind their columns by hand instead.

// Recorded is a pointer to such a row, whose changes are recorded in history.
type Recorded interface {
	// Event returns an event with the organization, kind and subject of the row.
	Event(by string) action.PolicyEvent
	// Snapshot returns the state of the row as history shows it.
	Snapshot() any
}

// Create inserts a row and records it, unless the organization already has limit
// rows (zero: no limit). A missing creation time becomes now.
func (st *Store) Create(ctx context.Context, tx bun.Tx, r Recorded, by string, limit int) error {
	table, row := reflectRow(tx, r)
	if f := table.FieldMap["created_at"]; f != nil {
		created := f.Value(row).Addr().Interface().(*time.Time)
		*created = database.NewTimestamp(*created).Or(database.NewTimestamp(st.db.Now())).Time
	}
	st.setUpdated(table, row, by)
	e := r.Event(by)
	if limit > 0 {
		if err := checkLimit(ctx, tx, e.Organization, table.Name, limit); err != nil {
			return err
		}
	}
	if _, err := tx.NewInsert().Model(r).Returning("NULL").Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", table.Name, err)
	}
	return st.recordRow(ctx, tx, e, nil, r.Snapshot())
}

// Update writes the columns of a row that differ from old, and records the change.
// If none differ, it writes nothing and sets the row to old.
func (st *Store) Update(ctx context.Context, tx bun.Tx, old, r Recorded, by string) error {
	table, row := reflectRow(tx, r)
	before := reflect.ValueOf(old).Elem()
	if !slices.ContainsFunc(changedColumns(table, before, row), func(column string) bool { return !isAuthorColumn(column) }) {
		row.Set(before)
		return nil
	}
	st.setUpdated(table, row, by)
	if _, err := tx.NewUpdate().Model(r).Column(changedColumns(table, before, row)...).WherePK().Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", table.Name, err)
	}
	return st.recordRow(ctx, tx, r.Event(by), old.Snapshot(), r.Snapshot())
}

// Upsert creates the row of a primary key, or updates the existing one.
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

// Replace writes a row in place of old, which may be nil, and records the change even if
// nothing differs.
func Replace[R any, P interface {
	*R
	Recorded
}](ctx context.Context, db *Store, tx bun.Tx, old, r P, by string) error {
	if old == nil {
		return db.Create(ctx, tx, r, by, 0)
	}
	table, row := reflectRow(tx, r)
	db.setUpdated(table, row, by)
	if _, err := tx.NewUpdate().Model(r).WherePK().Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", table.Name, err)
	}
	return db.recordRow(ctx, tx, r.Event(by), old.Snapshot(), r.Snapshot())
}

// Remove deletes a row and records the removal.
func (st *Store) Remove(ctx context.Context, tx bun.Tx, r Recorded, by string) error {
	q := tx.NewDelete().Model(r).WherePK()
	if _, err := q.Exec(ctx); err != nil {
		return fmt.Errorf("deleting from %s: %w", q.GetTableName(), err)
	}
	return st.recordRow(ctx, tx, r.Event(by), r.Snapshot(), nil)
}

// RemoveAll deletes the rows of an organization that have the value in the column,
// records the removals, and returns how many. The caller increments the policy
// version.
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
		before := r.Snapshot()
		if before == nil {
			continue
		}
		if err := db.RecordChange(ctx, tx, r.Event(by), before, nil); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// recordRow records a change of a row, and increments the policy version if the kind
// of row affects decisions.
func (st *Store) recordRow(ctx context.Context, tx bun.Tx, e action.PolicyEvent, before, after any) error {
	switch e.Kind {
	case action.EventMode, action.EventCapability, action.EventGate, action.EventQuota:
		return st.RecordPolicyChange(ctx, tx, e, before, after)
	}
	return st.RecordChange(ctx, tx, e, before, after)
}

// reflectRow returns the table of a row and its value.
func reflectRow(tx bun.Tx, r Recorded) (*schema.Table, reflect.Value) {
	row := reflect.ValueOf(r).Elem()
	return tx.Dialect().Tables().Get(row.Type()), row
}

// changedColumns returns the columns in which two rows differ.
func changedColumns(table *schema.Table, a, b reflect.Value) (columns []string) {
	value := func(row reflect.Value, f *schema.Field) any {
		v, err := row.FieldByIndexErr(f.Index)
		if err != nil {
			return nil // a field of a nil embedded struct
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

// isAuthorColumn reports whether a column holds the author or the time of a write. A
// difference in these alone is not a change.
func isAuthorColumn(column string) bool {
	return column == "updated_at" || column == "updated_by" || column == "granted_at" || column == "granted_by"
}

// setUpdated sets the author and the time of a write, if the row has these columns.
func (st *Store) setUpdated(table *schema.Table, row reflect.Value, by string) {
	if f := table.FieldMap["updated_at"]; f != nil {
		f.Value(row).Set(reflect.ValueOf(database.NewTimestamp(st.db.Now()).Time))
	}
	if f := table.FieldMap["updated_by"]; f != nil {
		f.Value(row).SetString(by)
	}
}

// checkLimit returns an error if the organization has the maximum number of rows.
func checkLimit(ctx context.Context, tx bun.Tx, organization, table string, limit int) error {
	n, err := tx.NewSelect().Table(table).Where("organization_id = ?", organization).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting %s: %w", table, err)
	}
	if int(n) >= limit {
		return action.NewError("too_many_"+table, limit)
	}
	return nil
}
