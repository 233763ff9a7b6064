package redact

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// maxNested limits the levels of JSON within strings.
const maxNested = 3

// rewriter scans raw JSON and copies it only from the first change on.
type rewriter struct {
	raw             []byte
	pos             int
	out             []byte
	copied          int // raw[:copied] is already in out
	known           *known
	mark            func(dst, secret []byte) []byte
	full            bool // search by names and shapes too, not only for known secrets
	nesting         int
	mayContainKnown bool  // raw contains a known secret or an escape
	labelledLate    []int // starts of values that a label after them makes secret

	scratchBuf *scratchBuffers // allocated when needed

	namesOnly  bool   // search by names only, and replace nothing
	spans      []span // secrets found with namesOnly
	lastString int    // start of the last string
}

func (w *rewriter) document() ([]byte, error) {
	// Outside of strings with escapes.
	w.mayContainKnown = len(w.known.plain) > 0 && (bytes.IndexByte(w.raw, '%') >= 0 || bytes.IndexByte(w.raw, '&') >= 0 || w.known.containsForm(w.raw))
	out, err := w.pass()
	if err != nil || len(w.labelledLate) == 0 {
		return out, err
	}
	slices.Sort(w.labelledLate)
	w.out, w.copied = nil, 0
	return w.pass()
}

func (w *rewriter) pass() ([]byte, error) {
	w.pos = jsonlex.Space(w.raw, 0)
	if err := w.value(0, false); err != nil {
		return nil, err
	}
	if end := jsonlex.Space(w.raw, w.pos); end < len(w.raw) {
		return nil, errTrailing
	}
	if w.copied == 0 {
		return w.raw, nil
	}
	return append(w.out, w.raw[w.copied:]...), nil
}

// replace replaces raw[start:end] with what write appends.
func (w *rewriter) replace(start, end int, write func(dst []byte) []byte) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.raw)+64)
	}
	w.out = write(append(w.out, w.raw[w.copied:start]...))
	w.copied = end
}

func (w *rewriter) value(depth int, inArray bool) error {
	if w.pos < len(w.raw) {
		switch c := w.raw[w.pos]; {
		case c == '"':
			_, err := w.stringValue()
			return err
		case c == '{':
			return w.container(depth, &siblingState{object: true})
		case c == '[':
			return w.container(depth, &siblingState{mayBePair: inArray})
		case c == '-' || '0' <= c && c <= '9':
			return w.number()
		}
	}
	end, err := jsonlex.Literal(w.raw, w.pos)
	w.pos = end
	return err
}

func (w *rewriter) container(depth int, s *siblingState) error {
	if depth >= jsonlex.MaxDepth {
		return errDepth
	}
	closing := w.raw[w.pos] + 2
	w.pos = jsonlex.Space(w.raw, w.pos+1)
	if w.pos < len(w.raw) && w.raw[w.pos] == closing {
		w.pos++
		return nil
	}
	for {
		var err error
		if s.object {
			err = w.member(depth+1, s)
		} else {
			err = w.element(depth+1, s)
		}
		if err != nil {
			return err
		}
		w.pos = jsonlex.Space(w.raw, w.pos)
		switch {
		case w.pos < len(w.raw) && w.raw[w.pos] == closing:
			w.pos++
			return nil
		case w.pos == len(w.raw) || w.raw[w.pos] != ',':
			return errComma
		}
		w.pos = jsonlex.Space(w.raw, w.pos+1)
	}
}

// redactValue replaces the value of a member whose name indicates a secret,
// except for empty values, true, false and null.
func (w *rewriter) redactValue(depth int) error {
	start := w.pos
	end, err := jsonlex.Value(w.raw, start, depth)
	if err != nil {
		return err
	}
	w.pos = end
	value := w.raw[start:end]
	switch value[0] {
	case 't', 'f', 'n':
		return nil
	case '{', '[':
		if inside := jsonlex.Space(value, 1); inside == len(value)-1 {
			return nil
		}
	case '"':
		if value, _ = jsonlex.Unquote(nil, value[1:len(value)-1]); len(value) == 0 || isMark(value) {
			return nil
		}
	}
	if w.namesOnly {
		if w.raw[start] == '"' { // the content of a string
			start, end = start+1, end-1
		}
		w.spans = append(w.spans, span{start, end})
		return nil
	}
	w.replace(start, end, func(dst []byte) []byte { return jsonlex.Quote(dst, w.mark(nil, value)) })
	return nil
}

func (w *rewriter) number() error {
	start := w.pos
	end, err := jsonlex.Number(w.raw, start)
	if err != nil {
		return err
	}
	w.pos = end
	number := w.raw[start:end]
	if w.mayContainKnown && w.known.numeric && slices.ContainsFunc(w.known.plain, func(s []byte) bool { return bytes.Contains(number, s) }) {
		w.replace(start, end, func(dst []byte) []byte { return jsonlex.Quote(dst, w.mark(nil, number)) })
	}
	return nil
}

