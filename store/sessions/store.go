// Package sessions holds the rows of sessions: reading, using and locking them.
package sessions

import (
	"sallyport/store/database"
	"sallyport/store/history"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db      *database.DB
	history *history.Store

	stmts struct {
		session *database.Statement
		hold    *database.Statement
	}
}

// New returns the rows of the database that p prepares statements for; see p.Err.
func New(p *database.Preparer, historyRows *history.Store) *Store {
	s := &Store{db: p.DB, history: historyRows}
	s.stmts.session = p.Read(SessionQuery(p.DB.Read))
	s.stmts.hold = p.WriteShared(HoldSessionSQL)
	return s
}
