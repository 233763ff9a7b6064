package linear

import (
	"bytes"
	"encoding/json"
	"slices"

	"sallyport/internal/redact"
	"sallyport/sources"
)

// The types below decode Linear's responses and are the results for agents:
// connections become lists, and pages carry the cursor of the next one.

type issue struct {
	ID            string       `json:"id"`
	Identifier    string       `json:"identifier"`
	Title         string       `json:"title"`
	URL           string       `json:"url"`
	State         named        `json:"state"`
	Priority      float64      `json:"priority"`
	PriorityLabel string       `json:"priorityLabel"`
	Assignee      *named       `json:"assignee"`
	Team          named        `json:"team"`
	Project       *named       `json:"project"`
	Labels        nodes[named] `json:"labels"`
	DueDate       *string      `json:"dueDate,omitempty"`
	CreatedAt     string       `json:"createdAt"`
	UpdatedAt     string       `json:"updatedAt"`
}

// fullIssue is the result of get_issue.
type fullIssue struct {
	issue
	Description *string           `json:"description"`
	Branch      string            `json:"branchName,omitempty"`
	ArchivedAt  *string           `json:"archivedAt,omitempty"`
	Creator     *named            `json:"creator"`
	Parent      *named            `json:"parent"`
	Children    nodes[child]      `json:"children"`
	Attachments nodes[attachment] `json:"attachments"`
	Comments    page[comment]     `json:"comments"`
	// AvailableIn is the team, queried for its workflow states.
	AvailableIn *struct {
		States nodes[named] `json:"states"`
	} `json:"availableIn,omitempty"`
	States    nodes[named] `json:"states"`
	Truncated bool         `json:"_truncated,omitempty"`
}

// named is an entity with an ID and whichever names its type has.
type named struct {
	ID          string `json:"id,omitempty"`
	Key         string `json:"key,omitempty"`
	Identifier  string `json:"identifier,omitempty"`
	Title       string `json:"title,omitempty"`
	Name        string `json:"name,omitempty"`
	DisplayName string `json:"displayName,omitempty"`
	Email       string `json:"email,omitempty"`
	Type        string `json:"type,omitempty"`
	App         bool   `json:"app,omitempty"` // an application user
}

type child struct {
	named
	State named `json:"state"`
}

type attachment struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

type comment struct {
	ID        string `json:"id"`
	Body      string `json:"body,omitempty"`
	CreatedAt string `json:"createdAt,omitempty"`
	URL       string `json:"url,omitempty"`
	User      *named `json:"user,omitempty"`
	Bot       *named `json:"botActor,omitempty"`
	Parent    *named `json:"parent,omitempty"`
	Issue     *named `json:"issue,omitempty"`
}

// nodes is a GraphQL connection, decoded to its list. Webhooks send a plain
// list.
type nodes[T any] []T

// UnmarshalJSON decodes a connection or a plain list.
func (l *nodes[T]) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]T)(l))
	}
	var p page[T]
	err := json.Unmarshal(data, &p)
	*l = p.Items
	return err
}

// page is a GraphQL connection with pagination.
type page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"` // null on the last page
}

// UnmarshalJSON decodes the nodes and the cursor of the next page.
func (p *page[T]) UnmarshalJSON(data []byte) error {
	var c struct {
		Nodes    []T
		PageInfo struct {
			HasNextPage bool
			EndCursor   *string
		}
	}
	err := json.Unmarshal(data, &c)
	p.Items = append([]T{}, c.Nodes...) // [] rather than null
	if c.PageInfo.HasNextPage {
		p.NextCursor = c.PageInfo.EndCursor
	}
	return err
}

// maxResult bounds the result of get_issue, in bytes.
const maxResult = 60 << 10

// fit encodes the issue in at most maxResult bytes and marks truncation. It
// shortens texts first and keeps every comment, because the page cursor cannot
// return them again. Only if that is not enough does it prune lists.
func (w fullIssue) fit() (text json.RawMessage, err error) {
	for room := 32 << 10; room >= 512; room /= 2 {
		if text, err = sources.Encode(w.within(room)); err != nil || len(text) <= maxResult {
			return text, err
		}
	}
	return redact.JSON{}.Prune(text, maxResult), nil
}

// within truncates the description to room characters, and other texts to a
// fraction of it.
func (w fullIssue) within(room int) fullIssue {
	cut := func(text string, limit int) string {
		out := sources.Shorten(text, limit)
		w.Truncated = w.Truncated || out != text
		return out
	}
	if w.Description != nil {
		text := cut(*w.Description, room)
		w.Description = &text
	}
	w.Comments.Items = slices.Clone(w.Comments.Items)
	for i := range w.Comments.Items {
		c := &w.Comments.Items[i]
		c.Body = cut(c.Body, room/4)
	}
	w.Attachments = slices.Clone(w.Attachments)
	for i := range w.Attachments {
		a := &w.Attachments[i]
		a.Title = cut(a.Title, room/8)
		if a.URL != cut(a.URL, 2000) { // a truncated URL would be wrong
			a.URL = ""
		}
	}
	return w
}
