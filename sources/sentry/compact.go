package sentry

import (
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"sallyport/sources"
)

type object = map[string]any

// asObject returns v as an object, or nil.
func asObject(v any) object {
	o, _ := v.(object)
	return o
}

// pick returns the non-empty members of those names.
func pick(from object, names ...string) object {
	out := object{}
	for _, n := range names {
		putNonEmpty(out, n, from[n])
	}
	return out
}

// putNonEmpty sets a member unless the value is empty.
func putNonEmpty(in object, name string, v any) {
	list, isList := v.([]any)
	o, isObject := v.(object)
	if v == nil || v == "" || isList && len(list) == 0 || isObject && len(o) == 0 {
		return
	}
	in[name] = v
}

// compactor compacts a response and records whether something was dropped.
type compactor struct{ cut bool }

// first returns at most n elements of a list, mapped by f. Elements that are
// not objects are dropped.
func (s *compactor) first(v any, n int, f func(object) object) (out []any) {
	list, _ := v.([]any)
	for _, e := range list[:min(n, len(list))] {
		if o := asObject(e); o != nil {
			out = append(out, f(o))
		}
	}
	s.cut = s.cut || len(list) > n
	return out
}

// last returns at most n elements from the end of a list, in reverse order.
func (s *compactor) last(v any, n int, f func(object) object) (out []any) {
	list, _ := v.([]any)
	for i := len(list) - 1; i >= max(0, len(list)-n); i-- {
		if o := asObject(list[i]); o != nil {
			out = append(out, f(o))
		}
	}
	s.cut = s.cut || len(list) > n
	return out
}

// maxResult bounds the result of an action, in bytes.
const maxResult = 60 << 10

// encode encodes the result in at most maxResult bytes. It truncates strings,
// lists and objects below the top level until the result fits. Top-level
// members and all "items" stay, because the page cursor cannot return dropped
// items again.
func (s *compactor) encode(answer object) (json.RawMessage, error) {
	for room := 64; room > 0; room /= 2 {
		c := truncator{room: room, cut: s.cut}
		out := c.topLevel(answer)
		if c.cut {
			out["_truncated"] = true
		}
		text, err := sources.Encode(out)
		if err != nil || len(text) <= maxResult {
			return text, err
		}
	}
	return nil, refuse("too_large", "Sentry's answer is too large, even when it is cut; ask for fewer with limit, or for something else.")
}

// truncator truncates strings to 32 times room characters, lists to room
// elements, and objects to room members but at least 8, the size of the objects
// that this module builds.
type truncator struct {
	room int
	cut  bool
}

// topLevel truncates values and keeps all members.
func (c *truncator) topLevel(o object) object {
	out := object{}
	for name, v := range o {
		items, is := v.([]any)
		if name != "items" || !is {
			out[name] = c.value(v, 6)
			continue
		}
		all := make([]any, len(items))
		for i := range items {
			all[i] = c.topLevel(asObject(items[i]))
		}
		out[name] = all
	}
	return out
}

func (c *truncator) value(v any, depth int) any {
	switch v := v.(type) {
	case string:
		return c.text(v, 32*c.room)
	case []any:
		if depth == 0 {
			break
		}
		if len(v) > c.room {
			v, c.cut = v[:c.room], true
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = c.value(v[i], depth-1)
		}
		return out
	case object:
		if depth == 0 {
			break
		}
		names := slices.Sorted(maps.Keys(v))
		if most := max(8, c.room); len(names) > most {
			names, c.cut = names[:most], true
		}
		out := object{}
		for _, name := range names {
			out[c.text(name, 100)] = c.value(v[name], depth-1)
		}
		return out
	default:
		return v // numbers, booleans and null
	}
	c.cut = true // nested too deeply
	return "…"
}

func (c *truncator) text(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	c.cut = true
	return string([]rune(s)[:limit]) + "…"
}
