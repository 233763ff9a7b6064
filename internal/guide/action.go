package guide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/action"
)

// Bounds of what is told of one action.
const (
	maxDescription = 3000 // characters
	maxCell        = 240
)

// described writes all there is to say of an action.
func described(a *action.Available) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", code(a.Tool))
	fmt.Fprintf(&b, "A call of it %s. Risk: %s. Its name at the source: %s.\n\n", Mode(a.Decision.Mode), a.Risk, code(a.Name))
	switch says := cmp.Or(a.Description, a.Title); {
	case says == "":
	case foreign(a.Action):
		b.WriteString(fenced(says, maxDescription) + "\n")
	default:
		b.WriteString(strings.TrimSpace(short(says, maxDescription)) + "\n\n")
	}
	b.WriteString(table(a.InputSchema))
	if params, note := example(a.Action); params != nil {
		b.WriteString("\nExample")
		if note != "" {
			b.WriteString(" (" + Line(note, maxCell) + ")")
		}
		b.WriteString(":\n\n```json\n" + indented(params) + "\n```\n")
	}
	return b.String()
}

// table tells the params of a schema.
func table(schema []byte) string {
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
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(p.Name), cell(Line(p.Type, maxCell)), required, cell(says))
	}
	if cut {
		b.WriteString("\n(Its schema says more than is listed here.)\n")
	}
	return b.String()
}

// indented is JSON for people. Its strings may be a server's own: nobody sees
// some characters, and no fence may close.
func indented(raw []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return strings.ReplaceAll(spelled(string(raw)), "```", "` ` `")
	}
	return strings.ReplaceAll(spelled(out.String()), "```", "` ` `")
}
