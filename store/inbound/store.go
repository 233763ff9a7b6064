// Package inbound stores inbound work: receipts, events, triggers, schedules,
// automations, runs and their deliveries.
package inbound

import (
	"sallyport/store/calls"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/sessions"
)

// Store reads and writes inbound work. It is safe for concurrent use.
type Store struct {
	db       *database.DB
	history  *history.Store
	sessions *sessions.Store
	connect  *connect.Store
	calls    *calls.Store

	stmts struct {
		receive *database.Statement
	}
}

// New returns a store that uses the statements that p prepares; see p.Err.
func New(p *database.Preparer, historyRows *history.Store, sessionsRows *sessions.Store, connectRows *connect.Store, callsRows *calls.Store) *Store {
	s := &Store{db: p.DB, history: historyRows, sessions: sessionsRows, connect: connectRows, calls: callsRows}
	s.stmts.receive = p.Write(receiveSQL)
	return s
}
