// Package store keeps the gateway's rows: invocations and their events,
// sessions, policy, secrets, connectors and people.
//
// It promises that what a method returned is durable, but for the few writes
// that say they are queued; that every state change is one compare-and-swap;
// that a terminal invocation never changes; and that every query names the
// organization, but for the sweeps and the look-ups by a token's own id.
//
// Today the rows are in SQLite. What a second database would do otherwise is
// in dialect.go and in a folder of migrations; models and queries are shared.
//
// It decides nothing, seals nothing and never sees a secret's value: sealed
// bytes and hashes come in as arguments.
package store
