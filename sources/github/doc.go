// Package github implements the GitHub module: repositories, issues, branches
// and pull requests, on github.com and Enterprise Server, with personal tokens,
// OAuth and GitHub App installations.
//
// Actions hold these guarantees. No branch called main or master is created. An
// integration's rules for repositories and base branches apply before approval
// and before any request. A write reaches the named repository or fails, even
// after a rename. If a check before a write fails, the write is reported as not
// executed. Issue actions never change a pull request, and the reverse. A merge
// applies to the named commit only, and only if the base branch, read
// immediately before, is the named one. Pagination uses parameters and never a
// URL from a response. Rate limits are distinguished from refusals.
//
// For webhooks, nothing is parsed before the signature is verified; headers are
// not signed, so the body must match the event in the header; and a branch of a
// fork never matches as a branch of the repository.
//
// The module does not use go-github, which handles rate limits itself, follows
// redirects of writes, and decodes a hundred URLs per object; [outbound.Client]
// must see every request. Tests compare the requests with that library's.
package github
