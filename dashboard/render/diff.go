package render

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"sallyport/api"
	"sallyport/internal/canonical"
	"sallyport/internal/redact"
)

const (
	maxChanges     = 200  // per tool
	maxChangeBytes = 4000 // bytes per side of a change
	kindMeaning    = "behaviour"
	kindText       = "text"
)

// Diff compares two definitions member by member. Arrays are compared as a
// whole, unless they contain objects or arrays and have the same length. After
// maxChanges changes, one last change holds both definitions as a whole.
func Diff(before, after json.RawMessage) []api.Change {
	a, aErr := canonical.JSON(before)
	b, bErr := canonical.JSON(after)
	if aErr != nil || bErr != nil {
		return []api.Change{{Kind: kindMeaning, Before: bounded(before), After: bounded(after)}}
	}
	old, _ := parseJSON(a)
	now, _ := parseJSON(b)
	d := &differ{}
	d.compare(old, now)
	if len(d.changes) > maxChanges {
		d.changes[maxChanges] = api.Change{Kind: kindMeaning, Before: bounded(before), After: bounded(after)}
	}
	return d.changes
}

// differ collects changes. at is the path to the current value.
type differ struct {
	path    []pathElement
	changes []api.Change
}

// pathElement is a path element: an object member by its quoted name, or an
// array element by its index.
type pathElement struct {
	name  []byte
	index int
}

func (d *differ) compare(a, b *node) {
	switch {
	case a.open == '{' && b.open == '{':
		d.members(a, b)
	case a.open == '[' && b.open == '[' && len(a.children) == len(b.children) && slices.ContainsFunc(a.children, func(n *node) bool { return n.open != 0 }):
		for i := range a.children {
			d.descend(pathElement{index: i}, func() { d.compare(a.children[i], b.children[i]) })
		}
	case !bytes.Equal(a.bytes(), b.bytes()):
		d.add(a, b)
	}
}

func (d *differ) members(a, b *node) {
	for i, name := range a.keys {
		d.descend(pathElement{name: name}, func() {
			if kid := b.member(name); kid != nil {
				d.compare(a.children[i], kid)
			} else {
				d.add(a.children[i], nil)
			}
		})
	}
	for j, name := range b.keys {
		if a.member(name) == nil {
			d.descend(pathElement{name: name}, func() { d.add(nil, b.children[j]) })
		}
	}
}

// member returns the value of a member by its quoted name, or nil.
func (n *node) member(name []byte) *node {
	for i, key := range n.keys {
		if bytes.Equal(key, name) {
			return n.children[i]
		}
	}
	return nil
}

func (d *differ) descend(p pathElement, f func()) {
	d.path = append(d.path, p)
	f()
	d.path = d.path[:len(d.path)-1]
}

func (d *differ) add(a, b *node) {
	if len(d.changes) > maxChanges {
		return // a hostile definition differs everywhere
	}
	var before, after []byte // nil if it is missing
	if a != nil {
		before = a.bytes()
	}
	if b != nil {
		after = b.bytes()
	}
	pointer := ""
	for _, p := range d.path {
		name := strconv.Itoa(p.index)
		if p.name != nil {
			_ = json.Unmarshal(p.name, &name) // it is valid JSON
		}
		pointer += "/" + PointerToken(name)
	}
	c := api.Change{Path: pointer, Kind: kindMeaning, Before: bounded(before), After: bounded(after)}
	// A change affects only text if definitions with only this value have the same
	// behaviour hash before and after.
	x, xErr := canonical.DefinitionHash(d.wrapped(before))
	y, yErr := canonical.DefinitionHash(d.wrapped(after))
	if xErr == nil && yErr == nil && x == y {
		c.Kind = kindText
	}
	d.changes = append(d.changes, c)
}

// wrapped returns a definition that contains only the given value at the
// current path. Nil is no value.
func (d *differ) wrapped(value []byte) []byte {
	out := value
	for i := len(d.path) - 1; i >= 0; i-- {
		switch p := d.path[i]; {
		case p.name == nil:
			out = slices.Concat([]byte("["), out, []byte("]"))
		case out == nil:
			out = []byte("{}")
		default:
			out = slices.Concat([]byte("{"), p.name, []byte(":"), out, []byte("}"))
		}
	}
	return out
}

// bounded shortens a value for display; it stays valid JSON.
func bounded(value []byte) json.RawMessage {
	if value == nil {
		return nil
	}
	return redact.JSON{}.Prune(value, maxChangeBytes)
}
