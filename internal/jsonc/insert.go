package jsonc

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// insert adds a key to an object as its i-th, and returns its value. depth is
// how deep the key is: 1 in the root.
func (w styledWriter) insert(o *hujson.Object, depth int, key string, value any, i int) *hujson.Value {
	lines := w.isMultiline(o, depth)
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

// isMultiline reports whether keys of an object stand on lines of their own. The
// root's always do.
func (w styledWriter) isMultiline(o *hujson.Object, depth int) bool {
	return len(o.Members) == 0 || depth == 1 || bytes.Contains(o.Members[0].Name.BeforeExtra, []byte("\n"))
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

// value is a value on as many lines as it has parts.
func (w styledWriter) value(depth int, v any) hujson.ValueTrimmed {
	return w.valueWithLayout(true, depth, v)
}

func (w styledWriter) valueWithLayout(lines bool, depth int, v any) hujson.ValueTrimmed {
	text := encodeJSON(v)
	if lines {
		var b bytes.Buffer
		_ = json.Indent(&b, text, strings.Repeat(w.indent, depth), w.indent) // of JSON that was just written
		text = bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(w.newline))
	}
	parsed, err := hujson.Parse(text)
	if err != nil {
		panic("jsonc: JSON of our own is none: " + err.Error())
	}
	return parsed.Value
}
