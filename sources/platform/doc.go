// Package platform implements the gateway's own tools, by which agents report
// to it: completing a run, and saving how a workspace is set up.
//
// Each call is an invocation like any other: it has a row, a policy key such as
// platform:automation_complete, events, and an entry in the audit log. In
// addition, each reply is stored under the ID that the agent gave its call
// (session_tool_invocations), in the transaction of the call's effect. Calls
// are therefore idempotent: a repeated call gets the stored reply. Calls are
// limited per session and tool by the hour.
//
// The tools make no outbound requests. They store no secrets: what looks like
// one is rejected where the value would be used later, and redacted where
// people read it.
package platform
