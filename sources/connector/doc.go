// Package connector is a source whose actions live at a remote MCP server,
// reached over streamable HTTP in either era of the protocol: with sessions
// (up to 2025-11-25) or without (2026-07-28).
//
// The SDK makes the handshake, which is where the eras differ most and change
// most. All else does not pass through it: requests are sent and answers,
// notifications and questions read here as raw JSON, because the SDK's types
// alter numbers, drop fields and refuse content that they do not know.
//
// It promises: results, errors, progress, log messages, questions, replies and
// definitions are handed on byte for byte, but for the injected credential,
// which is replaced wherever the server echoes it; the credential goes to the
// one host that it was set for; an error tells truly whether the server may
// have received the call, and a call that it may have received is never sent
// again; every answer is bounded in size and time. Of the _meta of a caller
// nothing reaches the server.
//
// It shows itself able to do for the server only what the configuration lets
// it ask, and without sessions only what the caller's client offers of that;
// in a session the question finds out. Questions become [action.Caller.Ask] in
// both eras, and so does an error that wants links opened, after which the call
// is sent once more; pings are answered here, and all else is refused. Agents
// share a session, but where a server may ask or keeps state each has one;
// without sessions there is nothing to share. What a server says of itself, that
// a list changed, or a resource that somebody subscribed to, is heard on every
// stream, and kept while nobody listens; that a link which it had opened was
// dealt with is not handed on. A server that fails again and
// again, or that wants fewer requests, is left alone for a while.
package connector
