package linear

import (
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// news is the context of an event, the same however it was heard of.
type news struct {
	Action  string          `json:"action"` // created or updated
	Issue   *changedIssue   `json:"issue,omitempty"`
	Comment *changedComment `json:"comment,omitempty"`
	Actor   *named          `json:"actor,omitempty"`   // polls do not know who it was
	Changed []string        `json:"changed,omitempty"` // names of fields; polls do not know them
}

type changedIssue struct {
	issue
	Description *string `json:"description,omitempty"`
	ArchivedAt  *string `json:"archivedAt,omitempty"`
	Creator     *named  `json:"creator,omitempty"`
	// TeamID is there beside a team that may be missing, in webhooks.
	TeamID string `json:"teamId,omitempty"`
}

type changedComment struct {
	ID        string          `json:"id"`
	Body      string          `json:"body"`
	URL       string          `json:"url,omitempty"`
	CreatedAt string          `json:"createdAt"`
	UpdatedAt string          `json:"updatedAt"`
	User      *named          `json:"user"`
	Issue     *commentedIssue `json:"issue"` // null: it is on something else
}

type commentedIssue struct {
	ID         string `json:"id"`
	Identifier string `json:"identifier"`
	Title      string `json:"title"`
	URL        string `json:"url,omitempty"`
	Team       *named `json:"team"`
}

func (i *commentedIssue) team() *named {
	if i == nil {
		return nil
	}
	return i.Team
}

// titleLength bounds the title of an event, in characters.
const titleLength = 200

// event tells of a change that was heard of under the key, natively so called.
func (n news) event(key, native string) event.Event {
	e := event.Event{Provider: "linear", Native: native, Key: key, Context: sources.EventContext(n)}
	born, changed := "", ""
	switch {
	case n.Issue != nil:
		e.Type, e.URL = issueEvent, link(n.Issue.URL)
		e.Title = n.Issue.Identifier + ": " + n.Issue.Title
		born, changed = n.Issue.CreatedAt, n.Issue.UpdatedAt
	case n.Comment != nil:
		e.Type, e.URL = commentEvent, link(n.Comment.URL)
		e.Title = "Comment: " + n.Comment.Body
		if n.Comment.Issue != nil {
			e.Title = "Comment on " + n.Comment.Issue.Identifier + ": " + n.Comment.Body
		}
		born, changed = n.Comment.CreatedAt, n.Comment.UpdatedAt
	}
	if n.Action == created {
		changed = born
	}
	e.OccurredAt, _ = time.Parse(time.RFC3339, changed) // or it is not known
	e.Title = sources.Printable(e.Title, titleLength)
	return e
}

// link returns the URL if it leads to Linear; any other is nothing to offer.
func link(url string) string {
	if !strings.HasPrefix(url, "https://linear.app/") {
		return ""
	}
	return sources.Printable(url, 1000)
}
