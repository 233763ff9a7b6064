// Package ingest takes in what happens elsewhere and makes automation runs of
// it, each once.
//
// What comes over HTTP is verified on its raw bytes, kept as one durable row and
// acknowledged; nothing else happens while the sender waits. Workers read the
// rows, with the module of the service, find out whose event it is, complete it
// once, ask each trigger whether it matches, and write events, runs and outbox
// in one transaction, which two unique keys guard: a trigger has an event once.
// What is polled, and what schedules make, goes the same way with its cursor or
// its due time in the same transaction. Runs leave by the outbox, to an endpoint
// or to whoever claims them.
//
// It promises that a verified delivery is worked off at least once and has its
// effect once, however many processes there are and whenever one dies. It does
// not promise an order among deliveries.
//
// It knows no service: modules come as [event.Provider], rows, credentials and
// clocks through the interfaces in ports.go.
package ingest
