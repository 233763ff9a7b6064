package sentry

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"
)

// maxResult bounds the result of an action, in bytes.
const maxResult = 60 << 10

// json returns the answer in at most maxResult bytes. Strings and lists within
// its members become shorter until it fits; the members themselves and the
// elements of "items" all stay, since a page that lost some could not be had
// back by its cursor.
func (s *shortened) json(answer object) (json.RawMessage, error) {
	for room := 64; room > 0; room /= 2 {
		out, cut := object{}, s.cut
		for name, v := range answer {
			out[name] = shrink(v, room, name == "items", 6, &cut)
		}
		if cut {
			out["_truncated"] = true
		}
		text, err := encode(out)
		if err != nil || len(text) <= maxResult {
			return text, err
		}
	}
	return nil, wrong("too_large", "Sentry's answer is too large, even when it is cut; ask for fewer with limit, or for something else.")
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxMembers bounds objects whose members Sentry's users chose.
const maxMembers = 40

// shrink returns v with strings of at most 32 times room characters and lists
// of at most room elements, but for the outer one when whole.
func shrink(v any, room int, whole bool, depth int, cut *bool) any {
	switch v := v.(type) {
	case string:
		return shorten(v, 32*room, cut)
	case []any:
		if !whole && len(v) > room {
			v, *cut = v[:room], true
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = nested(v[i], room, depth, cut)
		}
		return out
	case object:
		out := object{}
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i == maxMembers {
				*cut = true
				break
			}
			out[shorten(name, 100, cut)] = nested(v[name], room, depth, cut)
		}
		return out
	}
	return v // numbers, booleans and null
}

func nested(v any, room, depth int, cut *bool) any {
	switch v.(type) {
	case []any, object:
		if depth == 0 {
			*cut = true
			return "…"
		}
	}
	return shrink(v, room, false, depth-1, cut)
}

func shorten(s string, limit int, cut *bool) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	*cut = true
	return string([]rune(s)[:limit]) + "…"
}
