// Package action holds the words of outbound work: actions, calls, sessions,
// decisions, invocations, grants, the errors, and the rules about them. What
// happens to a call is in package gate.
//
// It imports the standard library only.
package action
