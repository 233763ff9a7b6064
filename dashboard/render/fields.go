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
	maxPinDeep = 4
	maxPinText = 120 // bytes of a value; the params above show all of it
)

// Pinnable lists what of the params may be pinned: members and their parts,
// but for what is masked, as grants are shown to people as they are.
func Pinnable(full, redacted []byte) []Pin {
	root, ok := parseJSON(full)
	mask, also := parseJSON(redacted)
	if !ok || !also {
		return nil
	}
	var out []Pin
	root.walkPinnable(mask, "", func(pointer string, value *node) {
		if len(out) < action.MaxPins {
			out = append(out, Pin{Pointer: pointer, Value: Escape(Truncate(string(value.bytes()), maxPinText))})
		}
	})
	return out
}

// walkPinnable walks the members of an object down to what is no object, or too deep
// to be of interest.
func (n *node) walkPinnable(mask *node, at string, yield func(pointer string, value *node)) {
	for i, key := range n.keys {
		if !n.like(mask) || !bytes.Equal(key, mask.keys[i]) {
			continue
		}
		var name string
		_ = json.Unmarshal(key, &name) // it was parsed before
		pointer, kid := at+"/"+PointerToken(name), n.kids[i]
		switch {
		case kid.open == '{' && len(kid.kids) > 0 && strings.Count(pointer, "/") < maxPinDeep:
			kid.walkPinnable(mask.kids[i], pointer, yield)
		case bytes.Equal(kid.bytes(), mask.kids[i].bytes()):
			yield(pointer, kid)
		}
	}
}

// PointerToken writes a name as a part of a JSON Pointer.
func PointerToken(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// Truncate shortens text for where there is little room, and says so.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "… (" + strconv.Itoa(len(text)) + " bytes)"
}

// Fields are the parts of a JSON value that have none, by their names.
type Fields map[string][]byte

// isMetadata is what says nothing about the change that its row does not.
func isMetadata(name string) bool {
	return slices.Contains([]string{"organization_id", "updated_by", "updated_at", "granted_by", "granted_at", "created_by", "created_at", "revision", "id"}, name)
}

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

func (n *node) collectFields(at string, out Fields) {
	for i, key := range n.keys {
		var name string
		_ = json.Unmarshal(key, &name) // it was parsed before
		if at == "" && isMetadata(name) {
			continue
		}
		if kid := n.kids[i]; kid.open == '{' && len(kid.kids) > 0 {
			kid.collectFields(at+name+"\x00", out)
		} else {
			out[at+name] = kid.bytes()
		}
	}
}

// FieldNames returns the names of the fields of both sides, sorted.
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

// valueShown bounds one side of a change; the export has all of it.
const valueShown = 600

// Value is one side of a change, as people read it: a text without its quotes,
// ids by their names.
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
		return Escape(Truncate(named(text), valueShown))
	}
	return Escape(Truncate(string(raw), valueShown))
}
