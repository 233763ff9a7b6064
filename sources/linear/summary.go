package linear

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The summaries are the line that an approver reads first, beside all params.
// Text is quoted, so that nothing in it passes for ours.

func summarizeCreate(params json.RawMessage) string {
	in, _ := readInput(params)
	line := fmt.Sprintf("Create the issue %s in the team %s", quoted(in.text("title")), short(in.text("teamId")))
	return line + in.changes("description", "priority", "stateId", "assigneeId", "projectId", "labelIds")
}

func summarizeUpdate(params json.RawMessage) string {
	in, _ := readInput(params)
	line := "Change the issue " + short(in.text("issueId"))
	return line + in.changes("title", "description", "priority", "stateId", "assigneeId", "projectId", "addedLabelIds", "removedLabelIds")
}

func summarizeComment(params json.RawMessage) string {
	in, _ := readInput(params)
	where := "Comment on the issue "
	if in.text("parentId") != "" {
		where = "Reply to a comment on the issue "
	}
	return where + short(in.text("issueId")) + ": " + quoted(in.text("body"))
}

// changes spells the params of those names, as far as they are there.
func (in input) changes(names ...string) string {
	var parts []string
	for _, name := range names {
		raw, there := in[name].(json.RawMessage)
		if there {
			parts = append(parts, strings.TrimSuffix(name, "Id")+" "+value(name, raw))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func value(name string, raw json.RawMessage) string {
	var text string
	var list []string
	switch {
	case string(raw) == "null":
		return "none"
	case name == "priority":
		return priority(raw)
	case json.Unmarshal(raw, &text) == nil && slices.Contains([]string{"title", "description"}, name):
		return quoted(text)
	case json.Unmarshal(raw, &text) == nil:
		return short(text)
	case json.Unmarshal(raw, &list) == nil:
		return strconv.Itoa(len(list))
	}
	return short(string(raw))
}

func priority(raw json.RawMessage) string {
	words := []string{"none", "urgent", "high", "medium", "low"}
	if n, err := strconv.Atoi(string(raw)); err == nil && n >= 0 && n < len(words) {
		return words[n]
	}
	return short(string(raw))
}

// quoted shows the beginning of a text, with what cannot be seen escaped.
func quoted(text string) string { return strconv.Quote(begin(text, 100)) }

// short is an id or a key, quoted where it is none.
func short(id string) string {
	if q := strconv.Quote(begin(id, 64)); q != `"`+id+`"` || strings.ContainsAny(id, " ,:") {
		return q
	}
	return id
}

func begin(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}
