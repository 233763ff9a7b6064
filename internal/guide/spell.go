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
	return truncate(strings.Join(strings.Fields(escapeInvisible(text)), " "), limit)
}

// escapeInvisible writes characters that nobody sees, or that move others, as \u{…}.
// Line breaks and tabs stay.
func escapeInvisible(text string) string {
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

// truncate cuts a text to as many characters.
func truncate(text string, limit int) string {
	n := 0
	for i := range text {
		if n == limit {
			return strings.TrimRight(text[:i], " ") + "…"
		}
		n++
	}
	return text
}

// fencedText puts foreign text between fences that it cannot close.
func fencedText(text string, limit int) string {
	text = strings.TrimRight(truncate(escapeInvisible(text), limit), "\n ")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + text + "\n" + fence + "\n"
}

// inlineCode is a name as code within a line or a cell of a table.
func inlineCode(name string) string {
	name = Line(name, 200)
	if strings.ContainsAny(name, "`|") {
		return tableCell(name)
	}
	return "`" + name + "`"
}

// tableCell is foreign text within a cell of a table: one line, in which no mark
// means anything.
func tableCell(text string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "`", "\\`", "<", "&lt;", "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "#", `\#`, "!", `\!`,
	).Replace(text)
}
