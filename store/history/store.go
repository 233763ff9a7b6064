// Package history holds what all settings share: the registry of their tables,
// the history of policy, versions, and the settings of an organization.
package history

import (
	"sallyport/store/database"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db *database.DB
}

// New returns the rows of the database that p prepares statements for; see p.Err.
func New(p *database.Preparer) *Store {
	s := &Store{db: p.DB}
	return s
}
