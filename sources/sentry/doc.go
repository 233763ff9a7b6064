// Package sentry is the module of Sentry, hosted or one's own: its issues and
// their events, and the change of an issue.
//
// Answers are compacted to what an agent works with and bounded; where
// something was left out, the result says so (`_truncated`). Lists of frames,
// exceptions and breadcrumbs have the newest first, so that what is cut is the
// oldest. Nothing is looked up twice or kept.
//
// Of what Sentry posts, the body has to be about what the header says, since no
// header is signed; events are told apart by ids of the body, or else by all of it,
// since a try may have another Request-ID: a change of an issue that is posted
// twice in the same words is one. A delivery is of an installation, by its UUID, and
// not of the organization that an integration has: whose secret signed it tells.
// What happened to an issue is posted without a trace: that of its latest event is
// looked up. Variables, headers and users are not told.
package sentry
