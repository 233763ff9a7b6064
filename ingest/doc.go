// Package ingest turns events of other services into automation runs, each exactly once.
//
// A webhook delivery is verified on its raw bytes, stored as one durable row and
// acknowledged; nothing else happens while the sender waits (webhook). Workers parse the
// rows with the module of the service, find the organizations concerned, complete the
// events, ask each trigger whether it matches, and write events, runs and outbox in one
// transaction (inbox). Two unique keys guarantee that a trigger gets an event once. Polled
// events and due schedules take the same path, with the cursor or the due time in the same
// transaction (poll, schedule). Runs leave through the outbox to an endpoint (dispatch),
// or are claimed by workers.
//
// It promises that a verified delivery is processed at least once and takes effect once,
// with any number of instances and whenever one of them dies. It promises no order among
// deliveries.
//
// It knows no service: modules are given as [event.Provider], rows and credentials through
// the interfaces in ports.go.
package ingest
