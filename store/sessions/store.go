// Package sessions reads and locks sessions and records their use.
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

// New returns a store on the database of p and prepares its statements; see p.Err.
func New(p *database.Preparer, historyRows *history.Store) *Store {
	s := &Store{db: p.DB, history: historyRows}
	s.stmts.session = p.Read(sessionQuery(p.DB.Read))
	s.stmts.hold = p.WriteShared(LockSessionSQL)
	return s
}
