// Package coord carries hints, counts calls and holds short locks: [Hub],
// [Counter] and [Locks] between the parts of one process, [Valkey] between all
// instances of a gateway. Nothing here is truth: a lost hint costs time, a
// lost count is forgiven, and what is done under a lock must be right without
// it.
//
// Valkey may be away, at the start or at any time. Nothing waits for it then:
// hints reach the subscribers of this instance alone, each instance counts by
// itself and holds every lock. Whether it is there is measured end to end, by
// heartbeats that are sent and received as hints are. When they come back
// after a silence, [ValkeyConfig.Resumed] tells that hints were missed.
//
// It promises that Publish does not block; that hints of one publisher keep
// their order; that no call waits longer than its timeout, and none at all
// while Valkey is known to be away; and that no error or log line holds the
// URL's password. It does not promise that every hint arrives, nor that a
// limit is exact while instances count alone: each may then allow all of it.
// One server is meant, or the address of a primary; clusters are not.
//
// It starts no goroutine outside of [Valkey.Run], which waits for all of its
// own but those of the client library. Every implementation passes the suite in
// the files suite_*_test.go.
package coord
