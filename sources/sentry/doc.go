// Package sentry is the module of Sentry, hosted or one's own: its issues and
// their events, and the change of an issue.
//
// Answers are compacted to what an agent works with and bounded; where
// something was left out, the result says so (`_truncated`). Lists of frames,
// exceptions and breadcrumbs have the newest first, so that what is cut is the
// oldest. Nothing is looked up twice or kept.
package sentry
