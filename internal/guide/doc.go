// Package guide writes what an agent reads about the actions that it may call,
// as Markdown: for one action, a source or a session.
//
// The text is a pure function of the session's live list, without denied
// actions. Texts of a connector's server are untrusted: they appear in fences
// that they cannot close, or as plain text in cells, labelled as the server's,
// with invisible characters spelled out, so that they cannot pass for the
// gateway's words. Texts are limited in size; what does not fit is listed with
// instructions to get it.
package guide
