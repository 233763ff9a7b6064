// Package action has the types of outbound work: actions, calls, sessions,
// decisions, invocations, grants, errors, and their validation. Package gate
// runs calls.
//
// It imports only the standard library.
package action
