package linear

import (
	"encoding/json"
	"slices"
	"strings"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// Event types and actions.
const (
	issueEvent   = "issue"
	commentEvent = "comment"

	created = "created"
	updated = "updated"
)

// Triggers returns the trigger provider of Linear.
func Triggers() event.Provider {
	return event.Provider{
		ID:              "linear",
		Title:           "Linear",
		SupportsPolling: true,
		Types: []event.Type{
			{
				ID: issueEvent, Title: "Issue created or changed",
				Description: "An issue was created or changed. All filters that are set must fit; a filter fits when one of its entries does.",
				Config: json.RawMessage(`{
					"type": "object",
					"additionalProperties": false,
					"properties": {
						"actions": {"type": "array", "uniqueItems": true, "items": {"enum": ["created", "updated"]}, "description": "What happened to it; either when absent."},
						"teams": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 100}, "description": "Keys such as ENG, names or ids."},
						"states": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 100}, "description": "Names (In Progress), types (triage, backlog, unstarted, started, completed, canceled, duplicate) or ids."},
						"priorities": {"type": "array", "uniqueItems": true, "items": {"type": "integer", "minimum": 0, "maximum": 4}, "description": "0 none, 1 urgent, 2 high, 3 medium, 4 low."},
						"labels": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 100}, "description": "Names or ids; one of them is enough."},
						"assignees": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "Email addresses, names or ids; none for issues without assignee."},
						"projects": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "Names or ids."},
						"ignore_authors": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "Not what these did: email addresses, names or ids. Name here the user whose key agents act with, so that they do not start themselves. Polling knows only who created an issue, and not who changed one."},
						"bots": {"type": "boolean", "description": "Also what apps and integrations did, which is left out otherwise so that agents do not start themselves. Polling knows only of a new issue whether one created it."}
					}
				}`),
				Matches: matches,
			},
			{
				ID: commentEvent, Title: "Comment written or changed",
				Description: "Somebody commented on an issue, or changed a comment. Only webhooks tell of comments: an integration that is polled does not.",
				Config: json.RawMessage(`{
					"type": "object",
					"additionalProperties": false,
					"properties": {
						"actions": {"type": "array", "uniqueItems": true, "items": {"enum": ["created", "updated"]}, "description": "What happened to it; either when absent."},
						"teams": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 100}, "description": "Of the issue: keys such as ENG, names or ids."},
						"authors": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "Email addresses, names or ids."},
						"ignore_authors": {"type": "array", "maxItems": 100, "items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "Not what these did: email addresses, names or ids. Name here the user whose key agents act with, so that they do not start themselves."},
						"bots": {"type": "boolean", "description": "Also what apps and integrations did, which is left out otherwise so that agents do not start themselves."}
					}
				}`),
				Matches: matches,
			},
		},
		Secret:       "Linear makes the secret, and shows it as **Signing secret** when the webhook is made (**Settings › API › Webhooks**, with this URL): enter it here.",
		IssuesSecret: true, IdentifiesAccount: true,
		Webhook: &event.Webhook{Verify: verify, Tolerance: defaultTolerance, Parse: parse, IDHeader: "Linear-Delivery"},
	}
}

// filters is the config of a trigger. Each type uses a subset.
type filters struct {
	Actions    []string  `json:"actions"`
	Teams      []string  `json:"teams"`
	States     []string  `json:"states"`
	Priorities []float64 `json:"priorities"`
	Labels     []string  `json:"labels"`
	Assignees  []string  `json:"assignees"`
	Projects   []string  `json:"projects"`
	Authors    []string  `json:"authors"`
	Ignored    []string  `json:"ignore_authors"`
	Bots       bool      `json:"bots"`
}

func matches(e *event.Event, config json.RawMessage) bool {
	var f filters
	var n eventContext
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &n) != nil {
		return false
	}
	if n.byBot() && !f.Bots || len(f.Ignored) > 0 && sources.MatchesFilter(f.Ignored, n.authors()...) || !sources.MatchesFilter(f.Actions, n.Action) {
		return false
	}
	switch {
	case e.Type == issueEvent && n.Issue != nil:
		return f.matchesIssue(n.Issue)
	case e.Type == commentEvent && n.Comment != nil:
		var team *named
		if n.Comment.Issue != nil {
			team = n.Comment.Issue.Team
		}
		return sources.MatchesFilter(f.Teams, team.identifiers()...) && sources.MatchesFilter(f.Authors, n.Comment.User.identifiers()...)
	}
	return false
}

func (f filters) matchesIssue(i *changedIssue) bool {
	priority := len(f.Priorities) == 0 || slices.Contains(f.Priorities, i.Priority)
	assignee := i.Assignee.identifiers()
	if i.Assignee == nil {
		assignee = []string{"none"}
	}
	var labels []string
	for _, l := range i.Labels {
		labels = append(labels, l.identifiers()...)
	}
	return priority && sources.MatchesFilter(f.Teams, i.Team.identifiers()...) &&
		sources.MatchesFilter(f.States, append(i.State.identifiers(), i.State.Type)...) &&
		sources.MatchesFilter(f.Labels, labels...) && sources.MatchesFilter(f.Assignees, assignee...) &&
		sources.MatchesFilter(f.Projects, i.Project.identifiers()...)
}

// identifiers returns the values that filters match.
func (n *named) identifiers() []string {
	if n == nil {
		return nil
	}
	return []string{n.ID, n.Key, n.Name, n.DisplayName, n.Email}
}

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
