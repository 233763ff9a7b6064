package sentry

import "slices"

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
	putNonEmpty(out, "files", appFiles(frames))
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

func appFiles(frames []any) (names []any) {
	for _, f := range frames {
		if name := str(asObject(f)["filename"]); asObject(f)["in_app"] == true && name != "" && !slices.Contains(names, any(name)) {
			names = append(names, name)
		}
	}
	return names
}
