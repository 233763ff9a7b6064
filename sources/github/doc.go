// Package github is the module for GitHub: repositories, issues, branches and
// pull requests, on github.com and on Enterprise servers, for personal tokens,
// OAuth and installations of a GitHub App.
//
// It promises: no branch main or master is ever created, and an integration's
// own rules of repositories and base branches hold before anybody is asked and
// before any request is made; a write lands in the repository that was named, or
// nowhere, also when that was renamed; of a write that was not sent, since what it
// looks at first was not answered, nobody is told that it may have been done; what
// is done to an issue is done to no pull request, and the other way round; a merge
// merges the commit that was named, or nothing, and nothing where the pull request
// was found, right before, to go into another branch than the one that was named; a
// page of a list is asked for by the page's mark and never by a URL out of an
// answer; a limit of requests is told from a refusal.
//
// Of deliveries it promises: nothing is read of one whose signature was not
// verified first; since no header is signed, the body has to be that of the event
// that the header names; a branch of a fork does not pass for one of the
// repository's own.
//
// It does not use go-github, which counts limits by itself, follows redirects of
// writes, and decodes a hundred URLs an object: requests here are few, and
// [outbound.Client] has to see each. Tests have that library make the same ones.
package github
