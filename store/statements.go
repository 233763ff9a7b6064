package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"
)

// statements are those of the hot path. SQLite has them prepared: the others
// go through bun, which writes the values into the text and so has the
// database parse each time; there that costs more than the statement itself.
// Placeholders have the form ?1.
type statements struct {
	check, insert, queue, ended, finish, delivered, one, use statement // of the writer
	receive, link                                            statement // of the writer
	load, overrides, version, grants                         statement // of the readers
	insertLive                                               statement // where there are several writers
}

// statement is a text, prepared where that pays.
type statement struct {
	text     string
	prepared *sql.Stmt
	reader   *reader // where to ask it outside of a transaction
}

func (s *statements) ofWriter() map[string]*statement {
	return map[string]*statement{
		checkSQL: &s.check, insertSQL: &s.insert, queueSQL: &s.queue, endedSQL: &s.ended, finishSQL: &s.finish, deliveredSQL: &s.delivered, loadSQL: &s.one,
		useGrantSQL: &s.use, receiveSQL: &s.receive, linkSQL: &s.link,
	}
}

func (s *statements) ofReaders() map[string]*statement {
	return map[string]*statement{loadSQL: &s.load, overridesSQL: &s.overrides, versionSQL: &s.version, grantsForSQL: &s.grants}
}

// prepareStatements prepares them on SQLite's connections.
func prepareStatements(ctx context.Context, w, r *bun.DB) (*statements, error) {
	s := &statements{}
	for db, list := range map[*bun.DB]map[string]*statement{w: s.ofWriter(), r: s.ofReaders()} {
		for text, stmt := range list {
			var err error
			if stmt.prepared, err = db.DB.PrepareContext(ctx, text); err != nil {
				return nil, errors.Join(fmt.Errorf("preparing a statement: %w", err), s.close())
			}
		}
	}
	return s, nil
}

// textStatements are for a database that gets the text each time.
func textStatements(r *reader) *statements {
	s := &statements{insertLive: statement{text: insertLiveSQL}}
	for text, stmt := range s.ofWriter() {
		*stmt = statement{text: text}
	}
	for text, stmt := range s.ofReaders() {
		*stmt = statement{text: text, reader: r}
	}
	return s
}

func (s *statements) close() error {
	var errs []error
	for _, list := range []map[string]*statement{s.ofWriter(), s.ofReaders()} {
		for _, stmt := range list {
			if stmt.prepared != nil {
				errs = append(errs, stmt.prepared.Close())
			}
		}
	}
	return errors.Join(errs...)
}

// exec runs the statement, in the transaction if db is one.
func (s *statement) exec(ctx context.Context, db bun.IDB, args ...any) (sql.Result, error) {
	if s.prepared == nil {
		return db.ExecContext(ctx, s.text, numbered(args)...)
	}
	return within(ctx, db, s.prepared).ExecContext(ctx, args...)
}

// with is the statement with its values, for a database that has no part of it
// prepared.
func (s *statement) with(db bun.IDB, args []any) string {
	return db.NewRaw(s.text, numbered(args)...).String()
}

// query asks it.
func (s *statement) query(ctx context.Context, db bun.IDB, args ...any) (*sql.Rows, error) {
	switch {
	case s.reader != nil:
		return s.reader.QueryContext(ctx, s.with(db, args))
	case s.prepared == nil:
		return db.QueryContext(ctx, s.text, numbered(args)...)
	}
	return within(ctx, db, s.prepared).QueryContext(ctx, args...)
}

// one reads the first row of what query found; sql.ErrNoRows when there is
// none.
func (s *statement) one(ctx context.Context, db bun.IDB, args, dest []any) error {
	rows, err := s.query(ctx, db, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return errors.Join(rows.Err(), sql.ErrNoRows)
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	return rows.Close()
}

// numbered counts the args as bun does, from zero.
func numbered(args []any) []any { return append([]any{nil}, args...) }

func within(ctx context.Context, db bun.IDB, stmt *sql.Stmt) *sql.Stmt {
	if tx, ok := db.(bun.Tx); ok {
		return tx.StmtContext(ctx, stmt) // the transaction closes its part of it
	}
	return stmt
}
