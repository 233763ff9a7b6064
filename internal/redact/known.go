package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// MinSecret is the minimum length of a known secret to search for. Shorter ones
// would match everywhere.
const MinSecret = 6

// known holds the secrets that the caller passed, in the forms in which they
// may appear. Escaped forms are found by secretsIn.
type known struct {
	plain    [][]byte // unchanged, in hex, and with + for spaces
	encoded  [][]byte // their base64 forms, for each alignment
	numeric  bool     // one of them may be part of a number
	special  string   // their bytes that are often escaped
	nonASCII bool     // one of them is not ASCII
}

func newKnown(secrets []string) *known {
	if len(secrets) == 0 {
		return &known{}
	}
	k := &known{plain: make([][]byte, 0, 3*len(secrets))}
	for _, s := range secrets {
		s = strings.TrimSpace(s)
		if len(s) < MinSecret || slices.ContainsFunc(k.plain, func(b []byte) bool { return string(b) == s }) {
			continue
		}
		digits := hex.EncodeToString([]byte(s))
		k.plain = append(k.plain, []byte(s), []byte(digits), []byte(strings.ToUpper(digits)))
		if strings.Contains(s, " ") { // in the form of a query
			k.plain = append(k.plain, []byte(strings.ReplaceAll(s, " ", "+")))
		}
		k.encoded = append(k.encoded, encodedForms(s)...)
		k.numeric = k.numeric || strings.Trim(s, "0123456789+-.eE") == ""
		k.noteSpecialBytes(s)
	}
	return k
}

// noteSpecialBytes records which escapes a secret may be under.
func (k *known) noteSpecialBytes(secret string) {
	for _, c := range []byte(secret) {
		switch {
		case c >= utf8.RuneSelf:
			k.nonASCII = true
		case (sets[c]&tokenSet == 0 || c == '/') && strings.IndexByte(k.special, c) < 0:
			k.special += string(rune(c))
		}
	}
}

// containsForm reports whether text contains one of the forms unescaped.
func (k *known) containsForm(text []byte) bool {
	for _, list := range [...][][]byte{k.plain, k.encoded} {
		for _, form := range list {
			if bytes.Contains(text, form) {
				return true
			}
		}
	}
	return false
}

// mayBeEscaped reports whether text has an escape that a secret could be under:
// of a byte that needs none, or of a byte of a secret.
func (k *known) mayBeEscaped(text []byte) bool {
	for _, mark := range []byte{'\\', '%', '&'} {
		for i := bytes.IndexByte(text, mark); i >= 0; {
			if k.escapeMatters(text[i:]) {
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

// escapeMatters reports whether the escape that text begins with may be part of
// a secret or of another escape.
func (k *known) escapeMatters(text []byte) bool {
	r, n := escapeAt(text, 0)
	if r < 0 {
		r = -1 - r
	}
	switch {
	case n == 0:
		return false
	case r >= utf8.RuneSelf:
		return k.nonASCII
	}
	return sets[r]&tokenSet != 0 && (r != '/' || n > 2) || strings.ContainsRune(escapeBytes, r) || strings.ContainsRune(k.special, r)
}

// find appends the known secrets in text, which is not escaped. A nil receiver
// finds nothing.
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

func findAll(text, needle []byte, encoded bool, spans []span) []span {
	for from := 0; ; {
		i := bytes.Index(text[from:], needle)
		if i < 0 {
			return spans
		}
		s := span{from + i, from + i + len(needle)}
		// The edges of the run of base64 hold bits of the secret's first and last bytes.
		for encoded && s.start > 0 && sets[text[s.start-1]]&base64Set != 0 {
			s.start--
		}
		for encoded && s.end < len(text) && sets[text[s.end]]&base64Set != 0 {
			s.end++
		}
		spans = append(spans, s)
		from = s.end
	}
}

// encodedForms returns, for each of the three alignments of a secret in base64,
// the digits that depend on the secret alone.
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
