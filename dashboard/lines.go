package dashboard

import "strings"

// Line is one line of laid out JSON. Pages give it a box of its own, so that
// what wraps stays under its beginning, and no rest of a string can stand
// where a key would.
type Line struct {
	Depth int // of its indentation
	Text  []Segment
}

// lines cuts segments at the line breaks that the layout made; text has none,
// as visible spells them out.
func lines(segments []Segment) []Line {
	out := []Line{{}}
	for _, s := range segments {
		if rest, ok := strings.CutPrefix(s.Text, "\n"); ok {
			s.Text = rest
			out = append(out, Line{Depth: (len(rest) - len(strings.TrimLeft(rest, " "))) / 2})
		}
		if last := &out[len(out)-1]; s.Text != "" {
			last.Text = append(last.Text, s)
		}
	}
	return out
}