func (w *rewriter) scratch() *scratchBuffers {
	if w.scratchBuf == nil {
		w.scratchBuf = new(scratchBuffers)
	}
	return w.scratchBuf
}

// stringValue redacts the string at the current position and returns its
// decoded content, which is valid until the next string is read.
func (w *rewriter) stringValue() ([]byte, error) {
	if w.namesOnly {
		return w.readString()
	}
	start := w.pos
	end, form, err := jsonlex.String(w.raw, start)
	if err != nil {
		return nil, err
	}
	w.pos = end
	text, broken := w.raw[start+1:end-1], false
	switch {
	case form&jsonlex.Escaped != 0:
		broken = form&jsonlex.NonASCII != 0 && !utf8.Valid(text)
		buf := &w.scratch().texts[w.nesting]
		*buf, _ = jsonlex.Unquote(slices.Grow((*buf)[:0], len(text)), text)
		text = *buf
	case form&jsonlex.NonASCII != 0:
		broken = !utf8.Valid(text)
	}
	clean, changed := w.clean(text, form&jsonlex.Escaped != 0)
	if changed || broken && w.full {
		w.replace(start, end, func(dst []byte) []byte { return jsonlex.Quote(dst, clean) })
	}
	return text, nil
}

func (w *rewriter) clean(text []byte, escaped bool) (clean []byte, changed bool) {
	k := w.known
	if !w.mayContainKnown && !escaped {
		k = nil
	}
	all := w.full
	if all && w.nesting < maxNested && looksNested(text) {
		inner := rewriter{raw: text, known: w.known, mark: w.mark, full: true, nesting: w.nesting + 1, scratchBuf: w.scratchBuf}
		if out, err := inner.document(); err == nil {
			text, changed, all = out, inner.copied > 0, false
			// A secret with one of these may span more of a document than one string or number.
			if !strings.ContainsAny(w.known.special, "{}[]:,\" \t\r\n") {
				return text, changed
			}
		}
	}
	spans := secretsIn(text, k, all, &w.scratchBuf) // in a document, secrets that span several strings
	if len(spans) == 0 {
		return text, changed
	}
	return replace(text, spans, w.mark), true
}

// looksNested reports whether text may be a JSON array or object.
func looksNested(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 2 && (text[0] == '{' && text[len(text)-1] == '}' || text[0] == '[' && text[len(text)-1] == ']')
}

// findEmbedded appends the secrets that names indicate in JSON within a text.
// The JSON may be cut off. The caller finds secrets within its strings without
// parsing it, and JSON in those strings when it searches under the next layer
// of escapes.
func findEmbedded(text []byte, spans []span, buf *scratchBuffers) []span {
	for i := 0; i < len(text); {
		if c := text[i]; c != '{' && c != '[' || !mayOpenJSON(text, i) {
			i++
			continue
		}
		w := rewriter{raw: text, pos: i, full: true, spans: spans, namesOnly: true, scratchBuf: buf}
		err := w.value(0, false)
		spans, buf = w.spans, w.scratchBuf
		i = max(i+1, w.pos) // continue after the JSON,
		if err != nil && w.lastString > 0 {
			i = w.lastString + 1 // or after the quote that was not a string
		}
	}
	return spans
}

// mayOpenJSON reports whether JSON with a string or a container in it may begin
// at text[i].
func mayOpenJSON(text []byte, i int) bool {
	object := text[i] == '{'
	for i++; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n':
		case '"':
			return true
		case '{', '[':
			return !object
		default:
			return false
		}
	}
	return false
}

// readString returns the decoded string at the current position.
func (w *rewriter) readString() ([]byte, error) {
	end, form, err := jsonlex.String(w.raw, w.pos)
	if err != nil {
		return nil, err
	}
	text := w.raw[w.pos+1 : end-1]
	w.pos, w.lastString = end, w.pos
	if form&jsonlex.Escaped != 0 {
		room := w.scratch()
		room.name, _ = jsonlex.Unquote(room.name[:0], text)
		text = room.name
	}
	return text, nil
}

// Reasons why a document cannot be parsed. They are not shown to users.
var (
	errTrailing = errors.New("something after the value")
	errDepth    = errors.New("nested too deep")
	errComma    = errors.New("a comma or bracket is missing")
	errColon    = errors.New("a colon is missing")
)

// span is a secret part of a text.
type span struct{ start, end int }

// replace returns text with each span replaced by its mark; overlapping spans
// are merged.
func replace(text []byte, spans []span, mark func(dst, secret []byte) []byte) []byte {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	out := make([]byte, 0, len(text)+32)
	copied := 0
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].start < s.end; i++ {
			s.end = max(s.end, spans[i].end)
		}
		out = mark(append(out, text[copied:s.start]...), text[s.start:s.end])
		copied = s.end
	}
	return append(out, text[copied:]...)
}
