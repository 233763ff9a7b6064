package sentry

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"sallyport/ingest/event"
	"sallyport/sources"
)

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
