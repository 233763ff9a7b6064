package sentry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// Triggers returns the trigger provider of Sentry: issues, errors and alerts.
func Triggers() event.Provider {
	return event.Provider{
		ID: "sentry", Title: "Sentry",
		Types: []event.Type{
			trigger("event_alert", "Alert", "A rule of Sentry's whose action is the integration was met by an event.", filterProjects, filterEnvironments, filterLevel),
			trigger("issue", "Issue", "An issue was created, resolved, assigned, archived or opened again. With a connection to Sentry, it comes with the trace of its latest event.", filterActions, filterProjects, filterLevel, filterActors, filterBots),
			trigger("error", "Error", "An error came in, each single one.", filterProjects, filterEnvironments, filterLevel),
		},
		Secret:       "Sentry makes the secret: enter the **Client Secret** of an internal integration (**Settings › Custom Integrations**) that has this URL as its webhook URL.",
		IssuesSecret: true,
		Webhook:      &event.Webhook{Verify: verify, Parse: parse, IDHeader: "Request-ID"},
	}
}

func trigger(id, title, description string, filters ...string) event.Type {
	return event.Type{ID: id, Title: title, Description: description, Config: schema("", filters...), Matches: matches}
}

// Properties of the filter schemas.
const (
	filterActions      = `"actions": {"type": "array", "maxItems": 10, "uniqueItems": true, "title": "Actions", "items": {"enum": ["created", "resolved", "assigned", "archived", "ignored", "unresolved"]}, "description": "What was done; older servers say ignored for archived. None: any."}`
	filterProjects     = `"projects": {"type": "array", "maxItems": 200, "title": "Projects", "items": {"type": "string", "minLength": 1, "maxLength": 100}, "description": "Slugs or numeric ids. None: any."}`
	filterEnvironments = `"environments": {"type": "array", "maxItems": 100, "title": "Environments", "items": {"type": "string", "minLength": 1, "maxLength": 100}, "description": "Such as production. None: any, and events without one."}`
	filterActors       = `"ignore_actors": {"type": "array", "maxItems": 100, "title": "Ignored actors", "items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": "Not what these did: names or ids. Name here the user whose token agents act with, so that they do not start themselves."}`
	filterBots         = `"bots": {"type": "boolean", "title": "Bots", "description": "Also what integrations did, which is left out otherwise so that agents do not start themselves. What Sentry itself did always counts."}`
	filterLevel        = `"minimum_level": {"enum": ["debug", "info", "warning", "error", "fatal"], "title": "Minimum level", "description": "That level and those above it. Left out: any."}`
)

// filters is the config of a trigger. An empty list matches everything.
type filters struct {
	Actions      []string `json:"actions"`
	Projects     []string `json:"projects"`
	Environments []string `json:"environments"`
	Level        string   `json:"minimum_level"`
	Ignored      []string `json:"ignore_actors"`
	Bots         bool     `json:"bots"`
}

// filterInput is the part of an event's context that filters read.
type filterInput struct {
	Action string `json:"action"`
	Actor  struct {
		Type string `json:"type"` // user, application
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"actor"`
	Project struct {
		ID   string `json:"id"`
		Slug string `json:"slug"`
	} `json:"project"`
	Environment string `json:"environment"`
	Level       string `json:"level"`
}

// matches reports whether an event passes the filters. Invalid configs or
// contexts never match, so a filter cannot be bypassed.
func matches(e *event.Event, config json.RawMessage) bool {
	var f filters
	var in filterInput
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &in) != nil {
		return false
	}
	bot := e.Type == "issue" && in.Actor.Type == "application" && in.Actor.ID != "sentry"
	if bot && !f.Bots || len(f.Ignored) > 0 && sources.MatchesFilter(f.Ignored, in.Actor.ID, in.Actor.Name) {
		return false
	}
	levels := []string{"debug", "info", "warning", "error", "fatal"}
	least := slices.Index(levels, f.Level)
	return (len(f.Actions) == 0 || slices.Contains(f.Actions, in.Action)) &&
		(len(f.Environments) == 0 || slices.Contains(f.Environments, in.Environment)) &&
		(len(f.Projects) == 0 || slices.ContainsFunc(f.Projects, func(p string) bool {
			return p == in.Project.ID || strings.EqualFold(p, in.Project.Slug)
		})) &&
		(f.Level == "" || least >= 0 && slices.Index(levels, in.Level) >= least)
}

// verify accepts the signature in either of Sentry's two headers. The timestamp
// is not signed, so deliveries never expire.
func verify(d *event.Delivery, secrets [][]byte, _ time.Time, _ time.Duration) error {
	given := slices.Concat(d.Header.Values("Sentry-Hook-Signature"), d.Header.Values("Sentry-App-Signature"))
	if len(given) != 1 {
		return event.ErrSignature
	}
	return event.VerifyHex(given[0], "", secrets, d.Body)
}

// parse reads a delivery. Headers are not signed, so the body must match the
// resource in the header. The account is the UUID of the installation, which an
// integration does not know.
func parse(d *event.Delivery) (p event.Parsed, err error) {
	id, _ := event.Header(d.Header, "Request-ID")
	p.ID = sources.ValidID(id)
	if len(d.Body) == 0 { // valid signature, no content
		return p, nil
	}
	var body object
	if err = jsonlex.Document(d.Body); err == nil {
		err = decode(d.Body, &body)
	}
	if err != nil {
		return event.Parsed{}, fmt.Errorf("sentry: the delivery's body: %w", err)
	}
	p.Account = installationID(body)
	resource, ok := event.Header(d.Header, "Sentry-Hook-Resource")
	if !ok {
		return event.Parsed{}, errors.New("sentry: the delivery needs one header Sentry-Hook-Resource")
	}
	if resource == "installation" {
		if about := str(asObject(asObject(body["data"])["installation"])["uuid"]); about == "" || about != p.Account {
			return p, errors.New("sentry: the delivery is not about its installation, as its header says")
		}
		p.Lifecycle = map[string]event.Lifecycle{"created": event.Installed, "deleted": event.Uninstalled}[str(body["action"])]
		return p, nil
	}
	e, err := parseEvent(resource, body)
	if e != nil {
		// Updates of issues carry no time, so identical deliveries can be distinct.
		if p.Signed = e.Key != ""; !p.Signed {
			e.Key = p.ID
		}
		p.Events = []event.Event{*e}
	}
	return p, err
}

// installationID returns the UUID of the installation, or "".
func installationID(body object) string {
	return sources.ValidID(str(asObject(body["installation"])["uuid"]))
}
