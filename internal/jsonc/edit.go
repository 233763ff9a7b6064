package jsonc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Kind is how an edit treats an existing value.
type Kind int

// The kinds of edit.
const (
	Set     Kind = iota // replace the existing value
	Default             // keep the existing value
	First               // like Default; a new key goes before all others of its object
	Element             // append the value to the existing list, unless the list has it
)

// Edit is one change of a document.
type Edit struct {
	Path  []string // keys from the root; missing objects are created
	Value any      // encoded with encoding/json
	Kind  Kind
	// Identity is the key that identifies elements that are objects, for
	// Element; "" compares whole values.
	Identity string
	// Before selects the key before which a new key goes. If it is nil or
	// matches none, the new key goes to the end.
	Before func(key string) bool
	// Under is the key for a string or boolean that stands where the last
	// object of the path is expected; "" returns an error instead.
	Under string
}

// Fault describes why a document cannot be edited.
type Fault struct {
	Path    string // the key, with dots; "" is the document
	Problem string // what is wrong
}

func (f *Fault) Error() string {
	if f.Path == "" {
		return f.Problem
	}
	return f.Path + " " + f.Problem
}

var byteOrderMark = []byte("\xef\xbb\xbf") // some editors write it

// Apply returns the document with the edits applied in order. An empty document
// counts as an empty object. Errors are [*Fault]s.
func Apply(document []byte, edits []Edit) ([]byte, error) {
	text, marked := bytes.CutPrefix(document, byteOrderMark)
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	root, err := hujson.Parse(bytes.Clone(text))
	if err != nil {
		return nil, &Fault{Problem: "is not valid JSON: " + strings.TrimPrefix(err.Error(), "hujson: ")}
	}
	m := detectStyle(text)
	for _, e := range edits {
		if err := m.apply(&root, e); err != nil {
			return nil, err
		}
	}
	out := root.Pack()
	if marked {
		out = append(bytes.Clone(byteOrderMark), out...)
	}
	return out, nil
}

// Lookup returns the value at a path as encoding/json decodes it, or nil if the
// document has none.
func Lookup(document []byte, path ...string) (any, error) {
	text, _ := bytes.CutPrefix(document, byteOrderMark)
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	text, err := hujson.Standardize(bytes.Clone(text))
	var value any
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		return nil, &Fault{Problem: "is not valid JSON: " + strings.TrimPrefix(err.Error(), "hujson: ")}
	}
	for _, key := range path {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value, nil
}

// styledWriter writes values in the style of a document.
type styledWriter struct {
	newline string
	indent  string
}

// detectStyle detects the newline and indentation of a document.
func detectStyle(text []byte) styledWriter {
	w := styledWriter{newline: "\n", indent: "  "}
	if bytes.Contains(text, []byte("\r\n")) {
		w.newline = "\r\n"
	}
	for line := range bytes.Lines(text) {
		rest := bytes.TrimLeft(line, " \t")
		if indent := line[:len(line)-len(rest)]; len(indent) > 0 && len(rest) > 0 && rest[0] == '"' {
			w.indent = string(indent)
			break
		}
	}
	return w
}

func (w styledWriter) apply(root *hujson.Value, e Edit) error {
	at := root
	for i, key := range e.Path[:len(e.Path)-1] {
		o, err := w.object(at, e, i)
		if err != nil {
			return err
		}
		next, err := member(o, key, e.Path[:i+1])
		if err != nil {
			return err
		}
		if next == nil {
			next = w.insert(o, i+1, key, struct{}{}, len(o.Members))
		}
		at = next
	}
	depth := len(e.Path)
	o, err := w.object(at, e, depth-1)
	if err != nil {
		return err
	}
	key := e.Path[depth-1]
	there, err := member(o, key, e.Path)
	switch {
	case err != nil:
		return err
	case e.Kind == Element:
		return w.addElement(o, there, e)
	case there == nil:
		w.insert(o, depth, key, e.Value, insertIndex(o, e))
	case e.Kind == Set && !equalValue(there, e.Value):
		there.Value = w.valueWithLayout(true, depth, e.Value)
	}
	return nil
}

// insertIndex returns where in an object a new key goes.
func insertIndex(o *hujson.Object, e Edit) int {
	if e.Kind == First {
		return 0
	}
	if e.Before != nil {
		for i := range o.Members {
			if name, _ := o.Members[i].Name.Value.(hujson.Literal); e.Before(name.String()) {
				return i
			}
		}
	}
	return len(o.Members)
}

// object is the object that is due at a depth of the edit's path.
func (w styledWriter) object(at *hujson.Value, e Edit, depth int) (*hujson.Object, error) {
	if o, ok := at.Value.(*hujson.Object); ok {
		return o, nil
	}
	kind := at.Value.Kind()
	if e.Under == "" || depth != len(e.Path)-1 || !slices.Contains([]hujson.Kind{'"', 't', 'f'}, kind) {
		return nil, &Fault{strings.Join(e.Path[:depth], "."), "is not an object, so nothing can be added to it"}
	}
	o := new(hujson.Object)
	w.insert(o, depth+1, e.Under, json.RawMessage(at.Value.(hujson.Literal)), 0)
	at.Value = o
	return o, nil
}

// addElement adds to the list at a key.
func (w styledWriter) addElement(o *hujson.Object, there *hujson.Value, e Edit) error {
	depth := len(e.Path)
	if there == nil {
		w.insert(o, depth, e.Path[depth-1], []any{e.Value}, len(o.Members))
		return nil
	}
	list, ok := there.Value.(*hujson.Array)
	if !ok {
		return &Fault{strings.Join(e.Path, "."), "is not a list, so nothing can be added to it"}
	}
	for i := range list.Elements {
		if sameElement(&list.Elements[i], e) {
			return nil
		}
	}
	w.appendElement(list, depth+1, e.Value)
	return nil
}

