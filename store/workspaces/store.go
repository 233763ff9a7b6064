// Package workspaces stores what agents work on: workspaces, repositories and
// variables.
package workspaces

import (
	"sallyport/store/database"
	"sallyport/store/history"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db      *database.DB
	history *history.Store
}

// New returns a store on the database of p.
func New(p *database.Preparer, historyRows *history.Store) *Store {
	return &Store{db: p.DB, history: historyRows}
}
