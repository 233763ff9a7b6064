package render

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Line is one line of formatted JSON. Pages put it in its own box, so that
// wrapped text stays below its start and cannot pass for a key.
type Line struct {
	Depth int // indentation
	Text  []Segment
	Block []Line // instead of Text: the lines of a multiline text, in their own box
}

const (
	maxVisibleLines = 40 // lines of a text that are shown at once
	lineWidth       = 80 // approximate characters of a line before it wraps
)

// Long reports whether a text may be taller than its box.
func (l Line) Long() bool {
	rows := 0
	for _, line := range l.Block {
		width := 0
		for _, s := range line.Text {
			width += len(s.Text)
		}
		rows += 1 + width/lineWidth
	}
	return rows > maxVisibleLines
}

// Lines splits segments at the line breaks of the layout. Line breaks in values
// are not affected, because [Escape] spells them out.
func Lines(segments []Segment) []Line {
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
			line := &out[len(out)-1]
			if line.Block != nil {
				line = &line.Block[len(line.Block)-1]
			}
			if s.Text != "" {
				line.Text = append(line.Text, s)
			}
		}
	}
	return out
}

// Mark is a piece of the Markdown subset that modules use to describe
// themselves.
type Mark struct {
	Kind string // bold, code, link; empty for text
	Text string
	Link string
}

// Markdown parses the text of a module. It is not for foreign text.
func Markdown(text string) (marks []Mark) {
	syntax := regexp.MustCompile("\\*\\*([^*]+)\\*\\*|`([^`]+)`|\\[([^\\]]+)\\]\\((https://[^)\\s]+)\\)")
	from := 0
	for _, at := range syntax.FindAllStringSubmatchIndex(text, -1) {
		if at[0] > from {
			marks = append(marks, Mark{Text: text[from:at[0]]})
		}
		switch {
		case at[2] >= 0:
			marks = append(marks, Mark{Kind: "bold", Text: text[at[2]:at[3]]})
		case at[4] >= 0:
			marks = append(marks, Mark{Kind: "code", Text: text[at[4]:at[5]]})
		default:
			marks = append(marks, Mark{Kind: "link", Text: text[at[6]:at[7]], Link: text[at[8]:at[9]]})
		}
		from = at[1]
	}
	if from < len(text) {
		marks = append(marks, Mark{Text: text[from:]})
	}
	return marks
}

// FormatTime formats a time.Time or *time.Time in UTC. It returns "" for the
// zero time and nil.
func FormatTime(t any, layout string) string {
	switch t := t.(type) {
	case time.Time:
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(layout)
	case *time.Time:
		if t != nil {
			return t.UTC().Format(layout)
		}
	}
	return ""
}

// Count returns a number with its noun.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
