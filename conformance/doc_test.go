// Package conformance_test looks at Sallyport from outside.
//
// It builds the binary, runs it as a process and talks to it as agents,
// approvers, operators and hostile strangers do: over /mcp with SDKs that
// others wrote, over /api/v1, and with signals. It also holds the import rule.
//
// What lies behind the sockets is not tested here: packages test themselves.
package conformance_test
