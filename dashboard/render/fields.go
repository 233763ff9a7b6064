package render

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
)

// Pin is a param that a grant may be bound to, with its value.
type Pin struct {
	Pointer string
	Value   []Segment
}

const (
	maxPinDepth = 4
	maxPinBytes = 120 // bytes of a value; the params above it are complete
)

// Pinnable lists the params that a grant may pin. It leaves out masked values,
// because grants are shown in full.
func Pinnable(full, redacted []byte) []Pin {
	root, ok := parseJSON(full)
	mask, also := parseJSON(redacted)
	if !ok || !also {
		return nil
	}
	var out []Pin
	root.walkPinnable(mask, "", func(pointer string, value *node) {
		if len(out) < action.MaxPins {
			out = append(out, Pin{Pointer: pointer, Value: Escape(Truncate(string(value.bytes()), maxPinBytes))})
		}
	})
	return out
}

// walkPinnable yields the leaf members of an object, down to maxPinDepth.
func (n *node) walkPinnable(mask *node, at string, yield func(pointer string, value *node)) {
	for i, key := range n.keys {
		if !n.sameShape(mask) || !bytes.Equal(key, mask.keys[i]) {
			continue
		}
		var name string
		_ = json.Unmarshal(key, &name) // it is valid JSON
		pointer, kid := at+"/"+PointerToken(name), n.children[i]
		switch {
		case kid.open == '{' && len(kid.children) > 0 && strings.Count(pointer, "/") < maxPinDepth:
			kid.walkPinnable(mask.children[i], pointer, yield)
		case bytes.Equal(kid.bytes(), mask.children[i].bytes()):
			yield(pointer, kid)
		}
	}
}

// PointerToken escapes a name for a JSON Pointer.
func PointerToken(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// Truncate shortens text to limit bytes and appends its full length.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "… (" + strconv.Itoa(len(text)) + " bytes)"
}

// Fields are the leaf values of a JSON value by name.
type Fields map[string][]byte

// ParseFields returns the leaf fields of a JSON value; nil if it is null or not JSON.
func ParseFields(value json.RawMessage) Fields {
	root, ok := parseJSON(value)
	if !ok || string(root.bytes()) == "null" {
		return nil
	}
	out := Fields{}
	if root.open != '{' {
		out[""] = root.bytes()
		return out
	}
	root.collectFields("", out)
	return out
}

// collectFields adds the leaf fields, except metadata that an event shows anyway.
func (n *node) collectFields(at string, out Fields) {
	metadata := []string{"organization_id", "updated_by", "updated_at", "granted_by", "granted_at", "created_by", "created_at", "revision", "id"}
	for i, key := range n.keys {
		var name string
		_ = json.Unmarshal(key, &name) // it is valid JSON
		if at == "" && slices.Contains(metadata, name) {
			continue
		}
		if kid := n.children[i]; kid.open == '{' && len(kid.children) > 0 {
			kid.collectFields(at+name+"\x00", out)
		} else {
			out[at+name] = kid.bytes()
		}
	}
}

// FieldNames returns the sorted names of the fields of both sides.
func FieldNames(before, after Fields) []string {
	var fields []string
	for _, side := range []Fields{before, after} {
		for field := range side {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// maxValueBytes bounds one side of a change on the page. The export has all of
// it.
const maxValueBytes = 600

// Value formats one side of a change for people: strings without quotes, IDs by
// name.
func (l Fields) Value(field string, named func(string) string) []Segment {
	raw, ok := l[field]
	if !ok || string(raw) == "null" {
		return nil
	}
	var text string
	if n, err := strconv.Atoi(string(raw)); err == nil && field == "level" {
		return Escape(action.Level(n).String())
	}
	if json.Unmarshal(raw, &text) == nil {
		return Escape(Truncate(named(text), maxValueBytes))
	}
	return Escape(Truncate(string(raw), maxValueBytes))
}
