package dashboard

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"sallyport/action"
)

// pin is a param that a grant may be bound to, with its value.
type pin struct {
	Pointer string
	Value   []Segment
}

const (
	maxPinDeep = 4
	maxPinText = 120 // bytes of a value; the params above show all of it
)

// pinnable lists what of the params may be pinned: members and their parts,
// but for what is masked, as grants are shown to people as they are.
func pinnable(full, redacted []byte) []pin {
	root, ok := parseJSON(full)
	mask, also := parseJSON(redacted)
	if !ok || !also {
		return nil
	}
	var out []pin
	root.leaves(mask, "", func(pointer string, value *node) {
		if len(out) < action.MaxPins {
			out = append(out, pin{Pointer: pointer, Value: visible(clip(string(value.bytes()), maxPinText))})
		}
	})
	return out
}

// leaves walks the members of an object down to what is no object, or too deep
// to be of interest.
func (n *node) leaves(mask *node, at string, yield func(pointer string, value *node)) {
	for i, key := range n.keys {
		if !n.like(mask) || !bytes.Equal(key, mask.keys[i]) {
			continue
		}
		var name string
		_ = json.Unmarshal(key, &name) // it was parsed before
		pointer, kid := at+"/"+segment(name), n.kids[i]
		switch {
		case kid.open == '{' && len(kid.kids) > 0 && strings.Count(pointer, "/") < maxPinDeep:
			kid.leaves(mask.kids[i], pointer, yield)
		case bytes.Equal(kid.bytes(), mask.kids[i].bytes()):
			yield(pointer, kid)
		}
	}
}

// segment writes a name as a part of a JSON Pointer.
func segment(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// clip shortens text for where there is little room, and says so.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "… (" + strconv.Itoa(len(text)) + " bytes)"
}
