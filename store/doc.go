// Package store keeps the gateway's rows: invocations and their events,
// sessions, policy, secrets, connectors and people.
//
// It promises that what a method returned is durable, but for the few writes
// that say they are queued; that every state change is one compare-and-swap;
// that a terminal invocation never changes; and that every query names the
// organization, but for the look-ups by a token's own id and for what serves
// all of them: the sweeps and what callers wait for, signals and versions,
// locks and checks of keys.
//
// The rows are in a SQLite file, which one process has for itself, or in
// PostgreSQL 13 or later, which any number of processes share, also through a
// pooler that gives each transaction another connection. Models and queries
// are the same; database/dialect.go lists the differences.
//
// A PostgreSQL that restarts, fails over or hangs is waited for: reads and
// writes are tried again for a while and then fail with [action.ErrUnavailable].
// Only [DB.Finish] waits for as long as its context lasts. A write whose answer
// was lost is not done twice; it finds what it did before, also when the server
// is still at it. What only was queued is lost with the process that queued it,
// and after that while.
//
// Time is the database's, however wrong an instance's clock is: see [DB.Now].
//
// What ended is evidence: triggers queue it in the transaction that ends it,
// [DB.Seal] links it to the chain of its organization with a key that comes in
// as an argument, and [DB.VerifyAudit] finds what was changed since. Only
// [DB.Retain] removes any of it, and leaves a checkpoint.
//
// It decides nothing, encrypts nothing and never sees a secret's value: what is
// encrypted, and hashes of params, come in as arguments. It does not watch over
// its server: how durable a commit is there is for the server's settings to say.
package store
