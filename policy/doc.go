// Package policy decides: what an organization wants done with a call.
//
// Decisions are pure functions of rules, a session and an action. They read
// no clock, no row and no socket, and the same input gives the same output,
// with every layer that was asked named in it.
//
// The layers are asked in order, and the first that has something to say
// wins: the override of the session's automation, the organization's
// override, and what the action's risk suggests.
package policy
