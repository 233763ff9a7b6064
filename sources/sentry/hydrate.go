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

// hydrate adds to what happened to an issue what an alert has by itself: the
// latest event, what was thrown, and where. An issue of another organization than
// the connection's, or that is gone, stays as it is.
func hydrate(ctx context.Context, c *sources.Conn, e *event.Event) (changed bool, err error) {
	var known object
	at := place{organization: settingsOf(c.Settings).Organization}
	if e.Type != "issue" || at.organization == "" || decode(e.Context, &known) != nil || known["event"] != nil {
		return false, nil
	}
	at.id = str(as(known["issue"])["id"])
	if org := str(known["organization"]); org != "" && !strings.EqualFold(org, at.organization) || at.id == "" || strings.Trim(at.id, "0123456789") != "" {
		return false, nil
	}
	var latest object
	_, err = send(ctx, c, ask{path: at.path("events", "latest"), scope: "event:read", missing: at.missing()}, &latest)
	if no := new(sources.Refusal); errors.As(err, &no) && no.Status == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	whole, err := enriched(known, posted(latest))
	if changed = err == nil; changed { // otherwise it has become too large
		e.Context = whole
	}
	return changed, nil
}

// enriched is the context of an issue with an event in it.
func enriched(known, in object) (json.RawMessage, error) {
	labels := tagged(in["tags"])
	put(known, "event", compactHook(in, labels))
	put(known, "environment", labels["environment"])
	trace(known, in, apiFrame)
	return (&shortened{}).json(known)
}

// posted writes an event that was asked for as Sentry posts one, but for its
// frames.
func posted(in object) object {
	out := pick(in, "title", "message", "type", "culprit", "location", "platform", "dist", "tags")
	put(out, "event_id", in["eventID"])
	put(out, "datetime", in["dateCreated"])
	put(out, "release", as(in["release"])["version"])
	entries, _ := in["entries"].([]any)
	for _, e := range entries {
		switch kind := str(as(e)["type"]); kind {
		case "exception", "threads", "stacktrace":
			put(out, kind, as(e)["data"])
		case "message":
			put(out, "message", as(as(e)["data"])["formatted"])
		}
	}
	return out
}

// apiFrame makes of a frame that was asked for what [hookFrame] makes of one that
// was posted.
func apiFrame(in object) object {
	one := pick(in, "filename", "module", "function")
	put(one, "lineno", in["lineNo"])
	put(one, "colno", in["colNo"])
	put(one, "in_app", in["inApp"])
	around, _ := in["context"].([]any)
	for _, line := range around {
		if pair, _ := line.([]any); len(pair) == 2 && str(pair[0]) == str(in["lineNo"]) && in["inApp"] == true {
			put(one, "context_line", pair[1])
		}
	}
	return one
}
