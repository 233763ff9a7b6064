package redact

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// maxNested is how many strings within strings are read as JSON.
const maxNested = 3

// rewriter walks raw JSON and copies it only from the first change on.
type rewriter struct {
	raw    []byte
	pos    int
	out    []byte
	copied int // raw[:copied] is dealt with in out
	known  *known
	mark   func(dst, secret []byte) []byte
	all    bool // names and shapes too, not only what is known
	nested int
	near   bool  // something known, or the sign of an escape, is in raw
	late   []int // where values begin that are secret by a label after them

	room *scratch // nil: not needed yet

	structure bool   // only what names tell is looked for, and nothing replaced
	spans     []span // what was found so
	last      int    // where the last string begins
}

func (w *rewriter) document() ([]byte, error) {
	w.near = w.known.near(w.raw)
	out, err := w.pass()
	if err != nil || len(w.late) == 0 {
		return out, err
	}
	slices.Sort(w.late)
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

// put replaces raw[start:end] by what write appends.
func (w *rewriter) put(start, end int, write func(dst []byte) []byte) {
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
			_, err := w.text()
			return err
		case c == '{':
			return w.list(depth, &siblings{object: true})
		case c == '[':
			return w.list(depth, &siblings{pair: inArray})
		case c == '-' || '0' <= c && c <= '9':
			return w.number()
		}
	}
	end, err := jsonlex.Literal(w.raw, w.pos)
	w.pos = end
	return err
}

func (w *rewriter) list(depth int, s *siblings) error {
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

// secret replaces the value of a member whose name says that it is one, but
// for what can be none: empty values, true, false and null.
func (w *rewriter) secret(depth int) error {
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
	if w.structure {
		w.found(start, end)
		return nil
	}
	w.put(start, end, func(dst []byte) []byte { return jsonlex.Quote(dst, w.mark(nil, value)) })
	return nil
}

func (w *rewriter) number() error {
	start := w.pos
	end, err := jsonlex.Number(w.raw, start)
	if err != nil {
		return err
	}
	w.pos = end
	if number := w.raw[start:end]; w.near && w.known.inNumber(number) {
		w.put(start, end, func(dst []byte) []byte { return jsonlex.Quote(dst, w.mark(nil, number)) })
	}
	return nil
}

func (w *rewriter) scratch() *scratch {
	if w.room == nil {
		w.room = new(scratch)
	}
	return w.room
}

// text cleans the string at hand and returns what it stood for, until the next
// one is read.
func (w *rewriter) text() ([]byte, error) {
	if w.structure {
		return w.read()
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
		buf := &w.scratch().texts[w.nested]
		*buf, _ = jsonlex.Unquote(slices.Grow((*buf)[:0], len(text)), text)
		text = *buf
	case form&jsonlex.NonASCII != 0:
		broken = !utf8.Valid(text)
	}
	clean, changed := w.clean(text, form&jsonlex.Escaped != 0)
	if changed || broken && w.all {
		w.put(start, end, func(dst []byte) []byte { return jsonlex.Quote(dst, clean) })
	}
	return text, nil
}

func (w *rewriter) clean(text []byte, escaped bool) (clean []byte, changed bool) {
	k := w.known
	if !w.near && !escaped {
		k = nil
	}
	all := w.all
	if all && w.nested < maxNested && looksNested(text) {
		inner := rewriter{raw: text, known: w.known, mark: w.mark, all: true, nested: w.nested + 1, room: w.room}
		if out, err := inner.document(); err == nil {
			if text, changed, all = out, inner.copied > 0, false; !w.known.structural() {
				return text, changed
			}
		}
	}
	spans := secretsIn(text, k, all, &w.room) // of a document, what is longer than its strings
	if len(spans) == 0 {
		return text, changed
	}
	return replace(text, spans, w.mark), true
}

// looksNested reports whether text may be an array or object of JSON.
func looksNested(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 2 && (text[0] == '{' && text[len(text)-1] == '}' || text[0] == '[' && text[len(text)-1] == ']')
}
