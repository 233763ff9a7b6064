package guide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"sallyport/action"
	"sallyport/internal/shell"
)

// Limits on the text about one action.
const (
	maxDescription = 3000 // characters
	maxCell        = 240
)

// actionText describes one action.
func actionText(a *action.Available) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", inlineCode(a.Tool))
	fmt.Fprintf(&b, "A call %s. Risk: %s. Action: %s.\n\n", Mode(a.Decision.Mode), a.Risk, inlineCode(a.Name))
	switch description := cmp.Or(a.Description, a.Title); {
	case description == "":
	case isUntrusted(a.Action):
		b.WriteString(fencedText(description, maxDescription) + "\n")
	default:
		b.WriteString(strings.TrimSpace(truncate(description, maxDescription)) + "\n\n")
	}
	b.WriteString(paramTable(a.InputSchema))
	params, note := exampleParams(a.Action)
	if params != nil {
		b.WriteString("\nExample")
		if note != "" {
			b.WriteString(" (" + Line(note, maxCell) + ")")
		}
		// Strings in the example may be a server's own, so invisible characters are
		// spelled out and no fence can close.
		var out bytes.Buffer
		if json.Indent(&out, params, "", "  ") != nil {
			out = *bytes.NewBuffer(params)
		}
		b.WriteString(":\n\n```json\n" + strings.ReplaceAll(escapeInvisible(out.String()), "```", "` ` `") + "\n```\n")
	}
	if line := shellLine(a.Action, params); line != "" {
		b.WriteString("\nIn a shell:\n\n```sh\n" + line + "\n```\n")
	}
	return b.String()
}

// maxShellParams is how long the params of a command may be, in bytes. Longer ones are
// read from a file.
const maxShellParams = 1000

// shellLine returns the command that runs the action with the example's params. It is
// empty if a name cannot be shown as it is.
func shellLine(a *action.Action, params []byte) string {
	names := a.Source + a.Name
	if !utf8.ValidString(names) || strings.ContainsFunc(names, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	said := "@params.json" // for the reader to write
	var compact bytes.Buffer
	if params != nil && json.Compact(&compact, params) == nil && compact.Len() <= maxShellParams {
		said = escapeJSON(compact.String())
	}
	names = shell.Quote(a.Source) + " " + shell.Quote(a.Name)
	if strings.HasPrefix(a.Name, "-") { // else it would be a flag
		return "sallyport actions run --params " + shell.Quote(said) + " -- " + names
	}
	return "sallyport actions run " + names + " --params " + shell.Quote(said)
}

// escapeJSON escapes the invisible characters of a JSON document, and backticks,
// which could end a fence. The values stay the same.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r != '`' && unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// paramTable lists the params of a schema.
func paramTable(schema []byte) string {
	params, cut := Params(schema, 0)
	switch {
	case len(params) == 0 && cut:
		return "Its schema is too large to list here.\n"
	case len(params) == 0:
		return "It takes no params, or its schema does not list them.\n"
	}
	var b strings.Builder
	b.WriteString("| Param | Type | Required | Description |\n|---|---|---|---|\n")
	for _, p := range params {
		says := Line(p.About, maxCell)
		if p.Default != "" {
			says = strings.TrimSpace(Sentence(says) + " Default: " + Line(p.Default, 80) + ".")
		}
		required := "no"
		if p.Required {
			required = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", inlineCode(p.Name), tableCell(Line(p.Type, maxCell)), required, tableCell(says))
	}
	if cut {
		b.WriteString("\n(The schema has more than is listed here.)\n")
	}
	return b.String()
}

// Sentence ends a text that another sentence follows with a full stop, unless it ends
// with punctuation.
func Sentence(text string) string {
	if r, _ := utf8.DecodeLastRuneInString(text); text == "" || unicode.IsPunct(r) {
		return text
	}
	return text + "."
}

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
