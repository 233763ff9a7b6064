package sentry

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
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
