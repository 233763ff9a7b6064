// Package notify stores notification channels, notifications, and the secrets that
// sign outgoing requests.
package notify

import (
	"sallyport/store/calls"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/inbound"
	"sallyport/store/policy"
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
	policy   *policy.Store
	connect  *connect.Store
}

// New returns a store on the database of p.
func New(
	p *database.Preparer, historyRows *history.Store, sessionsRows *sessions.Store, callsRows *calls.Store, inboundRows *inbound.Store,
	requestsRows *requests.Store, policyRows *policy.Store, connectRows *connect.Store,
) *Store {
	return &Store{
		db: p.DB, history: historyRows, sessions: sessionsRows, calls: callsRows, inbound: inboundRows,
		requests: requestsRows, policy: policyRows, connect: connectRows,
	}
}
