// Package connect stores connectors and integrations, with their secrets, OAuth tokens
// and tool reviews.
package connect

import (
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/policy"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db      *database.DB
	history *history.Store
	policy  *policy.Store

	stmts struct {
		connectors *database.Statement
	}
}

// New returns a store on the database of p and prepares its statements; see p.Err.
func New(p *database.Preparer, historyRows *history.Store, policyRows *policy.Store) *Store {
	s := &Store{db: p.DB, history: historyRows, policy: policyRows}
	s.stmts.connectors = p.Read(connectorsSQL(p.DB.Read))
	return s
}
