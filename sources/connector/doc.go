// Package connector is a source whose actions are provided by a remote MCP
// server, reached over streamable HTTP in either era of the protocol: with
// sessions (up to 2025-11-25) or without (2026-07-28).
//
// The SDK makes the handshake, where the eras differ most. Everything else
// bypasses it: requests are sent and answers, notifications and questions are
// read as raw JSON, because the SDK's types alter numbers, drop fields and
// reject unknown content.
//
// It guarantees: results, errors, progress, log messages, questions, replies
// and definitions are passed on byte for byte, except that the injected
// credential is redacted wherever the server echoes it; the credential is sent
// only to the host that it was set for; an error says correctly whether the
// server can have received the call, and a call that it can have received is
// never sent again; every answer is bounded in size and time. The _meta of a
// caller never reaches the server.
//
// It declares to the server only the client features that the configuration
// permits, and without sessions only those that the caller's client supports as
// well; in a session the attempt shows it. Questions become [action.Caller.Ask]
// in both eras. So does an error that wants links opened, after which the call
// is sent once more. Pings are answered here, and other requests are refused.
// Agents share a session unless the server may ask questions or keeps state:
// then each agent has its own. Notifications about changed lists, and about
// resources with subscribers, are read from every stream, and kept while there
// is no listener; the notification that a link was completed is not passed on.
// A circuit breaker pauses requests to a server that fails repeatedly or limits
// the rate.
package connector
