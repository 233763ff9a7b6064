package redact

import (
	"cmp"
	"errors"
	"slices"
)

// Reasons why a document cannot be parsed. They are not shown to users.
var (
	errTrailing = errors.New("something after the value")
	errDepth    = errors.New("nested too deep")
	errComma    = errors.New("a comma or bracket is missing")
	errColon    = errors.New("a colon is missing")
)

// span is a secret part of a text.
type span struct{ start, end int }

// replace returns text with each span replaced by its mark; overlapping spans
// are merged.
func replace(text []byte, spans []span, mark func(dst, secret []byte) []byte) []byte {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := make([]byte, 0, len(text)+32)
	copied := 0
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].start < s.end; i++ {
			s.end = max(s.end, spans[i].end)
		}
		out = mark(append(out, text[copied:s.start]...), text[s.start:s.end])
		copied = s.end
	}
	return append(out, text[copied:]...)
}
