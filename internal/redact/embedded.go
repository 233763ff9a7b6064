package redact

import "sallyport/internal/jsonlex"

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

// markSpan records a secret without replacing it; of a string, its content.
func (w *rewriter) markSpan(start, end int) {
	if w.raw[start] == '"' {
		start, end = start+1, end-1
	}
	w.spans = append(w.spans, span{start, end})
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
