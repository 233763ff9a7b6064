// Package requests stores what agents request from the gateway itself: calls of its
// own tools, requests for variables, uploads and setups.
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

// New returns a store on the database of p.
func New(p *database.Preparer, historyRows *history.Store, inboundRows *inbound.Store) *Store {
	s := &Store{db: p.DB, history: historyRows, inbound: inboundRows}
	return s
}
