package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"
)

// RowsOf selects the rows of an organization.
func RowsOf[R any](db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Model((*R)(nil)).Where("organization_id = ?", organization)
}

// One returns the row of a query, or the error missing if there is none.
func One[T any](ctx context.Context, q *bun.SelectQuery, missing error) (T, error) {
	r, err := Optional[T](ctx, q)
	if err == nil && r == nil {
		err = missing
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return *r, nil
}

// Optional returns the row of a query, or nil if there is none.
func Optional[T any](ctx context.Context, q *bun.SelectQuery) (*T, error) {
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

// List returns the rows of a query, never nil. T is a row type or the type of a
// single column.
func List[T any](ctx context.Context, q *bun.SelectQuery) ([]T, error) {
	rows := []T{}
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing %s: %w", q.GetTableName(), err)
	}
	return rows, nil
}
