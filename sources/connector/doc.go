// Package connector is a source whose actions live at a remote MCP server,
// reached over streamable HTTP in either era of the protocol: with sessions
// (up to 2025-11-25) or without (2026-07-28).
//
// The SDK makes the handshake, which is where the eras differ most and change
// most. tools/list and tools/call do not pass through it: they are sent and
// read here as raw JSON, because the SDK's types alter numbers, drop fields
// and refuse content that they do not know.
//
// It promises: results, errors, progress and definitions are handed on byte
// for byte, but for the injected credential, which is replaced wherever the
// server echoes it; the credential goes to the one host that it was set for;
// an error tells truly whether the server may have received the call, and a
// call that it may have received is never sent again; every answer is bounded
// in size and time.
//
// It does not show itself able to do anything for the server: requests of the
// server (sampling, elicitation, roots) are refused, pings answered. It keeps
// no stream open between calls, so it hears of changed lists only by asking.
package connector
