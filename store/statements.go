package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"
)

// statements are the prepared ones of the hot path. The others go through bun,
// which writes the values into the text and so has the database parse each
// time; here that costs more than the statement itself. Placeholders have the
// form ?1.
type statements struct {
	check, insert, finish, delivered, one *sql.Stmt // of the writer
	load, overrides, version              *sql.Stmt // of the readers
}

func prepareStatements(ctx context.Context, w, r *bun.DB) (*statements, error) {
	s := &statements{}
	for _, p := range []struct {
		stmt **sql.Stmt
		db   *bun.DB
		text string
	}{
		{&s.check, w, checkSQL},
		{&s.insert, w, insertSQL},
		{&s.finish, w, finishSQL},
		{&s.delivered, w, deliveredSQL},
		{&s.one, w, loadSQL},
		{&s.load, r, loadSQL},
		{&s.overrides, r, overridesSQL},
		{&s.version, r, versionSQL},
	} {
		var err error
		if *p.stmt, err = p.db.DB.PrepareContext(ctx, p.text); err != nil {
			return nil, errors.Join(fmt.Errorf("preparing a statement: %w", err), s.close())
		}
	}
	return s, nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{s.check, s.insert, s.finish, s.delivered, s.one, s.load, s.overrides, s.version} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(errs...)
}

// execute runs a prepared statement in the transaction.
func execute(ctx context.Context, tx bun.Tx, stmt *sql.Stmt, args ...any) (sql.Result, error) {
	return tx.StmtContext(ctx, stmt).ExecContext(ctx, args...) //nolint:sqlclosecheck // the transaction closes its part of it
}

// queryRow reads one row with a prepared statement in the transaction.
func queryRow(ctx context.Context, tx bun.Tx, stmt *sql.Stmt, args ...any) *sql.Row {
	return tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // the transaction closes its part of it
}
