package guide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/action"
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
	fmt.Fprintf(&b, "A call of it %s. Risk: %s. Its name at the source: %s.\n\n", Mode(a.Decision.Mode), a.Risk, inlineCode(a.Name))
	switch description := cmp.Or(a.Description, a.Title); {
	case description == "":
	case isUntrusted(a.Action):
		b.WriteString(fencedText(description, maxDescription) + "\n")
	default:
		b.WriteString(strings.TrimSpace(truncate(description, maxDescription)) + "\n\n")
	}
	b.WriteString(paramTable(a.InputSchema))
	if params, note := exampleParams(a.Action); params != nil {
		b.WriteString("\nExample")
		if note != "" {
			b.WriteString(" (" + Line(note, maxCell) + ")")
		}
		b.WriteString(":\n\n```json\n" + indentJSON(params) + "\n```\n")
	}
	return b.String()
}

// paramTable lists the params of a schema.
func paramTable(schema []byte) string {
	params, cut := Params(schema, 0)
	switch {
	case len(params) == 0 && cut:
		return "Its schema is too large to be listed here.\n"
	case len(params) == 0:
		return "It takes no params, or its schema does not list them.\n"
	}
	var b strings.Builder
	b.WriteString("| Param | Type | Required | What it says |\n|---|---|---|---|\n")
	for _, p := range params {
		says := Line(p.About, maxCell)
		if p.Default != "" {
			says = strings.TrimSpace(says + " Default: " + Line(p.Default, 80) + ".")
		}
		required := "no"
		if p.Required {
			required = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", inlineCode(p.Name), tableCell(Line(p.Type, maxCell)), required, tableCell(says))
	}
	if cut {
		b.WriteString("\n(Its schema says more than is listed here.)\n")
	}
	return b.String()
}

// indentJSON formats JSON for people. Its strings may be a server's own, so
// invisible characters are spelled out and no fence can close.
func indentJSON(raw []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return strings.ReplaceAll(escapeInvisible(string(raw)), "```", "` ` `")
	}
	return strings.ReplaceAll(escapeInvisible(out.String()), "```", "` ` `")
}
