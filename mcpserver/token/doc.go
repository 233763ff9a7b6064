// Package token issues and verifies what MCP clients hand back to the server:
// signed ids of sessions, and sealed states of requests that ask the client
// something. Both carry everything that an instance needs to continue, so any
// instance that has the key can serve the next request.
package token
