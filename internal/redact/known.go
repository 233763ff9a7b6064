package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// MinSecret is the length under which a known secret is not looked for: it
// would be found everywhere and tear the text apart. Nobody should use one.
const MinSecret = 6

// known are the secrets that the caller knows of, in the forms in which they
// may come back. Escapes are not among them; see secretsIn.
type known struct {
	plain   [][]byte // as they are, in hex, with + for blanks
	encoded [][]byte // what base64 makes of them whatever stands before
	numeric bool     // one of them could be part of a number
	special string   // the bytes of them that are often escaped
	foreign bool     // one of them is not ASCII
}

func newKnown(secrets []string) *known {
	if len(secrets) == 0 {
		return &known{}
	}
	k := &known{plain: make([][]byte, 0, 3*len(secrets))}
	for _, s := range secrets {
		s = strings.TrimSpace(s)
		if len(s) < MinSecret || contains(k.plain, s) {
			continue
		}
		k.plain = appendForms(k.plain, s)
		k.encoded = append(k.encoded, encodedForms(s)...)
		k.numeric = k.numeric || strings.Trim(s, "0123456789+-.eE") == ""
		k.note(s)
	}
	return k
}

// note keeps what tells whether a secret can be under an escape.
func (k *known) note(secret string) {
	for _, c := range []byte(secret) {
		switch {
		case c >= utf8.RuneSelf:
			k.foreign = true
		case (sets[c]&tokenSet == 0 || c == '/') && strings.IndexByte(k.special, c) < 0:
			k.special += string(rune(c))
		}
	}
}

// structural reports whether one of the secrets may be more of a document than
// a string or number of it.
func (k *known) structural() bool { return strings.ContainsAny(k.special, "{}[]:,\" \t\r\n") }

func contains(list [][]byte, s string) bool {
	return slices.ContainsFunc(list, func(b []byte) bool { return string(b) == s })
}

// near reports whether doc, raw, may hold something known outside of strings
// with escapes.
func (k *known) near(doc []byte) bool {
	if len(k.plain) == 0 {
		return false
	}
	return bytes.IndexByte(doc, '%') >= 0 || bytes.IndexByte(doc, '&') >= 0 || k.literally(doc)
}

// literally reports whether one of the forms is in text as it is.
func (k *known) literally(text []byte) bool {
	for _, list := range [...][][]byte{k.plain, k.encoded} {
		for _, form := range list {
			if bytes.Contains(text, form) {
				return true
			}
		}
	}
	return false
}

// hidden reports whether text has an escape that one of the secrets could be
// under: of a byte that needs none, or of one that is in a secret.
func (k *known) hidden(text []byte) bool {
	for _, mark := range []byte{'\\', '%', '&'} {
		for i := bytes.IndexByte(text, mark); i >= 0; {
			if k.under(text[i:]) {
				return true
			}
			next := bytes.IndexByte(text[i+1:], mark)
			if next < 0 {
				break
			}
			i += 1 + next
		}
	}
	return false
}

// under reports whether the escape that text begins with may be a part of a
// secret, or of another escape.
func (k *known) under(text []byte) bool {
	r, n := escapeAt(text, 0)
	if r < 0 {
		r = -1 - r
	}
	switch {
	case n == 0:
		return false
	case r >= utf8.RuneSelf:
		return k.foreign
	}
	return sets[r]&tokenSet != 0 && (r != '/' || n > 2) || strings.ContainsRune(joints, r) || strings.ContainsRune(k.special, r)
}

func (k *known) inNumber(number []byte) bool {
	return k.numeric && slices.ContainsFunc(k.plain, func(s []byte) bool { return bytes.Contains(number, s) })
}

// find appends where in text, which is not escaped, something known is.
// Nothing is of nil.
func (k *known) find(text []byte, spans []span) []span {
	if k == nil {
		return spans
	}
	for _, form := range k.plain {
		spans = findAll(text, form, false, spans)
	}
	for _, core := range k.encoded {
		spans = findAll(text, core, true, spans)
	}
	return spans
}

func findAll(text, form []byte, encoded bool, spans []span) []span {
	for from := 0; ; {
		i := bytes.Index(text[from:], form)
		if i < 0 {
			return spans
		}
		s := span{from + i, from + i + len(form)}
		if encoded {
			s = widen(text, s)
		}
		spans = append(spans, s)
		from = s.end
	}
}

// widen takes the whole run of base64 of which the span is a part: its edges
// hold the bits of the secret's first and last bytes.
func widen(text []byte, s span) span {
	for s.start > 0 && sets[text[s.start-1]]&base64Set != 0 {
		s.start--
	}
	for s.end < len(text) && sets[text[s.end]]&base64Set != 0 {
		s.end++
	}
	return s
}

// appendForms appends the secret as it is, in hex, and as a query has it when
// there are blanks in it.
func appendForms(forms [][]byte, secret string) [][]byte {
	plain := []byte(secret)
	digits := hex.AppendEncode(nil, plain)
	forms = append(forms, plain, digits, bytes.ToUpper(digits))
	if strings.Contains(secret, " ") {
		forms = append(forms, bytes.ReplaceAll(plain, []byte{' '}, []byte{'+'}))
	}
	return forms
}

// encodedForms returns, for each of the three ways in which a secret can lie
// across the groups of base64, the digits that depend on the secret alone.
func encodedForms(secret string) (forms [][]byte) {
	padded := append(make([]byte, 2, 2+len(secret)), secret...)
	forms = make([][]byte, 0, 3)
	for before := range 3 {
		shifted := padded[2-before:]
		first := (before*8 + 5) / 6
		last := len(shifted) * 8 / 6
		std := base64.StdEncoding.AppendEncode(nil, shifted)[first:last]
		forms = append(forms, std)
		if bytes.ContainsAny(std, "+/") {
			forms = append(forms, base64.URLEncoding.AppendEncode(nil, shifted)[first:last])
		}
	}
	return forms
}
