// Package policy decides what happens to a call under an organization's rules.
//
// Decisions are pure functions of rules, a session, an action and a time. They
// read no clock, database or network, and name every layer that was consulted,
// with a sentence about its result.
//
// The layers, in order:
//
//  1. Ceilings, which can only deny: whether the session has a usable
//     integration of the module's service, what its group may do at the
//     provider, and which sessions a gateway tool is for.
//  2. A cascade in which the first match wins: the mode of the session's
//     automation, the organization's mode, the group's capability, and the
//     default for the action's risk. In a session that an inbound event
//     started, only the automation's mode can allow a write.
//  3. Drift, which only tightens: a connector's tool that changed since its
//     review needs approval for each call, or is denied.
//  4. Grants, which turn a required approval into an allow, and do nothing else.
//
// No layer undoes the denial of an earlier one, and no rule made for one
// version of a tool allows another. The package counts and writes nothing:
// the limits that a call counts against and the grants that cover it are part
// of the decision, for the caller to apply. It does not validate rules: a rule
// that could not have been stored is read in the more restrictive way.
package policy
