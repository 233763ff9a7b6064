package linear

import (
	"slices"
	"strings"

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
	BotActor    bot     `json:"botActor,omitzero"` // created it
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
	BotActor  bot             `json:"botActor,omitzero"` // wrote it
	Issue     *commentedIssue `json:"issue"`             // null: it is on something else
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

// bot tells whether there is one.
type bot bool

// UnmarshalJSON takes an object, or one in a string, as webhooks have it.
func (b *bot) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	*b = bot(!slices.Contains([]string{"", "{}", "null", "false"}, text))
	return nil
}

// byBot reports whether no person did it, as far as that is told: of changes only
// webhooks know who made them.
func (n news) byBot() bool {
	if n.Actor != nil && n.Actor.Type != "" && !strings.Contains(strings.ToLower(n.Actor.Type), "user") {
		return true // oauthClient, integration, or what comes to be besides
	}
	switch {
	case n.Action != created:
		return false
	case n.Issue != nil:
		return bool(n.Issue.BotActor) || n.Issue.Creator != nil && n.Issue.Creator.App
	}
	return n.Comment != nil && bool(n.Comment.BotActor)
}

// authors returns what filters may call those by who did it.
func (n news) authors() []string {
	names := n.Actor.called()
	if n.Comment != nil {
		names = append(names, n.Comment.User.called()...)
	}
	if n.Issue != nil && n.Action == created {
		names = append(names, n.Issue.Creator.called()...)
	}
	return names
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
	e.OccurredAt = sources.EventTime(changed)
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
