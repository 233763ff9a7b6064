// Package guide writes what an agent reads about the actions that it may call,
// as Markdown: of one action, of a source, of a session.
//
// It writes what it is given, which is a session's live list, and nothing of its
// own making: the same list gives the same text. Denied actions are not in it.
// The texts of a connector's server are foreign. They stand in fences that they
// cannot close, or as plain words in cells, with a word on whose they are and
// with characters that nobody sees spelled out, so that they cannot pass for the
// gateway's words. Texts are bounded: what does not fit is listed, with how to
// get it.
package guide
