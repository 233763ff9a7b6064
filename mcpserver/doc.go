// Package mcpserver lets agents in: it serves the Model Context Protocol over
// streamable HTTP, both eras of it (sessions up to 2025-11-25, stateless from
// 2026-07-28) behind one URL, and turns tools/call, resources/read and
// prompts/get into calls of the Gate.
//
// It promises:
//
//   - arguments and results pass as the bytes that they are: no number, key
//     order or unknown field of them is touched, and request ids come back as
//     they were written;
//   - a held call is answered: progress at once and then as often as the Gate
//     reports it, a "pending" result where the client cannot wait, an answer
//     for everyone when the gateway stops;
//   - what a principal has open ends with its right to it: event streams and
//     subscriptions end when its session expires or is revoked (at a lost hint
//     of that, within a minute), and subscriptions to resources of a source that
//     policy does not let it read without asking any more;
//   - an MCP session answers to the principal that opened it and to nobody
//     else, and lists and servers of two organizations are never shared;
//   - a session lives in its signed id: any instance that has the key goes on
//     with it, after a restart too, for as long as the id is good;
//   - an outcome counts as delivered only when its last byte was flushed to a
//     client that was still there.
//
// By an instance a principal has 64 subscriptions/listen (see
// [Config.MaxSessions]), 1,000 subscriptions to resources, of which 100 are of one
// session or listen, and replies 120 times a minute to questions. A listen is
// acknowledged after at most ten seconds, with the resources whose sources agreed
// until then. Where subscriptions end, their sources are told one after another,
// eight sources at once; beyond a thousand such words a source is not told.
//
// Lists, calls, completion, log levels, subscriptions and event streams are its
// own: no tool, resource or prompt meets a typed struct. The SDK answers
// initialize, ping and server/discover, and knows a session only while it does.
//
// What a source asks of the caller of a call that runs (elicitation, sampling,
// roots) is put to one client: by requests on the event stream of its call in
// the older era, by an input_required result in the stateless one. It says whose
// question it is, in _meta and in the message of an elicitation, which a person
// reads. Replies may come to any instance: the id of a question names it, and a
// requestState is sealed under a key that all instances have. A client of the older era that is
// gone is told of to the source, so that nobody waits for it; one of the stateless
// era may come back for its question, for as long as the source waits. Questions
// whose keys make a requestState larger than 256 KiB are not asked.
//
// A held call is a task for clients of the stateless era that declare the Tasks
// extension with it: the row of its invocation, and nothing besides. Only tools/call
// makes tasks, only of calls that a person has to approve. A client that opens pages
// (URL elicitation) is asked once to open the page of the approval instead, unless its
// session is unattended. It is the row that has the decision: nothing that a client
// replies approves a call, denies or withdraws it.
//
// A log message goes to the client whose call it is about. The level that a
// client of the older era sets is remembered by the instances that know its
// session then. Where there are several, one that was not told takes info for it;
// a single one passes messages as the source sends them.
//
// Between instances, a cancellation, a level of log messages, a subscription to a
// resource and the end of a session travel by [Peers], within about a second: until then an instance
// that has the session in use may take calls of it, and little else. Each is a
// row, so of one principal an instance tells at most 120 a minute of each kind;
// a session that ends beyond that ends on its instance alone. A subscription is
// told to the instances that know the session then: a client that opens its
// event stream on another one later has to subscribe again.
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
