package guide

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes foreign text one harmless line of at most limit characters: runs of
// space are one, and characters that nobody sees, or that turn the direction of
// a line, are spelled. What is left out is marked with an ellipsis.
func Line(text string, limit int) string {
	return short(strings.Join(strings.Fields(spelled(text)), " "), limit)
}

// spelled writes characters that nobody sees, or that move others, as \u{…}.
// Line breaks and tabs stay.
func spelled(text string) string {
	plain := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && text[i] >= utf8.RuneSelf && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case plain(r):
			b.WriteRune(r)
		case r == '\r':
		case unicode.Is(unicode.Zs, r): // other spaces mean no more than a space
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, `\u{%04X}`, r)
		}
	}
	return b.String()
}

// short cuts a text to as many characters.
func short(text string, limit int) string {
	n := 0
	for i := range text {
		if n == limit {
			return strings.TrimRight(text[:i], " ") + "…"
		}
		n++
	}
	return text
}

// fenced puts foreign text between fences that it cannot close.
func fenced(text string, limit int) string {
	text = strings.TrimRight(short(spelled(text), limit), "\n ")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + text + "\n" + fence + "\n"
}

// code is a name as code within a line or a cell of a table.
func code(name string) string {
	name = Line(name, 200)
	if strings.ContainsAny(name, "`|") {
		return cell(name)
	}
	return "`" + name + "`"
}

// cell is foreign text within a cell of a table: one line, in which no mark
// means anything.
func cell(text string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "`", "\\`", "<", "&lt;", "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "#", `\#`, "!", `\!`,
	).Replace(text)
}
