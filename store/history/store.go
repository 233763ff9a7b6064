// Package history stores what all tables of settings share: the recording of
// changes, the versions of policy and catalog, and the settings of an organization.
package history

import (
	"sallyport/store/database"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db *database.DB
}

// New returns a store on the database of p.
func New(p *database.Preparer) *Store {
	s := &Store{db: p.DB}
	return s
}
