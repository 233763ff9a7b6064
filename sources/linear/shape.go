package linear

import (
	"bytes"
	"encoding/json"
)

// The shapes in which agents get what Linear answers: lists are lists, and
// pages have the cursor of the next one.

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

// whole is an issue with all that get_issue tells of it.
type whole struct {
	issue
	Description *string           `json:"description"`
	Branch      string            `json:"branchName,omitempty"`
	ArchivedAt  *string           `json:"archivedAt,omitempty"`
	Creator     *named            `json:"creator"`
	Parent      *named            `json:"parent"`
	Children    nodes[child]      `json:"children"`
	Attachments nodes[attachment] `json:"attachments"`
	Comments    page[comment]     `json:"comments"`
	// AvailableIn is the team again, for the states that the issue may be in.
	AvailableIn *struct {
		States nodes[named] `json:"states"`
	} `json:"availableIn,omitempty"`
	States    nodes[named] `json:"states"`
	Truncated bool         `json:"_truncated,omitempty"`
}

// named is anything that has an id and names, as far as it has them.
type named struct {
	ID          string `json:"id,omitempty"`
	Key         string `json:"key,omitempty"`
	Identifier  string `json:"identifier,omitempty"`
	Title       string `json:"title,omitempty"`
	Name        string `json:"name,omitempty"`
	DisplayName string `json:"displayName,omitempty"`
	Email       string `json:"email,omitempty"`
	Type        string `json:"type,omitempty"`
	App         bool   `json:"app,omitempty"` // a user that is none
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

// nodes is a connection of GraphQL, read as the list that it holds. Webhooks
// have the list itself.
type nodes[T any] []T

// UnmarshalJSON takes the nodes.
func (l *nodes[T]) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]T)(l))
	}
	var p page[T]
	err := json.Unmarshal(data, &p)
	*l = p.Items
	return err
}

// page is a connection of GraphQL of which there may be more.
type page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"` // null: this was all
}

// UnmarshalJSON takes the nodes and where they go on.
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
