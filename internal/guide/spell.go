package guide

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns untrusted text as one line of at most limit characters: white
// space is collapsed, and invisible characters and those that change the text
// direction are spelled out. A cut text ends in an ellipsis.
func Line(text string, limit int) string {
	return truncate(strings.Join(strings.Fields(escapeInvisible(text)), " "), limit)
}

// escapeInvisible writes invisible characters, and those that move others, as
// \u{…}. It keeps line breaks and tabs.
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
		case unicode.Is(unicode.Zs, r): // other spaces are equivalent to a space
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, `\u{%04X}`, r)
		}
	}
	return b.String()
}

// truncate cuts a text to limit characters.
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

// fencedText puts untrusted text in a fence that it cannot close.
func fencedText(text string, limit int) string {
	text = strings.TrimRight(truncate(escapeInvisible(text), limit), "\n ")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + text + "\n" + fence + "\n"
}

// inlineCode returns a name as code for a line or a table cell.
func inlineCode(name string) string {
	name = Line(name, 200)
	if strings.ContainsAny(name, "`|") {
		return tableCell(name)
	}
	return "`" + name + "`"
}

// tableCell returns untrusted text for a table cell: one line in which no
// Markdown is active.
func tableCell(text string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "`", "\\`", "<", "&lt;", "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`, "#", `\#`, "!", `\!`,
	).Replace(text)
}
