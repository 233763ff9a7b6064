package render

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Segment is a piece of text with a style. Templates escape it like any text.
type Segment struct {
	Class string
	Text  string
	Title string // tooltip
}

// Classes of segments. Plain text has none.
const (
	classEscape  = "esc"    // a character that is spelled out, because it would be invisible
	classMixed   = "mixed"  // a word of several scripts
	ClassMasked  = "masked" // a redacted value
	classKey     = "key"
	classString  = "str"
	classNumber  = "num"
	classLiteral = "lit" // true, false, null
	classPunct   = "pun"
	classNote    = "how" // a note about a value
	classText    = "txt" // the start of a line in a multiline text
	classTab     = "tab"
)

// Escape splits foreign text so that nothing in it is hidden or misleading. It
// spells out control, bidirectional and invisible characters, and marks words
// that mix scripts.
func Escape(text string) []Segment {
	var w segmentWriter
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			w.escape(fmt.Sprintf(`\x%02x`, text[i]))
		} else {
			w.rune(r)
		}
		i += size
	}
	return w.segments()
}

// Plain returns the text of [Escape], for titles and attributes, which have no
// markup.
func Plain(text string) string {
	var b strings.Builder
	for _, s := range Escape(text) {
		b.WriteString(s.Text)
	}
	return b.String()
}

// segmentWriter collects segments.
type segmentWriter struct {
	class string // of plain runes
	out   []Segment
	plain strings.Builder
}

func (w *segmentWriter) rune(r rune) {
	switch {
	case !IsInvisible(r):
		w.plain.WriteRune(r)
	case r == '\n' || r == '\r' || r == '\t':
		w.escape(map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`}[r])
	case r > 0xffff:
		w.escape(fmt.Sprintf(`\u{%x}`, r))
	default:
		w.escape(fmt.Sprintf(`\u%04x`, r))
	}
}

func (w *segmentWriter) escape(text string) {
	w.add(classEscape, text, "Invisible or formatting character")
}

func (w *segmentWriter) add(class, text, title string) {
	w.flush()
	w.out = append(w.out, Segment{class, text, title})
}

// flush ends a run of plain text and marks its mixed-script words.
func (w *segmentWriter) flush() {
	text := w.plain.String()
	w.plain.Reset()
	from := 0
	for _, word := range words(text) {
		scripts := mixedScripts(text[word[0]:word[1]])
		if scripts == "" {
			continue
		}
		w.part(text[from:word[0]])
		w.out = append(w.out, Segment{classMixed, text[word[0]:word[1]], "This word mixes " + scripts + "."})
		from = word[1]
	}
	w.part(text[from:])
}

func (w *segmentWriter) part(text string) {
	if text != "" {
		w.out = append(w.out, Segment{Class: w.class, Text: text})
	}
}

func (w *segmentWriter) segments() []Segment {
	w.flush()
	return w.out
}

// IsInvisible reports whether a rune is invisible or changes how its neighbours
// are shown.
func IsInvisible(r rune) bool {
	switch {
	case r == ' ':
		return false
	case r < ' ', 0x7f <= r && r <= 0x9f:
		return true
	case r < 0x7f:
		return false
	case unicode.In(r, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
		return true
	case r == 0x2800: // an empty Braille cell looks like a space
		return true
	}
	return !unicode.IsGraphic(r)
}

// words returns the spans of the words in text: letters with their combining
// marks.
func words(text string) (spans [][2]int) {
	start := -1
	for i, r := range text {
		inWord := unicode.IsLetter(r) || unicode.IsMark(r)
		switch {
		case inWord && start < 0:
			start = i
		case !inWord && start >= 0:
			spans = append(spans, [2]int{start, i})
			start = -1
		}
	}
	if start >= 0 {
		spans = append(spans, [2]int{start, len(text)})
	}
	return spans
}

// mixedScripts names the scripts of a word if no language writes them together.
// Otherwise it is empty.
func mixedScripts(word string) string {
	var found []string
	for _, r := range word {
		name := script(r)
		if name != "" && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	// Japanese, Korean and Chinese write these scripts together.
	together := slices.ContainsFunc([]string{"Han Hiragana Katakana", "Han Hangul", "Han Bopomofo"}, func(family string) bool {
		return !slices.ContainsFunc(found, func(s string) bool { return !strings.Contains(family, s) })
	})
	if len(found) < 2 || together {
		return ""
	}
	return strings.Join(found, " and ")
}

// script returns the name of a letter's script. It is empty for characters that
// scripts share.
func script(r rune) string {
	if r < 0x80 {
		return "Latin"
	}
	if unicode.In(r, unicode.Common, unicode.Inherited) {
		return ""
	}
	// Frequent scripts first. The order does not affect the result, because every
	// letter has one script.
	for _, s := range []struct {
		name  string
		table *unicode.RangeTable
	}{
		{"Latin", unicode.Latin},
		{"Cyrillic", unicode.Cyrillic},
		{"Greek", unicode.Greek},
		{"Han", unicode.Han},
		{"Hiragana", unicode.Hiragana},
		{"Katakana", unicode.Katakana},
		{"Hangul", unicode.Hangul},
	} {
		if unicode.Is(s.table, r) {
			return s.name
		}
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return ""
}
