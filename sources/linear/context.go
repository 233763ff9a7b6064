package linear

import (
	"slices"
	"strings"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// eventContext is the context of an event, the same for webhooks and polls.
type eventContext struct {
	Action  string          `json:"action"` // created or updated
	Issue   *changedIssue   `json:"issue,omitempty"`
	Comment *changedComment `json:"comment,omitempty"`
	Actor   *named          `json:"actor,omitempty"`   // unknown when polling
	Changed []string        `json:"changed,omitempty"` // field names; unknown when polling
}

type changedIssue struct {
	issue
	Description *string `json:"description,omitempty"`
	ArchivedAt  *string `json:"archivedAt,omitempty"`
	Creator     *named  `json:"creator,omitempty"`
	BotActor    isSet   `json:"botActor,omitzero"` // the creator is a bot
	// TeamID is set in webhooks, where Team may be missing.
	TeamID string `json:"teamId,omitempty"`
}

type changedComment struct {
	ID        string          `json:"id"`
	Body      string          `json:"body"`
	URL       string          `json:"url,omitempty"`
	CreatedAt string          `json:"createdAt"`
	UpdatedAt string          `json:"updatedAt"`
	User      *named          `json:"user"`
	BotActor  isSet           `json:"botActor,omitzero"` // the author is a bot
	Issue     *commentedIssue `json:"issue"`             // null for comments on other objects
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

// isSet reports whether an optional object is present.
type isSet bool

// UnmarshalJSON accepts an object, or an object encoded in a string as in
// webhooks.
func (b *isSet) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	*b = isSet(!slices.Contains([]string{"", "{}", "null", "false"}, text))
	return nil
}

// byBot reports whether the actor is known not to be a person. Only webhooks
// identify the actor of an update.
func (n eventContext) byBot() bool {
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

// authors returns the identifiers that author filters match.
func (n eventContext) authors() []string {
	names := n.Actor.identifiers()
	if n.Comment != nil {
		names = append(names, n.Comment.User.identifiers()...)
	}
	if n.Issue != nil && n.Action == created {
		names = append(names, n.Issue.Creator.identifiers()...)
	}
	return names
}

// titleLength bounds an event title, in characters.
const titleLength = 200

// event converts the context to an event with that key and native type.
func (n eventContext) event(key, native string) event.Event {
	e := event.Event{Provider: "linear", Native: native, Key: key, Context: sources.EventContext(n)}
	born, changed := "", ""
	switch {
	case n.Issue != nil:
		e.Type, e.URL = issueEvent, linearURL(n.Issue.URL)
		e.Title = n.Issue.Identifier + ": " + n.Issue.Title
		born, changed = n.Issue.CreatedAt, n.Issue.UpdatedAt
	case n.Comment != nil:
		e.Type, e.URL = commentEvent, linearURL(n.Comment.URL)
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

// linearURL returns the URL if it points to Linear, and otherwise "".
func linearURL(url string) string {
	if !strings.HasPrefix(url, "https://linear.app/") {
		return ""
	}
	return sources.Printable(url, 1000)
}
