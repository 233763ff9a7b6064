// Package connect holds the rows of connectors and integrations, with their
// secrets, sign-ins and reviews.
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

// New returns the rows of the database that p prepares statements for; see p.Err.
func New(p *database.Preparer, historyRows *history.Store, policyRows *policy.Store) *Store {
	s := &Store{db: p.DB, history: historyRows, policy: policyRows}
	s.stmts.connectors = p.Read(connectorsSQL(p.DB.Read))
	return s
}
