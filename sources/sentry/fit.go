package sentry

import (
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"sallyport/sources"
)

// maxResult bounds the result of an action, in bytes.
const maxResult = 60 << 10

// json returns the answer in at most maxResult bytes. Strings, lists and objects
// within its members become shorter until it fits; the members themselves and
// all "items" stay, since a page that lost some could not be had back by its
// cursor.
func (s *shortened) json(answer object) (json.RawMessage, error) {
	for room := 64; room > 0; room /= 2 {
		c := cutter{room: room, cut: s.cut}
		out := c.record(answer)
		if c.cut {
			out["_truncated"] = true
		}
		text, err := sources.Encode(out)
		if err != nil || len(text) <= maxResult {
			return text, err
		}
	}
	return nil, wrong("too_large", "Sentry's answer is too large, even when it is cut; ask for fewer with limit, or for something else.")
}

// cutter makes values shorter: strings to 32 times room characters, lists to
// room elements, objects to as many members, though at least to 8, which all
// that this module makes have.
type cutter struct {
	room int
	cut  bool
}

// record shortens what its members hold, and drops none.
func (c *cutter) record(o object) object {
	out := object{}
	for name, v := range o {
		items, is := v.([]any)
		if name != "items" || !is {
			out[name] = c.value(v, 6)
			continue
		}
		all := make([]any, len(items))
		for i := range items {
			all[i] = c.record(as(items[i]))
		}
		out[name] = all
	}
	return out
}

func (c *cutter) value(v any, depth int) any {
	switch v := v.(type) {
	case string:
		return c.text(v, 32*c.room)
	case []any:
		return c.list(v, depth)
	case object:
		return c.object(v, depth)
	}
	return v // numbers, booleans and null
}

func (c *cutter) list(v []any, depth int) any {
	if depth == 0 {
		return c.gone()
	}
	if len(v) > c.room {
		v, c.cut = v[:c.room], true
	}
	out := make([]any, len(v))
	for i := range v {
		out[i] = c.value(v[i], depth-1)
	}
	return out
}

func (c *cutter) object(v object, depth int) any {
	if depth == 0 {
		return c.gone()
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
}

// gone stands for what is nested too deeply.
func (c *cutter) gone() string {
	c.cut = true
	return "…"
}

func (c *cutter) text(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	c.cut = true
	return string([]rune(s)[:limit]) + "…"
}
