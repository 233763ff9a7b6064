// Package dbtest starts the PostgreSQL and the Valkey that tests and
// benchmarks need: real servers on random loopback ports, with their data on
// the memory disk where there is one.
//
// It promises that every server ends with the process that started it, however
// that one ends: a small shell watches a pipe, and when the pipe closes it
// ends the server and removes the data. A server that was stopped or killed
// starts again on its port.
//
// A missing program skips the test and says what to install; with CI=true it
// fails the test. `go test -short` skips without looking.
//
// The servers are made for speed: fsync is off, anybody on this machine may
// connect. Nothing outlives a crash of the machine, and no figure about
// durability may be taken from them but with [StartPostgresAt].
package dbtest
