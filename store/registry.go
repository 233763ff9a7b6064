package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/uptrace/bun"

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

// setTimes completes the times of a new word: created now, unless it says when.
func (db *DB) setTimes(created, updated *time.Time) {
	now := at(db.now())
	*created, *updated = at(*created).or(now).t, now.t
}

// create writes a row, of which an organization may have so many, and its
// history. Without a limit any number is allowed.
func (db *DB) create(ctx context.Context, tx bun.Tx, r recorded, by string, limit int) error {
	e, q := r.event(by), tx.NewInsert().Model(r).Returning("NULL")
	if limit > 0 {
		if err := checkCount(ctx, tx, e.Organization, q.GetTableName(), limit); err != nil {
			return err
		}
	}
	if _, err := q.Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", q.GetTableName(), err)
	}
	return db.recordChange(ctx, tx, e, nil, r.snapshot())
}

// update writes the columns of a row that differ from old, and its history. A
// row that does not differ is left alone; otherwise update sets its updated_at
// and updated_by, if it has such columns.
func (db *DB) update(ctx context.Context, tx bun.Tx, old, r recorded, by string) error {
	before, after := reflect.ValueOf(old).Elem(), reflect.ValueOf(r).Elem()
	table := tx.Dialect().Tables().Get(after.Type())
	stamps := map[string]any{"updated_at": at(db.now()).t, "updated_by": by}
	var columns []string
	for _, f := range table.DataFields {
		if stamps[f.Name] == nil && !reflect.DeepEqual(f.Value(before).Interface(), f.Value(after).Interface()) {
			columns = append(columns, f.Name)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	for name, value := range stamps {
		if f := table.FieldMap[name]; f != nil {
			f.Value(after).Set(reflect.ValueOf(value))
			columns = append(columns, name)
		}
	}
	if _, err := tx.NewUpdate().Model(r).Column(columns...).WherePK().Exec(ctx); err != nil {
		return fmt.Errorf("writing to %s: %w", table.Name, err)
	}
	return db.recordChange(ctx, tx, r.event(by), old.snapshot(), r.snapshot())
}

// remove deletes a row and records that in history.
func (db *DB) remove(ctx context.Context, tx bun.Tx, r recorded, by string) error {
	q := tx.NewDelete().Model(r).WherePK()
	if _, err := q.Exec(ctx); err != nil {
		return fmt.Errorf("deleting from %s: %w", q.GetTableName(), err)
	}
	return db.recordChange(ctx, tx, r.event(by), r.snapshot(), nil)
}
