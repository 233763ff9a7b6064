package render

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"sallyport/api"
	"sallyport/internal/canonical"
	"sallyport/internal/redact"
)

const (
	maxChanges  = 200  // of one tool
	maxChange   = 4000 // bytes of each side of a change
	kindMeaning = "behaviour"
	kindText    = "text"
)

// Diff compares two definitions member by member. An array is compared as a
// whole, unless it has schemas in it and as many as before. Past maxChanges
// it says so with a last change of the whole.
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
	if len(d.out) > maxChanges {
		d.out[maxChanges] = api.Change{Kind: kindMeaning, Before: bounded(before), After: bounded(after)}
	}
	return d.out
}

// differ gathers changes. at is the way to where it is.
type differ struct {
	at  []place
	out []api.Change
}

// place is a member by its quoted name, or an element by its index.
type place struct {
	name  []byte
	index int
}

func (d *differ) compare(a, b *node) {
	switch {
	case a.open == '{' && b.open == '{':
		d.members(a, b)
	case a.open == '[' && b.open == '[' && len(a.kids) == len(b.kids) && a.nested():
		for i := range a.kids {
			d.within(place{index: i}, func() { d.compare(a.kids[i], b.kids[i]) })
		}
	case !bytes.Equal(a.bytes(), b.bytes()):
		d.add(a, b)
	}
}

// nested reports whether an element has parts of its own.
func (n *node) nested() bool {
	for _, kid := range n.kids {
		if kid.open != 0 {
			return true
		}
	}
	return false
}

func (d *differ) members(a, b *node) {
	for i, name := range a.keys {
		d.within(place{name: name}, func() {
			if kid := b.member(name); kid != nil {
				d.compare(a.kids[i], kid)
			} else {
				d.add(a.kids[i], nil)
			}
		})
	}
	for j, name := range b.keys {
		if a.member(name) == nil {
			d.within(place{name: name}, func() { d.add(nil, b.kids[j]) })
		}
	}
}

// member returns the value of a member by its quoted name, or nil.
func (n *node) member(name []byte) *node {
	for i, key := range n.keys {
		if bytes.Equal(key, name) {
			return n.kids[i]
		}
	}
	return nil
}

func (d *differ) within(p place, f func()) {
	d.at = append(d.at, p)
	f()
	d.at = d.at[:len(d.at)-1]
}

func (d *differ) add(a, b *node) {
	if len(d.out) > maxChanges {
		return // a hostile definition differs everywhere
	}
	var before, after []byte // nil: it is not there
	if a != nil {
		before = a.bytes()
	}
	if b != nil {
		after = b.bytes()
	}
	c := api.Change{Path: d.path(), Kind: kindMeaning, Before: bounded(before), After: bounded(after)}
	if d.sameMeaning(before, after) {
		c.Kind = kindText
	}
	d.out = append(d.out, c)
}

// sameMeaning asks the hash that reviews are about: a change is one of text
// when a definition with nothing but this place has the same one before and
// after.
func (d *differ) sameMeaning(before, after []byte) bool {
	a, aErr := canonical.DefinitionHash(d.alone(before))
	b, bErr := canonical.DefinitionHash(d.alone(after))
	return aErr == nil && bErr == nil && a == b
}

// alone returns a definition that has the value at this place and nothing
// else; nil is no value.
func (d *differ) alone(value []byte) []byte {
	out := value
	for i := len(d.at) - 1; i >= 0; i-- {
		switch p := d.at[i]; {
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

func (d *differ) path() string {
	var b strings.Builder
	for _, p := range d.at {
		name := strconv.Itoa(p.index)
		if p.name != nil {
			_ = json.Unmarshal(p.name, &name) // it was parsed before
		}
		b.WriteString("/" + PointerToken(name))
	}
	return b.String()
}

// bounded keeps what is shown of one value short, and JSON.
func bounded(value []byte) json.RawMessage {
	if value == nil {
		return nil
	}
	return redact.JSON{}.Prune(value, maxChange)
}
