package sentry

import (
	"encoding/json"

	"sallyport/sources"
)

// Properties shared by several actions.
const (
	propOrganization = `"organization_slug": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Slug of the Sentry organization. Leave it out: the connection knows its own. Needed only where several Sentry connections are bound."}`
	propIssue        = `"issue_id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$", "description": "Id of the issue, numeric (\"4711\") or short (\"WEB-1A\")."}`
	propEnvironment  = `"environment": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Only of this environment, such as \"production\"."}`
	propPeriod       = `"statsPeriod": {"type": "string", "pattern": "^[1-9][0-9]{0,4}[mhdw]$", "description": "Only of the time until now: a number and m, h, d or w, such as \"24h\" or \"14d\"."}`
	propLimit        = `"limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 25, "description": "How many at most on a page."}`
	propCursor       = `"cursor": {"type": "string", "minLength": 1, "maxLength": 200, "description": "next_cursor of the page before, with the same filters."}`
)

// schema returns an object schema. The properties are JSON members.
func schema(required string, properties ...string) json.RawMessage {
	text := `{"type": "object", "additionalProperties": false, "required": [` + required + `], "properties": {`
	for i, p := range properties {
		if i > 0 {
			text += ", "
		}
		text += p
	}
	return json.RawMessage(text + "}}")
}

// target is the issue or organization of a call.
type target struct {
	Organization string `json:"organization_slug"`
	Issue        string `json:"issue_id"`
}

// pageParams selects a page of a list.
type pageParams struct {
	Query       *string          `json:"query"`
	Environment string           `json:"environment"`
	Period      string           `json:"statsPeriod"`
	Limit       *sources.Integer `json:"limit"`
	Cursor      string           `json:"cursor"`
}
