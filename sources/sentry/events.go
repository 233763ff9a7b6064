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
		Run:       runListIssueEvents,
	}
}

func runListIssueEvents(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		target
		page
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	at, err := find(ctx, c, p.target)
	if err != nil {
		return nil, err
	}
	return list(ctx, c, ask{path: at.path("events"), query: p.values("per_page"), scope: "event:read", missing: at.missing()}, compactEvent)
}

func getEvent() sources.ModuleAction {
	return sources.ModuleAction{
		Name: "get_event", Title: "Get an event", Risk: action.RiskRead, Idempotent: true,
		Description: "Reads one event of an issue: exceptions with their last frames, message, tags, breadcrumbs, request and contexts, the newest of each first.",
		Input: schema(`"issue_id", "event_id"`, propIssue,
			`"event_id": {"type": "string", "pattern": "^(latest|oldest|recommended|[0-9a-fA-F]{32})$", "description": "Id of the event (32 hexadecimal digits), or latest, oldest or recommended."}`,
			propOrganization, propEnvironment),
		Summarize: summary("Read an event of", "event_id", "environment"),
		Examples:  []sources.Example{{Note: "Where it fails now", Params: json.RawMessage(`{"issue_id": "WEB-1A", "event_id": "latest"}`)}},
		Run:       runGetEvent,
	}
}

func runGetEvent(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		target
		Event       string `json:"event_id"`
		Environment string `json:"environment"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	at, err := find(ctx, c, p.target)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	set(q, "environment", p.Environment)
	missing := fmt.Sprintf("There is no event %q of the issue %q in the organization %q that this connection sees; list the issue's events to see their ids.", p.Event, at.named, at.organization)
	var event object
	if _, err := send(ctx, c, ask{path: at.path("events", p.Event), query: q, scope: "event:read", missing: missing}, &event); err != nil {
		return nil, err
	}
	s := &shortened{}
	return s.json(s.wholeEvent(event))
}

// compactEvent is what a list shows of an event.
func compactEvent(in object) object {
	out := pick(in, "eventID", "title", "message", "location", "culprit", "platform", "dateCreated")
	put(out, "tags", tags(in["tags"]))
	put(out, "user", pick(as(in["user"]), "id", "username", "email"))
	return out
}

// tags makes an object of a list of keys and values.
func tags(v any) object {
	out := object{}
	list, _ := v.([]any)
	for _, t := range list {
		if key, ok := as(t)["key"].(string); ok {
			put(out, key, as(t)["value"])
		}
	}
	return out
}

// How much of an event is kept.
const (
	maxExceptions  = 5
	maxFrames      = 25
	maxBreadcrumbs = 30
)

// wholeEvent is what there is to know of one event. Of its request, headers and
// cookies are left out: they hold credentials of strangers.
func (s *shortened) wholeEvent(in object) object {
	out := compactEvent(in)
	for name, v := range pick(in, "groupID", "type", "dist", "nextEventID", "previousEventID", "contexts", "context") {
		out[name] = v
	}
	put(out, "release", as(in["release"])["version"])
	put(out, "sdk", pick(as(in["sdk"]), "name", "version"))
	put(out, "problems", s.first(in["errors"], 10, func(e object) object { return pick(e, "type", "message") }))
	entries, _ := in["entries"].([]any)
	for _, e := range entries {
		s.entry(out, as(e))
	}
	return out
}

// entry adds one part of an event.
func (s *shortened) entry(out, e object) {
	data := as(e["data"])
	switch e["type"] {
	case "exception":
		put(out, "exceptions", s.last(data["values"], maxExceptions, s.exception))
	case "message":
		put(out, "message", data["formatted"])
	case "breadcrumbs":
		put(out, "breadcrumbs", s.last(data["values"], maxBreadcrumbs, func(b object) object {
			return pick(b, "timestamp", "type", "category", "level", "message", "data")
		}))
	case "request":
		put(out, "request", pick(data, "method", "url", "query", "fragment"))
	case "threads":
		put(out, "threads", s.crashed(data["values"]))
	case "stacktrace":
		put(out, "frames", s.last(data["frames"], maxFrames, frame))
	}
}

func (s *shortened) exception(in object) object {
	out := pick(in, "type", "value", "module")
	put(out, "mechanism", pick(as(in["mechanism"]), "type", "handled"))
	put(out, "frames", s.last(as(in["stacktrace"])["frames"], maxFrames, frame))
	return out
}

// crashed returns the threads that failed; the others only wait.
func (s *shortened) crashed(v any) (out []any) {
	list, _ := v.([]any)
	for _, t := range list {
		t := as(t)
		if t["crashed"] != true {
			continue
		}
		one := pick(t, "id", "name", "crashed")
		put(one, "frames", s.last(as(t["stacktrace"])["frames"], maxFrames, frame))
		out = append(out, one)
	}
	return out
}

// frame keeps the lines around only where they are the program's own: those of
// libraries can be had elsewhere.
func frame(in object) object {
	out := pick(in, "filename", "module", "function", "lineNo", "colNo", "inApp")
	if in["inApp"] == true {
		put(out, "context", in["context"])
	}
	return out
}
