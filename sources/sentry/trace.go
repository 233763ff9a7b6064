package sentry

import "slices"

// How much of an event is told.
const (
	hookExceptions = 3
	hookFrames     = 10
)

// compactHook is what there is to know of an event that Sentry posts: it is
// written otherwise than by the API. What a request or a variable held is left
// out, and who the user was: strangers' words and credentials.
func compactHook(in object, labels object) object {
	out := pick(in, "event_id", "title", "message", "type", "culprit", "location", "platform", "logger", "datetime", "release", "dist", "transaction")
	put(out, "tags", labels)
	return out
}

// tagged makes an object of tags, which are pairs here.
func tagged(v any) object {
	out := object{}
	list, _ := v.([]any)
	for _, t := range list {
		if pair, _ := t.([]any); len(pair) == 2 {
			if name, ok := pair[0].(string); ok {
				put(out, name, pair[1])
			}
		}
	}
	for name, value := range tags(v) {
		out[name] = value
	}
	return out
}

// trace adds what was thrown, where by its frames, and the program's own files,
// the newest of each first.
func trace(out, in object, frame func(object) object) {
	s := &shortened{}
	thrown := as(in["exception"])["values"]
	put(out, "exceptions", s.last(thrown, hookExceptions, func(x object) object {
		o := pick(x, "type", "value", "module")
		put(o, "mechanism", pick(as(x["mechanism"]), "type", "handled"))
		return o
	}))
	frames := s.last(framesOf(in, thrown), hookFrames, frame)
	put(out, "frames", frames)
	put(out, "files", files(frames))
	if s.cut {
		out["_truncated"] = true
	}
}

// framesOf returns the frames where it failed: of the last exception that has
// some, of the event itself, or of the thread that crashed.
func framesOf(in object, thrown any) any {
	list, _ := thrown.([]any)
	for _, x := range slices.Backward(list) {
		if frames, _ := as(as(x)["stacktrace"])["frames"].([]any); len(frames) > 0 {
			return frames
		}
	}
	if frames, _ := as(in["stacktrace"])["frames"].([]any); len(frames) > 0 {
		return frames
	}
	threads, _ := as(in["threads"])["values"].([]any)
	for _, t := range threads {
		if as(t)["crashed"] == true {
			return as(as(t)["stacktrace"])["frames"]
		}
	}
	return nil
}

// hookFrame keeps the line only where it is the program's own, as [frame] does.
func hookFrame(in object) object {
	out := pick(in, "filename", "module", "function", "lineno", "colno", "in_app")
	if in["in_app"] == true {
		put(out, "context_line", in["context_line"])
	}
	return out
}

func files(frames []any) (names []any) {
	for _, f := range frames {
		if name := str(as(f)["filename"]); as(f)["in_app"] == true && name != "" && !slices.Contains(names, any(name)) {
			names = append(names, name)
		}
	}
	return names
}
