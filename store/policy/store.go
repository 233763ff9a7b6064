// Package policy holds the rows that decide calls: overrides, capabilities,
// gates, quotas, grants and their requests.
package policy

import (
	"sallyport/store/database"
	"sallyport/store/history"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db      *database.DB
	history *history.Store

	stmts struct {
		overrides *database.Statement
		version   *database.Statement
		grants    *database.Statement
	}
}

// New returns the rows of the database that p prepares statements for; see p.Err.
func New(p *database.Preparer, historyRows *history.Store) *Store {
	s := &Store{db: p.DB, history: historyRows}
	s.stmts.overrides = p.Read(OverridesSQL)
	s.stmts.version = p.Read(VersionSQL)
	s.stmts.grants = p.Read(GrantsForSQL)
	return s
}
