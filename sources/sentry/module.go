// Package sentry implements the Sentry module, hosted or self-hosted: reading
// issues and events, and updating issues.
//
// Results are compact and bounded, with a marker (`_truncated`) where something
// is dropped. Frames, exceptions and breadcrumbs are newest first, so that
// truncation drops the oldest. Nothing is cached.
//
// Webhook headers are not signed, so the body must match the resource in the
// header. Keys of events derive from IDs in the body, or else from the whole
// body, because a retry can have another Request-ID; two identical updates of
// an issue are therefore one event. A delivery identifies the installation by
// its UUID and not the organization of an integration, so the secret that
// verifies selects the integration. Issue webhooks have no stack trace, so the
// module fetches that of the latest event. Variables, headers and users are
// dropped.
package sentry

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/url"
	"strconv"
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

// orgInfo is an organization in Sentry's responses.
type orgInfo struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

const orgNotFound = "Sentry's API is not at the base URL, or the credential does not see the organization of the settings; the base URL is the server's own, such as https://sentry.io, without /api/0."

// account returns the organization in the settings, or the only one that the
// credential can access.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	org, err := fetchOrganization(ctx, c)
	if err != nil {
		return sources.Account{}, err
	}
	if org.ID == "" || org.Slug == "" {
		return sources.Account{}, invalidResponse(c, nil)
	}
	// Self-hosted servers number organizations from 1.
	id, base := org.ID, c.HTTP.Base()
	if base.Hostname() != "sentry.io" && !strings.HasSuffix(base.Hostname(), ".sentry.io") {
		id = base.Host + strings.TrimSuffix(base.Path, "/") + "#" + id
	}
	encoded, err := sources.Encode(settings{Organization: org.Slug})
	return sources.Account{ID: id, Name: org.Name, Settings: encoded}, err
}

func fetchOrganization(ctx context.Context, c *sources.Conn) (org orgInfo, err error) {
	a := request{path: []string{"organizations"}, scope: "org:read", missing: orgNotFound}
	if slug := parseSettings(c.Settings).Organization; slug != "" {
		a.path, a.query = append(a.path, slug), url.Values{"detailed": {"0"}}
		_, err = send(ctx, c, a, &org)
		return org, err
	}
	var all []orgInfo
	if _, err = send(ctx, c, a, &all); err != nil {
		return org, err
	}
	switch len(all) {
	case 1:
		return all[0], nil
	case 0:
		return org, refuse("no_organization", "The credential reaches no organization; make one that has the scope org:read.")
	}
	var slugs []string
	for _, o := range all[:min(10, len(all))] {
		slugs = append(slugs, sources.Printable(o.Slug, 60))
	}
	return org, refuse("several_organizations", "The credential reaches several organizations ("+strings.Join(slugs, ", ")+"); name one as organization in the settings of the connection.")
}

// maxFormPages bounds the options in forms, in pages of 100.
const maxFormPages = 5

// metadata returns projects, environments and levels for forms. With the slug
// of a project, environments are those of the project.
func metadata(ctx context.Context, c *sources.Conn, q url.Values) (any, error) {
	org, err := organization(c, q.Get("organization"))
	if err != nil {
		return nil, err
	}
	missing := "There is no such organization or project that this connection sees; check the settings of the connection and the project."
	projects, err := listAll(ctx, c, request{path: []string{"organizations", org, "projects"}, scope: "project:read", missing: missing})
	if err != nil {
		return nil, err
	}
	a := request{path: []string{"organizations", org, "environments"}, scope: "project:read", missing: missing}
	if p := q.Get("project"); p != "" {
		a.path = []string{"projects", org, p, "environments"}
	}
	environments, err := listAll(ctx, c, a)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"projects": projects, "environments": environments,
		"levels": []string{"fatal", "error", "warning", "info", "debug"},
	}, nil
}

// listAll returns the ID, slug and name of each element of a list.
func listAll(ctx context.Context, c *sources.Conn, a request) ([]object, error) {
	all := []object{}
	a.query = url.Values{"per_page": {"100"}}
	for range maxFormPages {
		var page []object
		h, err := send(ctx, c, a, &page)
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			all = append(all, pick(o, "id", "slug", "name"))
		}
		cursor := nextCursor(h)
		if cursor == "" {
			break
		}
		a.query.Set("cursor", cursor)
	}
	return all, nil
}

// Properties shared by several actions.
const (
	propOrganization = `"organization_slug": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Slug of the Sentry organization. Needed only if the session has several Sentry connections."}`
	propIssue        = `"issue_id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$", "description": "Id of the issue, numeric (\"4711\") or short (\"WEB-1A\")."}`
	propEnvironment  = `"environment": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Only this environment, such as \"production\"."}`
	propPeriod       = `"statsPeriod": {"type": "string", "pattern": "^[1-9][0-9]{0,4}[mhdw]$", "description": "Only this period before now: a number and m, h, d or w, such as \"24h\" or \"14d\"."}`
	propLimit        = `"limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 25, "description": "Maximum number per page."}`
	propCursor       = `"cursor": {"type": "string", "minLength": 1, "maxLength": 200, "description": "next_cursor of the previous result, with the same filters."}`
)

// schema returns an object schema. The properties are JSON members.
func schema(required string, properties ...string) json.RawMessage {
	return json.RawMessage(`{"type": "object", "additionalProperties": false, "required": [` + required + `], "properties": {` + strings.Join(properties, ", ") + "}}")
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

// summary returns a function that formats the line an approver reads first: the
// action, the issue, and the listed params. External text is quoted, so that it
// cannot pass for the gateway's own.
func summary(verb string, names ...string) func(json.RawMessage) string {
	return func(params json.RawMessage) string {
		var t target
		var all map[string]json.RawMessage
		if json.Unmarshal(params, &all) != nil || json.Unmarshal(params, &t) != nil {
			return verb + " something at Sentry"
		}
		line := verb + " Sentry issues"
		if t.Issue != "" {
			line = verb + " Sentry issue " + quoteID(t.Issue)
		}
		if t.Organization != "" {
			line += " of " + quoteID(t.Organization)
		}
		var parts []string
		for _, name := range names {
			if v, ok := all[name]; ok {
				text := sources.Printable(string(v), 500)
				if s := ""; json.Unmarshal(v, &s) == nil {
					text = strconv.Quote(sources.Printable(s, 200))
				}
				parts = append(parts, name+" "+text)
			}
		}
		if len(parts) == 0 {
			return line
		}
		return line + ": " + strings.Join(parts, ", ")
	}
}

// quoteID returns an ID or a slug, quoted unless it has the form of one.
func quoteID(id string) string {
	if sources.ValidID(id) != id || strings.Contains(id, ":") {
		return strconv.Quote(sources.Printable(id, 200))
	}
	return id
}
