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

// happened reads what a delivery is about; nil: there is no trigger for it.
func happened(resource string, body object) (*event.Event, error) {
	data, action := as(body["data"]), str(body["action"])
	resources := map[string]struct {
		member  string // of data
		actions []string
		tell    func(e *event.Event, about, data object) object
	}{
		"event_alert": {"event", []string{"triggered"}, occurred},
		"error":       {"error", []string{"created"}, occurred},
		"issue":       {"issue", []string{"created", "resolved", "assigned", "archived", "ignored", "unresolved"}, changed},
	}
	r, known := resources[resource]
	if !known || !slices.Contains(r.actions, action) {
		return nil, nil
	}
	about := as(data[r.member])
	if about == nil {
		return nil, fmt.Errorf("sentry: the delivery has no data.%s, as its header says", r.member)
	}
	e := &event.Event{Provider: "sentry", Type: resource, Native: resource + ":" + action}
	context := r.tell(e, about, data)
	context["action"] = action
	put(context, "installation", installation(body))
	by := as(body["actor"])
	put(context, "actor", pick(object{"type": str(by["type"]), "id": str(by["id"]), "name": str(by["name"])}, "type", "id", "name"))
	e.Title = str(about["title"])
	if slug := str(as(context["project"])["slug"]); slug != "" {
		e.Title = slug + ": " + e.Title
	}
	e.Title = sources.Printable(e.Title, 300)
	var err error
	if e.Context, err = (&shortened{}).json(context); err != nil {
		return nil, fmt.Errorf("sentry: the delivery: %w", err)
	}
	return e, nil
}

// changed tells of an issue, and returns its context. The payload has no time of
// the change, but that of its creation.
func changed(e *event.Event, issue, data object) object {
	out := object{"issue": compactIssue(issue)}
	org, _ := fromURL(str(issue["project_url"]))
	put(out, "organization", org)
	in := as(issue["project"])
	put(out, "project", pick(object{"id": str(in["id"]), "slug": str(in["slug"]), "name": str(in["name"])}, "id", "slug", "name"))
	put(out, "level", str(issue["level"]))
	put(out, "assignee", pick(as(data["assignee"]), "type", "id", "name"))
	put(out, "resolution_type", data["resolution_type"])
	if e.Native == "issue:created" {
		e.OccurredAt = sources.EventTime(str(issue["firstSeen"]))
		e.Key = key("issue:created", str(issue["id"]), str(issue["firstSeen"]))
	}
	e.URL = firstURL(issue["web_url"], issue["permalink"])
	return out
}

// occurred tells of an event, alone or by the rule that it met, and returns its
// context. Its key is made of what is signed.
func occurred(e *event.Event, in, data object) object {
	org, slug := fromURL(str(in["url"]))
	labels := tagged(in["tags"])
	out := object{"event": compactHook(in, labels)}
	put(out, "organization", org)
	put(out, "project", pick(object{"id": str(in["project"]), "slug": slug}, "id", "slug"))
	put(out, "environment", either(in["environment"], labels["environment"]))
	put(out, "level", either(in["level"], labels["level"]))
	put(out, "rule", str(data["triggered_rule"]))
	put(out, "issue", pick(object{"id": str(in["issue_id"])}, "id"))
	trace(out, in, hookFrame)
	e.OccurredAt = sources.EventTime(str(in["datetime"]))
	if id := str(in["event_id"]); id != "" {
		e.Key = key(e.Type, str(in["project"]), id, str(data["triggered_rule"]))
	}
	e.URL = firstURL(in["web_url"])
	return out
}

// key is as long for whatever it is made of.
func key(kind string, parts ...string) string {
	text, _ := json.Marshal(parts)
	return fmt.Sprintf("%s:%x", kind, sha256.Sum256(text))
}

// str returns a string, or a number as one; empty: it is neither.
func str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// either returns the first text that says something.
func either(values ...any) string {
	for _, v := range values {
		if s := str(v); s != "" {
			return s
		}
	}
	return ""
}

// fromURL returns the slugs that a URL of the API has, the only place where a
// payload has them. Nobody goes there.
func fromURL(text string) (organization, project string) {
	_, path, _ := strings.Cut(text, "/api/0/projects/")
	parts := strings.Split(path, "/")
	if len(parts) < 3 {
		return "", ""
	}
	return parts[0], parts[1]
}

// firstURL returns the first URL that a page may link to; empty: none is.
func firstURL(values ...any) string {
	for _, v := range values {
		if link := sources.WebURL(str(v)); link != "" {
			return link
		}
	}
	return ""
}
