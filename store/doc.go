// Package store stores the gateway's data: invocations and their events,
// sessions, policy, secrets, connectors and people.
//
// Its guarantees: what a method returned is durable, except for the few writes
// that are documented as queued; every state change is one compare-and-swap; a
// terminal invocation never changes; and every query names the organization,
// except lookups by a token's own ID and queries that serve all organizations:
// sweeps, waiting callers, signals, versions, locks and key checks.
//
// A call has a row in open_calls while it is pending, approved or executing, and in
// invocations from its end on; one statement ends it. The view all_calls has both, for
// lookups by ID.
//
// The rows are in a SQLite file, which one process uses exclusively, or in
// PostgreSQL 13 or later, which any number of processes share, also through a
// pooler in transaction mode. Models and queries are the same;
// database/dialect.go lists the differences.
//
// If PostgreSQL restarts, fails over or hangs, reads and writes are retried for
// a while and then fail with [action.ErrUnavailable]. Only [DB.Finish] retries
// until its context ends. A write whose response was lost is not applied twice:
// the retry finds what it did, even while the server still executes it. Queued
// writes are lost with the process, or when the retries end.
//
// Time is the database's, however wrong an instance's clock is: see [DB.Now].
//
// Ended invocations are evidence: triggers queue them in the transaction that
// ends them, [DB.Seal] links them to the hash chain of their organization with
// a key that the caller passes, and [DB.VerifyAudit] finds later changes. Only
// [DB.Retain] deletes evidence, and leaves a checkpoint.
//
// The package makes no policy decisions, encrypts nothing and never sees a
// secret's value: encrypted values and hashes of params are arguments. The
// durability of a commit on PostgreSQL depends on the server's settings.
package store
