// Package requests stores what agents request from the gateway itself: calls of its
// own tools, requests for variables, and uploads.
package requests

import (
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/inbound"
	"sallyport/store/workspaces"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db      *database.DB
	history *history.Store
	inbound *inbound.Store

	workspaces *workspaces.Store
}

// New returns a store on the database of p.
func New(p *database.Preparer, historyRows *history.Store, inboundRows *inbound.Store, workspaceRows *workspaces.Store) *Store {
	return &Store{db: p.DB, history: historyRows, inbound: inboundRows, workspaces: workspaceRows}
}
