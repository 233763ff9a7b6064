package action

import "encoding/json"

// About is what a source says of itself to agents. It is shared between its
// actions: treat it as read-only.
type About struct {
	Title string // of the service; may be empty
	Text  string // one sentence; may be empty
	Guide string // what to know before the first call; Markdown; may be empty
	// Foreign tells that Text and Guide are a server's own words, and no ones of
	// the gateway.
	Foreign bool
}

// Example is a call of an action that makes sense.
type Example struct {
	Note   string
	Params json.RawMessage // they fit the action's schema
}
