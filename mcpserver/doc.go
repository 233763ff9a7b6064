// Package mcpserver serves the Model Context Protocol to agents over streamable HTTP. It
// supports protocol versions with sessions (up to 2025-11-25) and the stateless protocol
// (from 2026-07-28) behind one URL, and turns tools/call, resources/read and prompts/get
// into calls of the Gate.
//
// It promises:
//
//   - Arguments and results pass through as the bytes that were received: numbers, key
//     order, unknown fields and request ids are not changed. Only the members in which
//     the two protocols differ are added or removed.
//   - A pending call is always answered: progress at once and as often as the Gate reports
//     it, a "pending" result if the client cannot wait, and a response to every client
//     when the gateway stops.
//   - What a principal has open ends with its session: event streams and subscriptions end
//     when the session expires or is revoked (within a minute if the hint is lost), and
//     subscriptions to a source's resources end when policy no longer allows reading it.
//   - An MCP session belongs to the principal that opened it, and two organizations never
//     share lists or SDK servers.
//   - A session is defined by its signed id: any instance that has the key can continue
//     it, also after a restart, until the id expires.
//   - An outcome counts as delivered once its last byte was flushed to a client that was
//     still connected.
//
// Limits per instance and principal: 64 subscriptions/listen (see [Config.MaxSessions]),
// 1,000 subscriptions to resources, 100 of them per session or listen, and 120 replies to
// questions per minute. A listen is acknowledged after at most ten seconds, with the
// resources whose sources agreed by then. Ended subscriptions are removed at their sources
// by eight workers, one request at a time per source; beyond 1,000 queued requests a source
// is not informed.
//
// Lists, calls, completion, log levels, subscriptions and event streams are implemented
// here, so no tool, resource or prompt passes through typed structs. The SDK answers
// initialize, ping and server/discover, and has sessions only while it does.
//
// A source may ask the client of a running call for input (elicitation, sampling, roots):
// by requests on the event stream of the call in a session, by an input_required result in
// the stateless protocol. The question names its source in _meta and in the message that a
// person reads. Replies may go to any instance: the id of a question names it, and a
// requestState is sealed under a shared key. If a client with a session disconnects, its
// source is informed at once; a stateless client may come back for as long as the source
// waits. Questions whose keys make the requestState larger than 256 KiB are not asked.
//
// A pending call is a task for stateless clients that declare the Tasks extension: the
// task is the row of its invocation. Only pending calls of tools/call become tasks. A
// client with URL elicitation is asked once to open the approval page instead, unless its
// session is unattended. Replies of clients never approve, deny or withdraw a call: people
// decide on the page.
//
// A log message goes to the client of the call. The level that a session sets is kept by
// the instances that have the session in memory; an instance that missed it uses info.
//
// Between instances, cancellations, log levels, subscriptions to resources and ends of
// sessions travel through [Peers] within about a second. Until then, another instance may
// still accept calls of an ended session. Signals are rows, so an instance sends at most
// 120 per minute, principal and kind; above that, a session ends on its own instance only.
// A subscription reaches the instances that have the session in memory: a client that
// later opens its event stream on another one must subscribe again.
//
// Each instance detects changes of lists itself; the one with the client's event stream
// notifies it. A client with event streams on two instances is notified by both, and one
// that reopens its stream after some time is notified in any case, because it may have
// missed a change.
//
// The package decides nothing, executes nothing and stores nothing, except that the tool
// grant_request stores a request for a person. It starts no goroutine for an idle session;
// [Server.Run] does the background work.
package mcpserver
