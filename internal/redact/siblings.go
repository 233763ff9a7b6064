package redact

import (
	"bytes"
	"slices"

	"sallyport/internal/jsonlex"
)

// siblings is what the members or elements before say of the next one.
type siblings struct {
	object bool
	pair   bool // the array is in an array, and may be a name with its value
	n      int  // elements so far
	secret bool // the next element is one; in an object, the value is
	open   bool // a private key in lines has begun
	glued  bool // the first element is a program of gluing
	value  span // the value, when it came before its label
}

// member cleans a name and its value. A member that says what another holds,
// as in {"name": "Authorization", "value": "…"}, makes a secret of that one.
func (w *rewriter) member(depth int, s *siblings) error {
	name, err := w.text()
	if err != nil {
		return err
	}
	w.pos = jsonlex.Space(w.raw, w.pos)
	if w.pos == len(w.raw) || w.raw[w.pos] != ':' {
		return errColon
	}
	w.pos = jsonlex.Space(w.raw, w.pos+1)
	if !w.all {
		return w.value(depth, false)
	}
	switch roleOf(name) {
	case secretNamed:
		return w.secret(depth)
	case labelNamed:
		return w.label(depth, s)
	case valueNamed:
		if _, late := slices.BinarySearch(w.late, w.pos); late || s.secret {
			return w.secret(depth)
		}
		s.value.start = w.pos
		err := w.value(depth, false)
		s.value.end = w.pos
		return err
	case textNamed:
		if end, _, err := jsonlex.String(w.raw, w.pos); err == nil && !isKind(w.raw[w.pos+1:end-1]) {
			return w.secret(depth)
		}
	}
	return w.value(depth, false)
}

// label cleans what may be the name of another member.
func (w *rewriter) label(depth int, s *siblings) error {
	if w.pos == len(w.raw) || w.raw[w.pos] != '"' {
		return w.value(depth, false)
	}
	text, err := w.text()
	if err == nil && secretText(text) {
		s.secret = true
		switch {
		case s.value.end == 0:
		case w.structure:
			after := w.pos
			w.pos = s.value.start
			err = w.secret(depth)
			w.pos = after
		default:
			w.late = append(w.late, s.value.start)
		}
	}
	return err
}

// element cleans an element. In ["--token", "…"], in [["Authorization", "…"]]
// and in a private key line by line, one says that the next is secret.
func (w *rewriter) element(depth int, s *siblings) error {
	s.n++
	if w.pos == len(w.raw) || w.raw[w.pos] != '"' || !w.all {
		s.secret = false
		return w.value(depth, true)
	}
	start := w.pos
	if s.secret || s.open || s.glued && bytes.HasPrefix(w.raw[start:], []byte(`"-p`)) && w.raw[start+3] != '"' {
		if err := w.secret(depth); err != nil {
			return err
		}
		s.secret = false
		if s.open {
			s.open = !bytes.Contains(w.raw[start:w.pos], []byte("-----END "))
		}
		return nil
	}
	text, err := w.text()
	if err != nil || len(text) == 0 {
		return err
	}
	switch {
	case text[0] == '-':
		s.secret = bytes.HasPrefix(text, []byte("--")) && secretText(text)
		s.open = pem(text, 0).end == len(text) && !bytes.Contains(text, []byte("-----END "))
	case s.n == 1 && commands(text, len(text), gluing...):
		s.glued = true
	case s.pair && s.n == 1:
		s.secret = secretName(text) && w.lastIsNext()
	}
	return nil
}

// lastIsNext reports whether one more element, a string, ends the array.
func (w *rewriter) lastIsNext() bool {
	i := jsonlex.Space(w.raw, w.pos)
	if i == len(w.raw) || w.raw[i] != ',' {
		return false
	}
	if i = jsonlex.Space(w.raw, i+1); i == len(w.raw) || w.raw[i] != '"' {
		return false
	}
	i = jsonlex.Space(w.raw, jsonlex.Skip(w.raw, i))
	return i < len(w.raw) && w.raw[i] == ']'
}
