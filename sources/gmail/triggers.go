package gmail

import (
	"encoding/json"
	"slices"

	"sallyport/ingest/event"
	"sallyport/sources"
)

const messageEvent = "new_message"

// Triggers returns the trigger provider of Gmail, which supports polling only.
func Triggers() event.Provider {
	return event.Provider{
		ID:              "gmail",
		Title:           "Gmail",
		SupportsPolling: true,
		Types: []event.Type{{
			ID: messageEvent, Title: "New mail",
			Description: "Mail came into the mailbox. Without labels: all but spam, trash and what the mailbox itself sent.",
			Config: json.RawMessage(`{
				"type": "object",
				"additionalProperties": false,
				"properties": {
					"labels": {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^[A-Za-z0-9_^-]{1,100}$"}, "description": "Ids of labels, one of which the mail has: INBOX, IMPORTANT, STARRED, SENT, SPAM, CATEGORY_UPDATES, or that of a label of one's own, such as Label_12."}
				}
			}`),
			Matches: matches,
		}},
	}
}

func matches(e *event.Event, config json.RawMessage) bool {
	var f struct {
		Labels []string `json:"labels"`
	}
	var n eventContext
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &n) != nil {
		return false
	}
	if len(f.Labels) > 0 {
		return sources.MatchesFilter(f.Labels, n.Labels...)
	}
	has := func(label string) bool { return slices.Contains(n.Labels, label) }
	return !has("SPAM") && !has("TRASH") && (!has("SENT") || has("INBOX"))
}
