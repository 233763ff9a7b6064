// Package coord publishes hints, limits rates and holds short locks: [Hub],
// [Counter] and [Locks] within one process, [Valkey] between all instances of a
// gateway. Nothing depends on it for correctness: a lost hint costs time, a lost
// count allows more calls, and work under a lock must be correct without it.
//
// Valkey can be unavailable, at the start or at any time, and nothing waits for it
// then: hints reach only the subscribers of this instance, and each instance counts
// its own calls and holds every lock. Heartbeats, sent and received in the same way
// as hints, detect an outage. When they return, [ValkeyConfig.Resumed] reports that
// hints may have been missed.
//
// It promises that Publish does not block; that hints of one publisher keep their
// order; that no call waits longer than its timeout, and none at all during a known
// outage; and that no error or log line contains the URL's password. It does not
// promise that every hint arrives, nor that a limit is exact during an outage: each
// instance may then allow all of it. It supports one server, or the address of a
// primary, and no clusters.
//
// It starts no goroutine outside of [Valkey.Run], which waits for all of its own
// except those of the client library. Every implementation passes the suite in the
// files suite_*_test.go.
package coord
