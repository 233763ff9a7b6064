// Package requests holds what agents ask of the gateway itself: tool calls of
// the platform, requests for variables, uploads and setups.
package requests

import (
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/inbound"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db      *database.DB
	history *history.Store
	inbound *inbound.Store
}

// New returns the rows of the database that p prepares statements for; see p.Err.
func New(p *database.Preparer, historyRows *history.Store, inboundRows *inbound.Store) *Store {
	s := &Store{db: p.DB, history: historyRows, inbound: inboundRows}
	return s
}
