// Package evidence holds the chain that makes the audit log tamper-evident:
// digests, seals, verification, export and retention.
package evidence

import (
	"sallyport/store/calls"
	"sallyport/store/database"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db    *database.DB
	calls *calls.Store

	stmts struct {
		link  *database.Statement
		links *database.Statement
	}
}

// New returns the rows of the database that p prepares statements for; see p.Err.
func New(p *database.Preparer, callsRows *calls.Store) *Store {
	s := &Store{db: p.DB, calls: callsRows}
	s.stmts.link = p.Write(InsertLinkSQL)
	s.stmts.links = p.Write(InsertLinksSQL)
	return s
}
