package sentry

import (
	_ "embed"
	"encoding/json"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

//go:embed guide.md
var guide string

// Module returns the Sentry module.
func Module() *sources.Module {
	scopes := []string{"org:read", "project:read", "event:read", "event:write"}
	return &sources.Module{
		ID:        "sentry",
		Workspace: true,
		Title:     "Sentry",
		About:     "Reads issues and events of Sentry, hosted or your own, and changes issues.",
		Guide:     guide,
		BaseURL:   "https://sentry.io",
		Needs: []sources.Need{
			{
				Kind: action.KindOAuth2, Users: true, Preset: "sentry", Scopes: scopes,
				Hint: "Sign in to Sentry and allow the gateway to read and change issues.",
			},
			{
				Kind: action.KindAPIKey, Users: true, Scopes: scopes,
				Hint: "An auth token: of an internal integration (Settings, Custom Integrations), or your own (User settings, Personal tokens).",
			},
		},
		Settings: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "organization": {
      "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$", "title": "Organization",
      "description": "Slug of the Sentry organization; needed where the credential reaches several."
    }
  }
}`),
		Actions:  []sources.ModuleAction{listIssues(), getIssue(), listIssueEvents(), getEvent(), updateIssue()},
		Account:  account,
		Metadata: metadata,
		Hydrate:  hydrate,
		Choose:   choose,
	}
}

// settings holds the settings of an integration.
type settings struct {
	Organization string `json:"organization"`
}

func parseSettings(raw json.RawMessage) (s settings) {
	_ = json.Unmarshal(raw, &s) // validated by the schema, or absent
	return s
}

// choose returns the integration for the organization in the params.
func choose(params json.RawMessage, among []action.Integration) int {
	var p target
	if json.Unmarshal(params, &p) != nil || p.Organization == "" {
		return -1
	}
	found := -1
	for i := range among {
		switch {
		case !strings.EqualFold(parseSettings(among[i].Settings).Organization, p.Organization):
		case found >= 0:
			return -1
		default:
			found = i
		}
	}
	return found
}

// organization returns the slug to use. A connection is limited to one
// organization, even if its credential can access more.
func organization(c *sources.Conn, named string) (string, error) {
	own := parseSettings(c.Settings).Organization
	switch {
	case own == "" && named == "":
		return "", refuse("organization_required", "Name the organization in organization_slug; this connection does not know its own.")
	case own != "" && named != "" && !strings.EqualFold(own, named):
		return "", refuse("other_organization", "This connection is for the organization "+own+"; leave organization_slug out, or name that.")
	case own != "":
		return own, nil
	}
	return named, nil
}

// refuse returns a refusal without a request to Sentry.
func refuse(code, message string) error { return &sources.Refusal{Code: code, Message: message} }
