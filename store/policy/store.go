// Package policy stores what decides calls: overrides, capabilities, gate approvals,
// quotas, grants and requests for grants.
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

// New returns a store on the database of p and prepares its statements; see p.Err.
func New(p *database.Preparer, historyRows *history.Store) *Store {
	s := &Store{db: p.DB, history: historyRows}
	s.stmts.overrides = p.Read(OverridesSQL)
	s.stmts.version = p.Read(versionSQL)
	s.stmts.grants = p.Read(GrantsForSQL)
	return s
}
