// Package canonical gives raw JSON its one canonical form, so that equal
// values have equal bytes and a hash of the bytes is a hash of the value.
//
// The form: no white space; the members of an object sorted by the bytes of
// their names as UTF-8, which is the order of their code points; strings with
// the fewest escapes there can be; numbers exactly as they were written.
//
// It promises that the canonical form stands for the very value that was
// given, to the last digit: 9007199254740993 stays itself, and 1, 1.0 and 1e0
// stay three different texts, because a service may tell them apart. It is
// the form of RFC 8785 but for two things: there numbers become doubles, and
// names are sorted as UTF-16.
//
// What two readers could understand in two ways is refused: a name twice in
// one object, text that is not Unicode, nesting deeper than [MaxDepth],
// anything after the value.
package canonical
