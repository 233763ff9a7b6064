// Package policy decides: what an organization wants done with a call.
//
// Decisions are pure functions of rules, a session, an action and a time. They
// read no clock, no row and no socket, and the same input gives the same
// output, with every layer that was asked named in it and a sentence of what
// it said.
//
// The layers are asked in this order:
//
//  1. Ceilings, which can only deny: whether the session is connected to the
//     service of a module at all, by an integration that can be used, and what
//     its group may do at the provider.
//  2. A cascade whose first hit wins: the override of the session's
//     automation, the organization's override, the group's capability, and
//     what the action's risk suggests. In a session that an inbound event
//     started, only the first of them lets anything but a read run by itself.
//  3. Drift, which only tightens: a connector's tool that nobody reviewed as
//     it is now needs an approval for each call, or is denied.
//  4. Grants, which turn a required approval into an allow, and nothing else.
//
// It promises that a denial of one layer is undone by none after it, and that
// a tool which changed is never let through by anything said of it as it was.
// It does not count, use up or write anything: what a call counts against and
// which grants cover it are part of the answer, for the caller to act on. Nor
// does it check what is stored: rules that could not have been stored are read
// in the way that allows less.
package policy
