package sentry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"sallyport/action"
	"sallyport/sources"
)

func listIssueEvents() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "list_issue_events", Title: "List events of an issue", Risk: action.RiskRead, Idempotent: true,
		Description: "Lists the events of an issue, newest first, with their tags and without frames; get_event shows one in full.",
		Input: schema(`"issue_id"`, propIssue, propOrganization,
			`"query": {"type": "string", "maxLength": 2000, "description": "Sentry's event search, such as \"release:1.4.2 browser.name:Safari\"."}`,
			propPeriod, propEnvironment, propLimit, propCursor),
		Summarize: summary("List the events of", "query", "statsPeriod", "environment", "limit", "cursor"),
		Examples:  []sources.Example{{Note: "Events of one release", Params: json.RawMessage(`{"issue_id": "WEB-1A", "query": "release:1.4.2", "limit": 5}`)}},
		Run:       sources.Handler(runListIssueEvents),
	}
}

func runListIssueEvents(ctx context.Context, c *sources.Conn, p listParams) (json.RawMessage, error) {
	at, err := resolveIssue(ctx, c, p.target)
	if err != nil {
		return nil, err
	}
	return list(ctx, c, request{path: at.path("events"), query: p.values("per_page"), scope: "event:read", missing: at.missing()}, compactEvent)
}

func getEvent() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "get_event", Title: "Get an event", Risk: action.RiskRead, Idempotent: true,
		Description: "Reads one event of an issue: exceptions with their last frames, message, tags, breadcrumbs, request and contexts, the newest of each first.",
		Input: schema(`"issue_id", "event_id"`, propIssue,
			`"event_id": {"type": "string", "pattern": "^(latest|oldest|recommended|[0-9a-fA-F]{32})$", "description": "Id of the event (32 hexadecimal digits), or latest, oldest or recommended."}`,
			propOrganization, propEnvironment),
		Summarize: summary("Read an event of", "event_id", "environment"),
		Examples:  []sources.Example{{Note: "The latest event", Params: json.RawMessage(`{"issue_id": "WEB-1A", "event_id": "latest"}`)}},
		Run:       sources.Handler(runGetEvent),
	}
}

type eventParams struct {
	target
	Event       string `json:"event_id"`
	Environment string `json:"environment"`
}

func runGetEvent(ctx context.Context, c *sources.Conn, p eventParams) (json.RawMessage, error) {
	at, err := resolveIssue(ctx, c, p.target)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	setParam(q, "environment", p.Environment)
	missing := fmt.Sprintf("There is no event %q of the issue %q in the organization %q that this connection sees; list the issue's events to see their ids.", p.Event, at.requested, at.organization)
	var event object
	if _, err := send(ctx, c, request{path: at.path("events", p.Event), query: q, scope: "event:read", missing: missing}, &event); err != nil {
		return nil, err
	}
	s := &compactor{}
	return s.encode(s.fullEvent(event))
}

// compactEvent returns an event as in lists.
func compactEvent(in object) object {
	out := pick(in, "eventID", "title", "message", "location", "culprit", "platform", "dateCreated")
	putNonEmpty(out, "tags", tags(in["tags"]))
	putNonEmpty(out, "user", pick(asObject(in["user"]), "id", "username", "email"))
	return out
}

// tags converts a list of keys and values to an object.
func tags(v any) object {
	out := object{}
	list, _ := v.([]any)
	for _, t := range list {
		if key, ok := asObject(t)["key"].(string); ok {
			putNonEmpty(out, key, asObject(t)["value"])
		}
	}
	return out
}

// Limits of an event's lists.
const (
	maxExceptions  = 5
	maxFrames      = 25
	maxBreadcrumbs = 30
)

// fullEvent returns the result of get_event. Request headers and cookies are
// dropped, because they hold credentials.
func (s *compactor) fullEvent(in object) object {
	out := compactEvent(in)
	for name, v := range pick(in, "groupID", "type", "dist", "nextEventID", "previousEventID", "contexts", "context") {
		out[name] = v
	}
	putNonEmpty(out, "release", asObject(in["release"])["version"])
	putNonEmpty(out, "sdk", pick(asObject(in["sdk"]), "name", "version"))
	putNonEmpty(out, "problems", s.first(in["errors"], 10, func(e object) object { return pick(e, "type", "message") }))
	entries, _ := in["entries"].([]any)
	for _, e := range entries {
		s.addEntry(out, asObject(e))
	}
	return out
}

// addEntry adds one entry of an event.
func (s *compactor) addEntry(out, e object) {
	data := asObject(e["data"])
	switch e["type"] {
	case "exception":
		putNonEmpty(out, "exceptions", s.last(data["values"], maxExceptions, s.compactException))
	case "message":
		putNonEmpty(out, "message", data["formatted"])
	case "breadcrumbs":
		putNonEmpty(out, "breadcrumbs", s.last(data["values"], maxBreadcrumbs, func(b object) object {
			return pick(b, "timestamp", "type", "category", "level", "message", "data")
		}))
	case "request":
		putNonEmpty(out, "request", pick(data, "method", "url", "query", "fragment"))
	case "threads":
		var crashed []any
		threads, _ := data["values"].([]any)
		for _, t := range threads {
			if t := asObject(t); t["crashed"] == true {
				one := pick(t, "id", "name", "crashed")
				putNonEmpty(one, "frames", s.last(asObject(t["stacktrace"])["frames"], maxFrames, compactFrame))
				crashed = append(crashed, one)
			}
		}
		putNonEmpty(out, "threads", crashed)
	case "stacktrace":
		putNonEmpty(out, "frames", s.last(data["frames"], maxFrames, compactFrame))
	}
}

func (s *compactor) compactException(in object) object {
	out := pick(in, "type", "value", "module")
	putNonEmpty(out, "mechanism", pick(asObject(in["mechanism"]), "type", "handled"))
	putNonEmpty(out, "frames", s.last(asObject(in["stacktrace"])["frames"], maxFrames, compactFrame))
	return out
}

// compactFrame keeps source context only for application code.
func compactFrame(in object) object {
	out := pick(in, "filename", "module", "function", "lineNo", "colNo", "inApp")
	if in["inApp"] == true {
		putNonEmpty(out, "context", in["context"])
	}
	return out
}
