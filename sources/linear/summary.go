package linear

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sallyport/sources"
)

// The summaries are the line that an approver reads first, beside all params.
// Text is quoted, so that nothing in it passes for ours; ids are whole, since a
// part of one cannot be compared. Free text comes last, where it is cut.

func summarizeList(params json.RawMessage) string {
	in, _ := readInput(params)
	return "List issues" + in.said(
		word{"teamId", "of the team"}, word{"projectId", "of the project"}, word{"state", "in the state"},
		word{"assignee", "assigned to"}, word{"label", "with the label"}, word{"priority", "priority"},
		word{"query", "with the text"}, word{"updatedAfter", "changed since"}, word{"includeArchived", "archived ones too:"},
		word{"orderBy", "ordered by"}, word{"first", "at most"}, word{"after", "after"})
}

func summarizeGet(params json.RawMessage) string {
	in, _ := readInput(params)
	return "Read the issue " + short(in.text("issueId")) + in.said(word{"commentsAfter", "with comments after"})
}

func summarizeCreate(params json.RawMessage) string {
	in, _ := readInput(params)
	return fmt.Sprintf("Create the issue %s in the team %s", quoted(in.text("title")), short(in.text("teamId"))) + in.said(
		word{"priority", "priority"}, word{"stateId", "state"}, word{"assigneeId", "assignee"},
		word{"projectId", "project"}, word{"labelIds", "labels"}, word{"description", "description"})
}

func summarizeUpdate(params json.RawMessage) string {
	in, _ := readInput(params)
	return "Change the issue " + short(in.text("issueId")) + in.said(
		word{"priority", "priority"}, word{"stateId", "state"}, word{"assigneeId", "assignee"}, word{"projectId", "project"},
		word{"addedLabelIds", "add labels"}, word{"removedLabelIds", "remove labels"}, word{"title", "title"}, word{"description", "whole description"})
}

func summarizeComment(params json.RawMessage) string {
	in, _ := readInput(params)
	where := "Comment"
	if parent := in.text("parentId"); parent != "" {
		where = "Reply to the comment " + short(parent)
	}
	return where + " on the issue " + short(in.text("issueId")) + ": " + quoted(in.text("body"))
}

// word is what a summary calls a param.
type word struct{ param, called string }

// said spells those params that are there.
func (in input) said(words ...word) string {
	var parts []string
	for _, w := range words {
		if v, there := in[w.param]; there {
			parts = append(parts, w.called+" "+value(w.param, v))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func value(name string, v any) string {
	raw, _ := json.Marshal(v)
	var text string
	var list []string
	switch {
	case string(raw) == "null":
		return "none"
	case name == "priority":
		return priority(raw)
	case json.Unmarshal(raw, &text) == nil && (name == "title" || name == "description" || name == "query"):
		return quoted(text)
	case json.Unmarshal(raw, &text) == nil:
		return short(text)
	case json.Unmarshal(raw, &list) == nil:
		return several(list)
	}
	return short(string(raw))
}

// several names two, so that what comes after them has a place in the line.
func several(ids []string) string {
	var parts []string
	for _, id := range ids[:min(len(ids), 2)] {
		parts = append(parts, short(id))
	}
	if more := len(ids) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, " and ")
}

func priority(raw json.RawMessage) string {
	words := []string{"none", "urgent", "high", "medium", "low"}
	var n sources.Integer
	if json.Unmarshal(raw, &n) == nil && n >= 0 && int(n) < len(words) {
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
