package redact

import "sallyport/internal/jsonlex"

// embedded appends where secrets are in the JSON within a text, as the names
// around them tell. The JSON may be cut off. What a string in it tells by
// itself is found without knowing that it is JSON, and JSON in a string of it
// when the text is looked at under one layer more.
func embedded(text []byte, spans []span, room *scratch) []span {
	for i := 0; i < len(text); {
		if c := text[i]; c != '{' && c != '[' || !opens(text, i) {
			i++
			continue
		}
		w := rewriter{raw: text, pos: i, all: true, spans: spans, structure: true, room: room}
		err := w.value(0, false)
		spans, room = w.spans, w.room
		i = max(i+1, w.pos) // nothing is looked at again,
		if err != nil && w.last > 0 {
			i = w.last + 1 // but for what may have been no string
		}
	}
	return spans
}

// opens reports whether JSON with a string or list in it may begin at text[i].
func opens(text []byte, i int) bool {
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

// found notes a secret value without replacing it: of a string what is
// between its quotes.
func (w *rewriter) found(start, end int) {
	if w.raw[start] == '"' {
		start, end = start+1, end-1
	}
	w.spans = append(w.spans, span{start, end})
}

// read returns what the string at hand stands for.
func (w *rewriter) read() ([]byte, error) {
	end, form, err := jsonlex.String(w.raw, w.pos)
	if err != nil {
		return nil, err
	}
	text := w.raw[w.pos+1 : end-1]
	w.pos, w.last = end, w.pos
	if form&jsonlex.Escaped != 0 {
		room := w.scratch()
		room.name, _ = jsonlex.Unquote(room.name[:0], text)
		text = room.name
	}
	return text, nil
}
