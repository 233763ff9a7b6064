package dashboard

import "strings"

// Line is one line of laid out JSON. Pages give it a box of its own, so that
// what wraps stays under its beginning, and no rest of a string can stand
// where a key would.
type Line struct {
	Depth int // of its indentation
	Text  []Segment
	Block []Line // instead of Text: the lines of a text, in a box of theirs
}

const (
	tallText = 40 // lines of a text that are shown at once
	wideText = 80 // letters of a line, about, before it wraps
)

// Long reports whether a text may be taller than the box that it has.
func (l Line) Long() bool {
	rows := 0
	for _, line := range l.Block {
		width := 0
		for _, s := range line.Text {
			width += len(s.Text)
		}
		rows += 1 + width/wideText
	}
	return rows > tallText
}

// lines cuts segments at the line breaks that the layout made; text has none,
// as visible spells them out.
func lines(segments []Segment) []Line {
	out := []Line{{}}
	for _, s := range segments {
		rest, breaks := strings.CutPrefix(s.Text, "\n")
		depth := (len(rest) - len(strings.TrimLeft(rest, " "))) / 2
		switch last := &out[len(out)-1]; {
		case breaks && s.Class == classText && last.Block != nil:
			last.Block = append(last.Block, Line{})
		case breaks && s.Class == classText:
			out = append(out, Line{Depth: depth, Block: []Line{{}}})
		case breaks:
			out = append(out, Line{Depth: depth})
			s.Text = rest
			fallthrough
		default:
			out[len(out)-1].add(s)
		}
	}
	return out
}

func (l *Line) add(s Segment) {
	if l.Block != nil {
		l = &l.Block[len(l.Block)-1]
	}
	if s.Text != "" {
		l.Text = append(l.Text, s)
	}
}
