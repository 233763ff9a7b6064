// Package platform has the tools by which agents tell the gateway itself
// something: that a run is done, how a workspace is brought up.
//
// Each call is an invocation like any other: it has a row, a policy key such as
// platform:automation_complete, events, and its place in the audit. Beside that
// the rows keep every answer by the id that the agent gave its call
// (session_tool_invocations), in the transaction of what the call did: so a call
// is done once, and answered again however often it comes. A session's calls of a
// tool are bounded by the hour.
//
// The tools reach nothing outside of the gateway. They keep no secrets: what
// looks like one is refused where it would have to be used later, and redacted
// where people read it.
package platform
