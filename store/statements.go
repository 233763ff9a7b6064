package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/uptrace/bun"
)

// statements are those of the hot path. They are prepared, on PostgreSQL where
// the connection allows it: the others go through bun, which writes the values
// into the text and so has the database parse each time; that costs more than
// the statement itself. Placeholders have the form ?1.
type statements struct {
	check, insert, queue, ended, finish, delivered, one, use statement // of the writer
	approve, deny, claim, receive, link, links               statement // of the writer
	load, overrides, version, grants, returning              statement // of the readers
	session, user, apiKey, connectors                        statement // of the readers, with the columns of a model
	insertLive, hold, start, commit                          statement // where there are several writers

	all []*statement
}

// statement is a text, prepared where that pays.
type statement struct {
	text     string
	prepared *sql.Stmt // on SQLite
	dollars  string    // the text as PostgreSQL prepares it
	db       *bun.DB   // that writes values into the text
	forgets  *atomic.Bool
	reader   *reader // where to ask it outside of a transaction
}

func (s *statements) ofWriter() map[string]*statement {
	return map[string]*statement{
		checkSQL: &s.check, insertSQL: &s.insert, queueSQL: &s.queue, endedSQL: &s.ended, finishSQL: &s.finish, deliveredSQL: &s.delivered, loadSQL: &s.one,
		approveSQL: &s.approve, denySQL: &s.deny, claimSQL: &s.claim,
		useGrantSQL: &s.use, receiveSQL: &s.receive, linkSQL: &s.link, linksSQL: &s.links,
	}
}

func (s *statements) ofReaders(db *bun.DB) map[string]*statement {
	return map[string]*statement{
		loadSQL: &s.load, overridesSQL: &s.overrides, versionSQL: &s.version, grantsForSQL: &s.grants, returningSQL: &s.returning,
		sessionQuery(db): &s.session, userQuery(db): &s.user, apiKeyQuery(db): &s.apiKey, connectorsQuery(db): &s.connectors,
	}
}

// prepareStatements prepares them on SQLite's connections.
func prepareStatements(ctx context.Context, w, r *bun.DB) (*statements, error) {
	s := &statements{}
	for db, list := range map[*bun.DB]map[string]*statement{w: s.ofWriter(), r: s.ofReaders(r)} {
		for text, stmt := range list {
			var err error
			if stmt.prepared, err = db.DB.PrepareContext(ctx, text); err != nil {
				return nil, errors.Join(fmt.Errorf("preparing a statement: %w", err), s.close())
			}
			s.all = append(s.all, stmt)
		}
	}
	return s, nil
}

// textStatements are those for PostgreSQL, which has a connection prepare them
// when it meets them.
func textStatements(db *bun.DB, r *reader) *statements {
	s := &statements{}
	put := func(stmt *statement, text string, r *reader, forgets *atomic.Bool) {
		*stmt = statement{text: text, dollars: strings.ReplaceAll(text, "?", "$"), db: db, forgets: forgets, reader: r}
	}
	writes := s.ofWriter()
	writes[insertLiveSQL], writes[holdSessionSQL] = &s.insertLive, &s.hold
	// Not in the words of the driver, which would take what is prepared here for its own.
	writes["begin transaction isolation level read committed"], writes["commit transaction"] = &s.start, &s.commit
	for text, stmt := range writes {
		put(stmt, text, nil, r.retry.forgets)
	}
	for text, stmt := range s.ofReaders(db) {
		put(stmt, text, r, r.retry.forgets)
	}
	return s
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.all {
		errs = append(errs, stmt.prepared.Close())
	}
	return errors.Join(errs...)
}

// exec runs the statement, in the transaction if db is one.
func (s *statement) exec(ctx context.Context, db bun.IDB, args ...any) (sql.Result, error) {
	if s.prepared == nil {
		return s.on(db).ExecContext(ctx, s.text, s.hot(args)...)
	}
	return within(ctx, db, s.prepared).ExecContext(ctx, args...)
}

// with is the statement with its values in the text.
func (s *statement) with(args []any) string {
	return s.db.NewRaw(s.text, append([]any{nil}, args...)...).String() // bun counts from zero
}

// query asks it.
func (s *statement) query(ctx context.Context, db bun.IDB, args ...any) (*sql.Rows, error) {
	switch {
	case s.reader != nil:
		return s.reader.QueryContext(ctx, s.text, s.hot(args)...)
	case s.prepared == nil:
		return s.on(db).QueryContext(ctx, s.text, s.hot(args)...)
	}
	return within(ctx, db, s.prepared).QueryContext(ctx, args...)
}

// on is what is below bun, which would write the values into the text.
func (s *statement) on(db bun.IDB) bun.IConn {
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

// one reads the first row of what query found; sql.ErrNoRows when there is
// none.
func (s *statement) one(ctx context.Context, db bun.IDB, args, dest []any) error {
	return s.first(ctx, db, args, func(rows *sql.Rows) error { return rows.Scan(dest...) })
}

// model reads the first row of what the statement finds into one of bun's models;
// sql.ErrNoRows when there is none.
func (s *statement) model(ctx context.Context, db *bun.DB, row any, args ...any) error {
	return s.first(ctx, db, args, func(rows *sql.Rows) error { return db.ScanRow(ctx, rows, row) })
}

func (s *statement) first(ctx context.Context, db bun.IDB, args []any, scan func(*sql.Rows) error) error {
	rows, err := s.query(ctx, db, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil { // a read that broke off found out nothing
			return err
		}
		return sql.ErrNoRows
	}
	if err := scan(rows); err != nil {
		return err
	}
	return rows.Close()
}

// models reads all rows of what it finds.
func (s *statement) models(ctx context.Context, db *bun.DB, list any, args ...any) error {
	rows, err := s.query(ctx, db, args...)
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
		return tx.StmtContext(ctx, stmt) // the transaction closes its part of it
	}
	return stmt
}
