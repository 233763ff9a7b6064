package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"sallyport/action"
)

// A table of settings has a row type that embeds the word that it stores: a
// field is a column of the same name in snake case, unless its bun tag says
// otherwise. Sealed and internal columns stand outside the word, as fields of
// the row. The hot tables (calls, inbox, events, runs, evidence) bind their
// columns by hand instead.

// recorded is a pointer to such a row, as the history of policy records it.
type recorded interface {
	// event has the organization, kind and subject of a change of the row.
	event(by string) action.PolicyEvent
	// snapshot is the row's state in history.
	snapshot() any
}

// rowsOf selects the rows of an organization.
func rowsOf[R any](db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Model((*R)(nil)).Where("organization_id = ?", organization)
}

// one returns the row that a query finds, or missing.
func one[T any](ctx context.Context, q *bun.SelectQuery, missing error) (T, error) {
	r, err := optional[T](ctx, q)
	if err == nil && r == nil {
		err = missing
	}
	if err != nil {
		var none T
		return none, err
	}
	return *r, nil
}

// optional returns the row that a query finds; nil when there is none.
func optional[T any](ctx context.Context, q *bun.SelectQuery) (*T, error) {
	r := new(T)
	err := q.Scan(ctx, r)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", q.GetTableName(), err)
	}
	return r, nil
}

// list returns what a query finds, as rows or as their words; never nil.
func list[T any](ctx context.Context, q *bun.SelectQuery) ([]T, error) {
	rows := []T{}
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing %s: %w", q.GetTableName(), err)
	}
	return rows, nil
}

// create writes a row, of which an organization may have so many, and its
// history. Zero is no limit. The row was created now, unless it says when.
func (db *DB) create(ctx context.Context, tx bun.Tx, r recorded, by string, limit int) error {
	table, row := reflected(tx, r)
	if f := table.FieldMap["created_at"]; f != nil {
		created := f.Value(row).Addr().Interface().(*time.Time)
		*created = at(*created).or(at(db.now())).t
	}
	db.setUpdated(table, row, by)
	e := r.event(by)
	if limit > 0 {
		if err := checkCount(ctx, tx, e.Organization, table.Name, limit); err != nil {
			return err
		}
	}
	if _, err := tx.NewInsert().Model(r).Returning("NULL").Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", table.Name, err)
	}
	return db.recordRow(ctx, tx, e, nil, r.snapshot())
}

// update writes the columns of a row that differ from old, and its history. If
// none do, nothing is written, and the row is as it was.
func (db *DB) update(ctx context.Context, tx bun.Tx, old, r recorded, by string) error {
	table, row := reflected(tx, r)
	before := reflect.ValueOf(old).Elem()
	if !slices.ContainsFunc(differing(table, before, row), func(column string) bool { return !signature(column) }) {
		row.Set(before)
		return nil
	}
	db.setUpdated(table, row, by)
	if _, err := tx.NewUpdate().Model(r).Column(differing(table, before, row)...).WherePK().Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", table.Name, err)
	}
	return db.recordRow(ctx, tx, r.event(by), old.snapshot(), r.snapshot())
}

// upsert creates the row of a key, or updates the one that there is.
func upsert[R any, P interface {
	*R
	recorded
}](ctx context.Context, db *DB, tx bun.Tx, r P, by string) error {
	old, err := optional[R](ctx, tx.NewSelect().Model(r).WherePK())
	if err != nil {
		return err
	}
	if old == nil {
		return db.create(ctx, tx, r, by, 0)
	}
	return db.update(ctx, tx, P(old), r, by)
}

// remove deletes a row and records that in history.
func (db *DB) remove(ctx context.Context, tx bun.Tx, r recorded, by string) error {
	q := tx.NewDelete().Model(r).WherePK()
	if _, err := q.Exec(ctx); err != nil {
		return fmt.Errorf("deleting from %s: %w", q.GetTableName(), err)
	}
	return db.recordRow(ctx, tx, r.event(by), r.snapshot(), nil)
}

// removeAll deletes the rows of an organization with a value in a column, and
// reports how many. Their history is recorded, but no version of policy is
// counted: that is for the caller.
func removeAll[R any, P interface {
	*R
	recorded
}](ctx context.Context, db *DB, tx bun.Tx, organization, column, value, by string) (int, error) {
	var rows []R
	q := tx.NewDelete().Model(&rows).Where("organization_id = ?", organization).Where("? = ?", bun.Ident(column), value).Returning("*")
	if err := q.Scan(ctx); err != nil {
		return 0, fmt.Errorf("deleting from %s: %w", q.GetTableName(), err)
	}
	for i := range rows {
		r := P(&rows[i])
		was := r.snapshot()
		if was == nil {
			continue
		}
		if err := db.recordChange(ctx, tx, r.event(by), was, nil); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// recordRow records a change of a row, and counts it when decisions rest on it.
func (db *DB) recordRow(ctx context.Context, tx bun.Tx, e action.PolicyEvent, before, after any) error {
	switch e.Kind {
	case action.EventMode, action.EventCapability, action.EventGate, action.EventQuota:
		return db.policyChanged(ctx, tx, e, before, after)
	}
	return db.recordChange(ctx, tx, e, before, after)
}

// reflected returns the columns of a row, and the row to read them from.
func reflected(tx bun.Tx, r recorded) (*schema.Table, reflect.Value) {
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
func (db *DB) setUpdated(table *schema.Table, row reflect.Value, by string) {
	if f := table.FieldMap["updated_at"]; f != nil {
		f.Value(row).Set(reflect.ValueOf(at(db.now()).t))
	}
	if f := table.FieldMap["updated_by"]; f != nil {
		f.Value(row).SetString(by)
	}
}
