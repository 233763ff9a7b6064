// Package mcpserver lets agents in: it serves the Model Context Protocol over
// streamable HTTP, both eras of it (sessions up to 2025-11-25, stateless from
// 2026-07-28) behind one URL, and turns tools/call into calls of the Gate.
//
// It promises:
//
//   - arguments and results pass as the bytes that they are: no number, key
//     order or unknown field of them is touched, and request ids come back as
//     they were written;
//   - a held call is answered: progress at once and then as often as the Gate
//     reports it, a "pending" result where the client cannot wait, an answer
//     for everyone when the gateway stops;
//   - an MCP session answers to the principal that opened it and to nobody
//     else, and lists and servers of two organizations are never shared;
//   - a session lives in its signed id: any instance that has the key goes on
//     with it, after a restart too, for as long as the id is good;
//   - an outcome counts as delivered only when its last byte was flushed to a
//     client that was still there.
//
// The two hot methods, tools/list and tools/call, are its own. Everything else
// of the protocol (initialize, ping, discovery, event streams, subscriptions,
// resources) is the SDK's, which never sees a tool. The SDK knows a session of the older
// era only for as long as a request of it, or its event stream, lasts.
//
// Between instances, a cancellation and the end of a session travel by
// [Peers], within about a second: until then an instance that has the session
// in use may take calls of it, and little else. Each is a row, so of one
// principal an instance tells at most 120 a minute of either; a session that
// ends beyond that ends on its instance alone. Answers to questions that are
// put to clients (elicitation, sampling) are not carried yet, because none are
// put.
//
// A change of a list is seen by each instance for itself; the one that has the
// client's event stream tells it. A client that opens event streams on two
// instances is told by both, and one that opens its stream again after some
// time is told of a change in any case, for it may have missed one.
//
// It decides nothing, executes nothing and stores nothing: the tool
// grant_request only has written down what an agent wants of a person. It
// starts no goroutine for an idle session; [Server.Run] does the upkeep.
package mcpserver
