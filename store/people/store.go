// Package people stores users, their logins and their API keys.
package people

import (
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/history"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db      *database.DB
	history *history.Store
	connect *connect.Store

	stmts struct {
		user   *database.Statement
		apiKey *database.Statement
	}
}

// New returns a store on the database of p and prepares its statements; see p.Err.
func New(p *database.Preparer, historyRows *history.Store, connectRows *connect.Store) *Store {
	s := &Store{db: p.DB, history: historyRows, connect: connectRows}
	s.stmts.user = p.Read(userQuery(p.DB.Read))
	s.stmts.apiKey = p.Read(apiKeyQuery(p.DB.Read))
	return s
}