// member returns a key's value, or nil. A duplicate key is an error.
func member(o *hujson.Object, key string, path []string) (*hujson.Value, error) {
	var found *hujson.Value
	for i := range o.Members {
		if name, _ := o.Members[i].Name.Value.(hujson.Literal); name.String() != key {
			continue
		}
		if found != nil {
			return nil, &Fault{strings.Join(path, "."), "appears twice; remove one of them"}
		}
		found = &o.Members[i].Value
	}
	return found, nil
}

// equalValue reports whether a value equals the encoding of another.
func equalValue(v *hujson.Value, other any) bool {
	return bytes.Equal(compact(v), encodeJSON(other))
}

func compact(v *hujson.Value) []byte {
	c := v.Clone()
	c.Minimize()
	return c.Pack()
}

func sameElement(v *hujson.Value, e Edit) bool {
	if e.Identity == "" {
		return equalValue(v, e.Value)
	}
	var got, want map[string]any
	if json.Unmarshal(compact(v), &got) != nil || json.Unmarshal(encodeJSON(e.Value), &want) != nil {
		return false
	}
	return got[e.Identity] == want[e.Identity]
}

// encodeJSON encodes a value without HTML escapes, to stay readable.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("jsonc: a value of an edit is not valid JSON: %v", err)) // edits hold only values of this program
	}
	return bytes.TrimSpace(b.Bytes())
}

// insert adds a key to an object as its i-th, and returns its value. depth is
// how deep the key is: 1 in the root.
func (w styledWriter) insert(o *hujson.Object, depth int, key string, value any, i int) *hujson.Value {
	// Keys of the root always stand on lines of their own.
	lines := len(o.Members) == 0 || depth == 1 || bytes.Contains(o.Members[0].Name.BeforeExtra, []byte("\n"))
	m := hujson.ObjectMember{
		Name:  hujson.Value{Value: hujson.String(key)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: w.valueWithLayout(lines, depth, value)},
	}
	if i < len(o.Members) {
		old := &o.Members[i].Name
		m.Name.BeforeExtra, old.BeforeExtra = w.splitBeforeMember(old.BeforeExtra, lines, depth)
		o.Members = slices.Insert(o.Members, i, m)
		return &o.Members[i].Value
	}
	var trailing bool
	if n := len(o.Members); n > 0 {
		trailing = o.Members[n-1].Value.AfterExtra != nil
	}
	m.Name.BeforeExtra, o.AfterExtra = w.splitBeforeClosing(o.AfterExtra, lines, len(o.Members) > 0, depth)
	if trailing {
		m.Value.AfterExtra = hujson.Extra{}
	}
	o.Members = append(o.Members, m)
	return &o.Members[len(o.Members)-1].Value
}

// appendElement adds a value at the end of a list whose elements are at depth.
func (w styledWriter) appendElement(list *hujson.Array, depth int, value any) {
	n := len(list.Elements)
	lines := n == 0 || bytes.Contains(list.Elements[0].BeforeExtra, []byte("\n"))
	v := hujson.Value{Value: w.valueWithLayout(lines, depth, value)}
	v.BeforeExtra, list.AfterExtra = w.splitBeforeClosing(list.AfterExtra, lines, n > 0, depth)
	if n > 0 && list.Elements[n-1].AfterExtra != nil {
		v.AfterExtra = hujson.Extra{} // keeps the trailing comma
	}
	list.Elements = append(list.Elements, v)
}

// splitBeforeClosing divides what stands before a closing bracket into what goes before the
// new last thing and what stays before the bracket. A comment that stood behind
// the last thing stays behind it.
func (w styledWriter) splitBeforeClosing(extra hujson.Extra, lines, follows bool, depth int) (before, closing hujson.Extra) {
	kept := bytes.TrimRight(extra, " \t\r\n")
	if lines || bytes.Contains(kept, []byte("//")) {
		return hujson.Extra(string(kept) + w.lineBreak(depth)), hujson.Extra(w.lineBreak(depth - 1))
	}
	if follows {
		kept = append(bytes.Clone(kept), ' ')
	}
	return kept, extra[len(bytes.TrimRight(extra, " \t\r\n")):]
}

// splitBeforeMember divides what stands before a key into what goes before the new one in
// its place and what stays before the old one. What stands on the line of the
// opening bracket, or behind the key before, stays there.
func (w styledWriter) splitBeforeMember(extra hujson.Extra, lines bool, depth int) (first, second hujson.Extra) {
	if !lines {
		return extra, hujson.Extra(" ")
	}
	head, _, found := bytes.Cut(extra, []byte("\n"))
	if !found || bytes.LastIndex(head, []byte("/*")) > bytes.LastIndex(head, []byte("*/")) {
		return hujson.Extra(w.lineBreak(depth)), append(hujson.Extra(nil), extra...)
	}
	return hujson.Extra(string(bytes.TrimRight(head, "\r")) + w.lineBreak(depth)), append(hujson.Extra(nil), extra[len(head):]...)
}

func (w styledWriter) lineBreak(depth int) string { return w.newline + strings.Repeat(w.indent, depth) }

// valueWithLayout returns a value, with lines on as many lines as it has parts.
func (w styledWriter) valueWithLayout(lines bool, depth int, v any) hujson.ValueTrimmed {
	text := encodeJSON(v)
	if lines {
		var b bytes.Buffer
		_ = json.Indent(&b, text, strings.Repeat(w.indent, depth), w.indent) // of JSON that was just written
		text = bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(w.newline))
	}
	parsed, err := hujson.Parse(text)
	if err != nil {
		panic("jsonc: generated JSON is not valid: " + err.Error())
	}
	return parsed.Value
}
