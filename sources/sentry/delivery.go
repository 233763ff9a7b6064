package sentry

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sallyport/ingest/event"
	"sallyport/sources"
)

// parseEvent converts a delivery to an event, or nil if no trigger handles it.
func parseEvent(resource string, body object) (*event.Event, error) {
	data, action := asObject(body["data"]), str(body["action"])
	resources := map[string]struct {
		member  string // of data
		actions []string
		tell    func(e *event.Event, about, data object) object
	}{
		"event_alert": {"event", []string{"triggered"}, errorContext},
		"error":       {"error", []string{"created"}, errorContext},
		"issue":       {"issue", []string{"created", "resolved", "assigned", "archived", "ignored", "unresolved"}, issueContext},
	}
	r, known := resources[resource]
	if !known || !slices.Contains(r.actions, action) {
		return nil, nil
	}
	about := asObject(data[r.member])
	if about == nil {
		return nil, fmt.Errorf("sentry: the delivery has no data.%s, as its header says", r.member)
	}
	e := &event.Event{Provider: "sentry", Type: resource, Native: resource + ":" + action}
	context := r.tell(e, about, data)
	context["action"] = action
	putNonEmpty(context, "installation", installationID(body))
	by := asObject(body["actor"])
	putNonEmpty(context, "actor", pick(object{"type": str(by["type"]), "id": str(by["id"]), "name": str(by["name"])}, "type", "id", "name"))
	e.Title = str(about["title"])
	if slug := str(asObject(context["project"])["slug"]); slug != "" {
		e.Title = slug + ": " + e.Title
	}
	e.Title = sources.Printable(e.Title, 300)
	var err error
	if e.Context, err = (&compactor{}).encode(context); err != nil {
		return nil, fmt.Errorf("sentry: the delivery: %w", err)
	}
	return e, nil
}

// issueContext returns the context of an issue event. The payload has the time
// of creation, but not of other changes.
func issueContext(e *event.Event, issue, data object) object {
	out := object{"issue": compactIssue(issue)}
	org, _ := slugsFromURL(str(issue["project_url"]))
	putNonEmpty(out, "organization", org)
	in := asObject(issue["project"])
	putNonEmpty(out, "project", pick(object{"id": str(in["id"]), "slug": str(in["slug"]), "name": str(in["name"])}, "id", "slug", "name"))
	putNonEmpty(out, "level", str(issue["level"]))
	putNonEmpty(out, "assignee", pick(asObject(data["assignee"]), "type", "id", "name"))
	putNonEmpty(out, "resolution_type", data["resolution_type"])
	if e.Native == "issue:created" {
		e.OccurredAt = sources.EventTime(str(issue["firstSeen"]))
		e.Key = key("issue:created", str(issue["id"]), str(issue["firstSeen"]))
	}
	e.URL = firstURL(issue["web_url"], issue["permalink"])
	return out
}

// errorContext returns the context of an error or an alert. The key derives
// from signed data.
func errorContext(e *event.Event, in, data object) object {
	org, slug := slugsFromURL(str(in["url"]))
	labels := tagPairs(in["tags"])
	out := object{"event": compactWebhookEvent(in, labels)}
	putNonEmpty(out, "organization", org)
	putNonEmpty(out, "project", pick(object{"id": str(in["project"]), "slug": slug}, "id", "slug"))
	putNonEmpty(out, "environment", firstString(in["environment"], labels["environment"]))
	putNonEmpty(out, "level", firstString(in["level"], labels["level"]))
	putNonEmpty(out, "rule", str(data["triggered_rule"]))
	putNonEmpty(out, "issue", pick(object{"id": str(in["issue_id"])}, "id"))
	addTrace(out, in, webhookFrame)
	e.OccurredAt = sources.EventTime(str(in["datetime"]))
	if id := str(in["event_id"]); id != "" {
		e.Key = key(e.Type, str(in["project"]), id, str(data["triggered_rule"]))
	}
	e.URL = firstURL(in["web_url"])
	return out
}

// key returns a key of fixed length.
func key(kind string, parts ...string) string {
	text, _ := json.Marshal(parts)
	return fmt.Sprintf("%s:%x", kind, sha256.Sum256(text))
}

// str returns a string or a number as a string, or "".
func str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// firstString returns the first non-empty string.
func firstString(values ...any) string {
	for _, v := range values {
		if s := str(v); s != "" {
			return s
		}
	}
	return ""
}

// slugsFromURL extracts the slugs from an API URL, the only place in the
// payload that has them. The URL is never requested.
func slugsFromURL(text string) (organization, project string) {
	_, path, _ := strings.Cut(text, "/api/0/projects/")
	parts := strings.Split(path, "/")
	if len(parts) < 3 {
		return "", ""
	}
	return parts[0], parts[1]
}

// firstURL returns the first URL that is safe to link to, or "".
func firstURL(values ...any) string {
	for _, v := range values {
		if link := sources.WebURL(str(v)); link != "" {
			return link
		}
	}
	return ""
}

// Limits of a webhook event's lists.
const (
	maxWebhookExceptions = 3
	maxWebhookFrames     = 10
)

// compactWebhookEvent compacts an event of a webhook, whose form differs from
// the API's. Request data, variables and the user are dropped, because they
// hold personal data and credentials.
func compactWebhookEvent(in object, labels object) object {
	out := pick(in, "event_id", "title", "message", "type", "culprit", "location", "platform", "logger", "datetime", "release", "dist", "transaction")
	putNonEmpty(out, "tags", labels)
	return out
}

