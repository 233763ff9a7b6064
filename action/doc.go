// Package action holds the words of outbound work and the one door through
// which it passes, the [Gate].
//
// An agent's [Call] names a source and an action. The Gate checks its params,
// has it decided, writes an [Invocation] before anything happens, holds it for
// a person where policy says so, runs it once, and writes down how it ended.
//
// It promises: no row, no effect; one executor for each invocation; what was
// approved is what runs; a write is never run twice on its own; every
// invocation ends in a terminal status.
//
// It does not know rows, sockets, protocols or databases: it imports the
// standard library only and asks for the rest through the small interfaces in
// ports.go.
package action
