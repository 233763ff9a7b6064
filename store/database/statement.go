package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/uptrace/bun"
)

// Preparer prepares the statements of the hot path. On PostgreSQL each connection
// that supports it prepares a statement on first use. All other queries go
// through bun, which inlines the values, so that the database parses each query;
// for hot statements that costs more than running them. Placeholders have the
// form ?1. After the first error the preparer does nothing.
type Preparer struct {
	DB  *DB
	ctx context.Context
	err error
}

// Preparer returns a preparer for the database. On a read-only database
// ([OpenFileReadOnly]) it prepares nothing.
func (db *DB) Preparer(ctx context.Context) *Preparer { return &Preparer{DB: db, ctx: ctx} }

// Err returns the first error of preparing.
func (p *Preparer) Err() error { return p.err }

// Write prepares a statement of the writer.
func (p *Preparer) Write(text string) *Statement {
	if p.DB.Write == nil {
		return nil
	}
	return p.prepare(p.DB.Write.DB, text, nil)
}

// WriteShared prepares a statement of the writer that only PostgreSQL uses.
func (p *Preparer) WriteShared(text string) *Statement {
	if p.DB.Write == nil || !p.DB.Shared() {
		return nil
	}
	return p.Write(text)
}

// Read prepares a statement of the readers.
func (p *Preparer) Read(text string) *Statement {
	if p.DB.Write == nil {
		return nil
	}
	return p.prepare(p.DB.Read, text, p.DB.reader)
}

func (p *Preparer) prepare(db *bun.DB, text string, r *reader) *Statement {
	s := &Statement{Text: text}
	if p.DB.Shared() {
		s = p.DB.postgresStatement(text, r)
	} else if p.err == nil {
		if s.Prepared, p.err = db.DB.PrepareContext(p.ctx, text); p.err != nil {
			p.err = fmt.Errorf("preparing a statement: %w", p.err)
		}
	}
	p.DB.prepared = append(p.DB.prepared, s)
	return s
}

// postgresStatement returns a statement for PostgreSQL. Outside of a transaction it
// is queried through r, unless r is nil.
func (db *DB) postgresStatement(text string, r *reader) *Statement {
	return &Statement{Text: text, Dollars: strings.ReplaceAll(text, "?", "$"), db: db.Write.DB, statementsLost: db.reader.retry.statementsLost, reader: r}
}

// Statements returns the statements of the hot path.
func (db *DB) Statements() []*Statement { return db.prepared }

// Statement is an SQL statement that is prepared where the database supports it.
type Statement struct {
	Text           string
	Prepared       *sql.Stmt // on SQLite
	Dollars        string    // the text with PostgreSQL's placeholders ($1)
	db             *bun.DB   // inlines values when statements cannot be prepared
	statementsLost *atomic.Bool
	reader         *reader // for queries outside of a transaction
}

// Exec executes the statement, within db if it is a transaction.
func (s *Statement) Exec(ctx context.Context, db bun.IDB, args ...any) (sql.Result, error) {
	if s.Prepared == nil {
		return s.connOf(db).ExecContext(ctx, s.Text, s.rewriterArgs(args)...)
	}
	return within(ctx, db, s.Prepared).ExecContext(ctx, args...)
}

// inline returns the text of the statement with its values inlined.
func (s *Statement) inline(args []any) string {
	return s.db.NewRaw(s.Text, append([]any{nil}, args...)...).String() // bun counts from zero
}

// Query runs the statement and returns its rows.
func (s *Statement) Query(ctx context.Context, db bun.IDB, args ...any) (*sql.Rows, error) {
	switch {
	case s.reader != nil:
		return s.reader.QueryContext(ctx, s.Text, s.rewriterArgs(args)...)
	case s.Prepared == nil:
		return s.connOf(db).QueryContext(ctx, s.Text, s.rewriterArgs(args)...)
	}
	return within(ctx, db, s.Prepared).QueryContext(ctx, args...)
}

// connOf returns the database/sql connection below bun, because bun would inline
// the values.
func (s *Statement) connOf(db bun.IDB) bun.IConn {
	switch db := db.(type) {
	case bun.Tx:
		return db.Tx
	case bun.Conn:
		return db.Conn
	case *bun.DB:
		return db.DB
	}
	panic(fmt.Sprintf("a statement on a %T", db)) // there are no others
}

// One scans the first row into dest. It returns sql.ErrNoRows if there is none.
func (s *Statement) One(ctx context.Context, db bun.IDB, args, dest []any) error {
	return s.first(ctx, db, args, func(rows *sql.Rows) error { return rows.Scan(dest...) })
}

// Model scans the first row into a bun model. It returns sql.ErrNoRows if there is
// none.
func (s *Statement) Model(ctx context.Context, db *bun.DB, row any, args ...any) error {
	return s.first(ctx, db, args, func(rows *sql.Rows) error { return db.ScanRow(ctx, rows, row) })
}

func (s *Statement) first(ctx context.Context, db bun.IDB, args []any, scan func(*sql.Rows) error) error {
	rows, err := s.Query(ctx, db, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil { // an aborted read does not mean "not found"
			return err
		}
		return sql.ErrNoRows
	}
	if err := scan(rows); err != nil {
		return err
	}
	return rows.Close()
}

// Models scans all rows into a slice of bun models.
func (s *Statement) Models(ctx context.Context, db *bun.DB, list any, args ...any) error {
	rows, err := s.Query(ctx, db, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := db.ScanRows(ctx, rows, list); err != nil {
		return err
	}
	return errors.Join(rows.Err(), rows.Close())
}

func within(ctx context.Context, db bun.IDB, stmt *sql.Stmt) *sql.Stmt {
	if tx, ok := db.(bun.Tx); ok {
		return tx.StmtContext(ctx, stmt) // closed by the transaction
	}
	return stmt
}
