package redact

import (
	"bytes"
	"slices"

	"sallyport/internal/jsonlex"
)

// siblingState is what the preceding members or elements say of the next one.
type siblingState struct {
	object       bool
	mayBePair    bool // the array is in an array, and may be a name and a value
	index        int  // elements so far
	nextSecret   bool // the next element, or in an object the value, is a secret
	inPrivateKey bool // within a private key that is split into lines
	gluedOption  bool // the first element is one of gluedPasswordPrograms
	value        span // the value, if it came before its label
}

// member redacts a name and its value. A member that names another, as in
// {"name": "Authorization", "value": "…"}, makes the other one secret.
func (w *rewriter) member(depth int, s *siblingState) error {
	name, err := w.stringValue()
	if err != nil {
		return err
	}
	w.pos = jsonlex.Space(w.raw, w.pos)
	if w.pos == len(w.raw) || w.raw[w.pos] != ':' {
		return errColon
	}
	w.pos = jsonlex.Space(w.raw, w.pos+1)
	if !w.full {
		return w.value(depth, false)
	}
	switch roleOf(name) {
	case roleSecret:
		return w.redactValue(depth)
	case roleLabel:
		return w.labelMember(depth, s)
	case roleValue:
		if _, late := slices.BinarySearch(w.labelledLate, w.pos); late || s.nextSecret {
			return w.redactValue(depth)
		}
		s.value.start = w.pos
		err := w.value(depth, false)
		s.value.end = w.pos
		return err
	case roleSecretText:
		if end, _, err := jsonlex.String(w.raw, w.pos); err == nil && !isAuthScheme(w.raw[w.pos+1:end-1]) {
			return w.redactValue(depth)
		}
	}
	return w.value(depth, false)
}

// labelMember redacts a member that may name another one.
func (w *rewriter) labelMember(depth int, s *siblingState) error {
	if w.pos == len(w.raw) || w.raw[w.pos] != '"' {
		return w.value(depth, false)
	}
	text, err := w.stringValue()
	if err == nil && secretText(text) {
		s.nextSecret = true
		switch {
		case s.value.end == 0:
		case w.namesOnly:
			after := w.pos
			w.pos = s.value.start
			err = w.redactValue(depth)
			w.pos = after
		default:
			w.labelledLate = append(w.labelledLate, s.value.start)
		}
	}
	return err
}

// element redacts an element. In ["--token", "…"], in [["Authorization",
// "…"]] and in a private key line by line, an element makes the next one
// secret.
func (w *rewriter) element(depth int, s *siblingState) error {
	s.index++
	if w.pos == len(w.raw) || w.raw[w.pos] != '"' || !w.full {
		s.nextSecret = false
		return w.value(depth, true)
	}
	start := w.pos
	if s.nextSecret || s.inPrivateKey || s.gluedOption && bytes.HasPrefix(w.raw[start:], []byte(`"-p`)) && w.raw[start+3] != '"' {
		if err := w.redactValue(depth); err != nil {
			return err
		}
		s.nextSecret = false
		if s.inPrivateKey {
			s.inPrivateKey = !bytes.Contains(w.raw[start:w.pos], []byte("-----END "))
		}
		return nil
	}
	text, err := w.stringValue()
	if err != nil || len(text) == 0 {
		return err
	}
	switch {
	case text[0] == '-':
		s.nextSecret = bytes.HasPrefix(text, []byte("--")) && secretText(text)
		s.inPrivateKey = findPrivateKey(text, 0).end == len(text) && !bytes.Contains(text, []byte("-----END "))
	case s.index == 1 && inCommand(text, len(text), gluedPasswordPrograms...):
		s.gluedOption = true
	case s.mayBePair && s.index == 1:
		s.nextSecret = secretName(text) && w.nextIsLast()
	}
	return nil
}

// nextIsLast reports whether exactly one more element, a string, follows in the
// array.
func (w *rewriter) nextIsLast() bool {
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
