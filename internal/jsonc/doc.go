// Package jsonc edits JSON that people wrote: configuration files that may have
// comments and trailing commas.
//
// What is not edited stays byte for byte: comments, the order of keys, the
// digits of numbers, white space. Additions follow the style of the surrounding
// text. It returns an error for an edit that would lose something.
package jsonc
