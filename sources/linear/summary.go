package linear

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sallyport/sources"
)

// A summary is the line that an approver reads first. Text is quoted, so that it
// cannot pass for the gateway's own. IDs are complete, so that they can be
// compared. Free text comes last, because it is truncated.

func summarizeList(params json.RawMessage) string {
	in, _ := readInput(params)
	return "List issues" + in.describe(
		labeledParam{"teamId", "of the team"}, labeledParam{"projectId", "of the project"}, labeledParam{"state", "in the state"},
		labeledParam{"assignee", "assigned to"}, labeledParam{"label", "with the label"}, labeledParam{"priority", "priority"},
		labeledParam{"query", "with the text"}, labeledParam{"updatedAfter", "changed since"}, labeledParam{"includeArchived", "archived ones too:"},
		labeledParam{"orderBy", "ordered by"}, labeledParam{"first", "at most"}, labeledParam{"after", "after"})
}

func summarizeGet(params json.RawMessage) string {
	in, _ := readInput(params)
	return "Read the issue " + quoteID(in.text("issueId")) + in.describe(labeledParam{"commentsAfter", "with comments after"})
}

func summarizeCreate(params json.RawMessage) string {
	in, _ := readInput(params)
	return fmt.Sprintf("Create the issue %s in the team %s", quoteText(in.text("title")), quoteID(in.text("teamId"))) + in.describe(
		labeledParam{"priority", "priority"}, labeledParam{"stateId", "state"}, labeledParam{"assigneeId", "assignee"},
		labeledParam{"projectId", "project"}, labeledParam{"labelIds", "labels"}, labeledParam{"description", "description"})
}

func summarizeUpdate(params json.RawMessage) string {
	in, _ := readInput(params)
	return "Change the issue " + quoteID(in.text("issueId")) + in.describe(
		labeledParam{"priority", "priority"}, labeledParam{"stateId", "state"}, labeledParam{"assigneeId", "assignee"}, labeledParam{"projectId", "project"},
		labeledParam{"addedLabelIds", "add labels"}, labeledParam{"removedLabelIds", "remove labels"}, labeledParam{"title", "title"}, labeledParam{"description", "whole description"})
}

func summarizeComment(params json.RawMessage) string {
	in, _ := readInput(params)
	where := "Comment"
	if parent := in.text("parentId"); parent != "" {
		where = "Reply to the comment " + quoteID(parent)
	}
	return where + " on the issue " + quoteID(in.text("issueId")) + ": " + quoteText(in.text("body"))
}

// labeledParam pairs a param with its label in summaries.
type labeledParam struct{ param, label string }

// describe formats the params that are present.
func (in input) describe(words ...labeledParam) string {
	var parts []string
	for _, w := range words {
		if v, there := in[w.param]; there {
			parts = append(parts, w.label+" "+formatParam(w.param, v))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func formatParam(name string, v any) string {
	raw, _ := json.Marshal(v)
	var text string
	var list []string
	switch {
	case string(raw) == "null":
		return "none"
	case name == "priority":
		words := []string{"none", "urgent", "high", "medium", "low"}
		var n sources.Integer
		if json.Unmarshal(raw, &n) == nil && n >= 0 && int(n) < len(words) {
			return words[n]
		}
	case json.Unmarshal(raw, &text) == nil && (name == "title" || name == "description" || name == "query"):
		return quoteText(text)
	case json.Unmarshal(raw, &text) == nil:
		return quoteID(text)
	case json.Unmarshal(raw, &list) == nil:
		var ids []string
		for _, id := range list[:min(len(list), 2)] { // leaves room for the rest of the line
			ids = append(ids, quoteID(id))
		}
		if more := len(list) - len(ids); more > 0 {
			ids = append(ids, fmt.Sprintf("%d more", more))
		}
		return strings.Join(ids, " and ")
	}
	return quoteID(string(raw))
}

// quoteText quotes the start of a text and escapes invisible characters.
func quoteText(text string) string { return strconv.Quote(sources.Shorten(text, 100)) }

func quoteID(id string) string { return sources.QuoteID(id, 64) }
