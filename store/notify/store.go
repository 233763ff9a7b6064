// Package notify stores notification channels, notifications, and the secrets that
// sign outgoing requests.
package notify

import (
	"sallyport/store/calls"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/inbound"
	"sallyport/store/requests"
	"sallyport/store/sessions"
)

// Store reads and writes these rows. It is safe for concurrent use.
type Store struct {
	db       *database.DB
	history  *history.Store
	sessions *sessions.Store
	calls    *calls.Store
	inbound  *inbound.Store
	requests *requests.Store
}

// New returns a store on the database of p.
func New(p *database.Preparer, historyRows *history.Store, sessionsRows *sessions.Store, callsRows *calls.Store, inboundRows *inbound.Store, requestsRows *requests.Store) *Store {
	s := &Store{db: p.DB, history: historyRows, sessions: sessionsRows, calls: callsRows, inbound: inboundRows, requests: requestsRows}
	return s
}