// tagPairs converts a list of [key, value] pairs to an object.
func tagPairs(v any) object {
	out := object{}
	list, _ := v.([]any)
	for _, t := range list {
		if pair, _ := t.([]any); len(pair) == 2 {
			if name, ok := pair[0].(string); ok {
				putNonEmpty(out, name, pair[1])
			}
		}
	}
	for name, value := range tags(v) {
		out[name] = value
	}
	return out
}

// addTrace adds exceptions, frames and application files, newest first.
func addTrace(out, in object, frame func(object) object) {
	s := &compactor{}
	exceptions := asObject(in["exception"])["values"]
	putNonEmpty(out, "exceptions", s.last(exceptions, maxWebhookExceptions, func(x object) object {
		o := pick(x, "type", "value", "module")
		putNonEmpty(o, "mechanism", pick(asObject(x["mechanism"]), "type", "handled"))
		return o
	}))
	frames := s.last(crashFrames(in, exceptions), maxWebhookFrames, frame)
	putNonEmpty(out, "frames", frames)
	var files []any // of the application
	for _, f := range frames {
		if name := str(asObject(f)["filename"]); asObject(f)["in_app"] == true && name != "" && !slices.Contains(files, any(name)) {
			files = append(files, name)
		}
	}
	putNonEmpty(out, "files", files)
	if s.cut {
		out["_truncated"] = true
	}
}

// crashFrames returns the frames of the failure: of the last exception with
// frames, the event itself, or the crashed thread.
func crashFrames(in object, exceptions any) any {
	list, _ := exceptions.([]any)
	for _, x := range slices.Backward(list) {
		if frames, _ := asObject(asObject(x)["stacktrace"])["frames"].([]any); len(frames) > 0 {
			return frames
		}
	}
	if frames, _ := asObject(in["stacktrace"])["frames"].([]any); len(frames) > 0 {
		return frames
	}
	threads, _ := asObject(in["threads"])["values"].([]any)
	for _, t := range threads {
		if asObject(t)["crashed"] == true {
			return asObject(asObject(t)["stacktrace"])["frames"]
		}
	}
	return nil
}

// webhookFrame keeps the source line only for application code, as
// [compactFrame] does.
func webhookFrame(in object) object {
	out := pick(in, "filename", "module", "function", "lineno", "colno", "in_app")
	if in["in_app"] == true {
		putNonEmpty(out, "context_line", in["context_line"])
	}
	return out
}

// hydrate adds the latest event and its stack trace to an issue event, which
// alerts have already. It leaves issues of another organization, and deleted
// ones, unchanged.
func hydrate(ctx context.Context, c *sources.Conn, e *event.Event) (changed bool, err error) {
	var known object
	at := issueRef{organization: parseSettings(c.Settings).Organization}
	if e.Type != "issue" || at.organization == "" || decode(e.Context, &known) != nil || known["event"] != nil {
		return false, nil
	}
	at.id = str(asObject(known["issue"])["id"])
	if org := str(known["organization"]); org != "" && !strings.EqualFold(org, at.organization) || at.id == "" || strings.Trim(at.id, "0123456789") != "" {
		return false, nil
	}
	var latest object
	_, err = send(ctx, c, request{path: at.path("events", "latest"), scope: "event:read", missing: at.missing()}, &latest)
	if refusal := new(sources.Refusal); errors.As(err, &refusal) && refusal.Status == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	enriched, err := addEvent(known, webhookForm(latest))
	if changed = err == nil; changed { // an error means that it is too large
		e.Context = enriched
	}
	return changed, nil
}

// addEvent returns the context of an issue with the event added.
func addEvent(known, in object) (json.RawMessage, error) {
	labels := tagPairs(in["tags"])
	putNonEmpty(known, "event", compactWebhookEvent(in, labels))
	putNonEmpty(known, "environment", labels["environment"])
	addTrace(known, in, apiFrame)
	return (&compactor{}).encode(known)
}

// webhookForm converts an event from the API to the form of webhooks, except
// for its frames.
func webhookForm(in object) object {
	out := pick(in, "title", "message", "type", "culprit", "location", "platform", "dist", "tags")
	putNonEmpty(out, "event_id", in["eventID"])
	putNonEmpty(out, "datetime", in["dateCreated"])
	putNonEmpty(out, "release", asObject(in["release"])["version"])
	entries, _ := in["entries"].([]any)
	for _, e := range entries {
		switch kind := str(asObject(e)["type"]); kind {
		case "exception", "threads", "stacktrace":
			putNonEmpty(out, kind, asObject(e)["data"])
		case "message":
			putNonEmpty(out, "message", asObject(asObject(e)["data"])["formatted"])
		}
	}
	return out
}

// apiFrame is [webhookFrame] for frames from the API.
func apiFrame(in object) object {
	one := pick(in, "filename", "module", "function")
	putNonEmpty(one, "lineno", in["lineNo"])
	putNonEmpty(one, "colno", in["colNo"])
	putNonEmpty(one, "in_app", in["inApp"])
	around, _ := in["context"].([]any)
	for _, line := range around {
		if pair, _ := line.([]any); len(pair) == 2 && str(pair[0]) == str(in["lineNo"]) && in["inApp"] == true {
			putNonEmpty(one, "context_line", pair[1])
		}
	}
	return one
}
