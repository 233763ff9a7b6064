package redact

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// MinSecret is the length under which a known secret is not looked for: it
// would be found everywhere and tear the text apart. Nobody should use one.
const MinSecret = 6

// known are the secrets that the caller knows of, in the forms in which they
// may come back.
type known struct {
	plain   [][]byte // as they are
	escaped [][]byte // as they stand in JSON, where that differs
	percent [][]byte // as they stand in a URL, where that differs
	encoded [][]byte // what base64 makes of them whatever stands before
	numeric bool     // one of them could be part of a number
}

func newKnown(secrets []string) *known {
	if len(secrets) == 0 {
		return &known{}
	}
	k := &known{}
	for _, s := range secrets {
		s = strings.TrimSpace(s)
		if len(s) < MinSecret || contains(k.plain, s) {
			continue
		}
		k.plain = append(k.plain, []byte(s))
		if run([]byte(s), 0, tokenSet) < len(s) || strings.ContainsAny(s, "+/=") {
			k.escaped = append(k.escaped, escapedForms(s)...)
			k.percent = append(k.percent, percentForms(s)...)
		}
		k.encoded = append(k.encoded, encodedForms(s)...)
		k.numeric = k.numeric || strings.Trim(s, "0123456789+-.eE") == ""
	}
	return k
}

func contains(list [][]byte, s string) bool {
	return slices.ContainsFunc(list, func(b []byte) bool { return string(b) == s })
}

// near reports whether doc, raw, may hold something known outside of strings
// with escapes.
func (k *known) near(doc []byte) bool {
	if len(k.plain) == 0 {
		return false
	}
	return bytes.IndexByte(doc, '%') >= 0 || k.literally(doc)
}

// literally reports whether one of the forms is in text as it is.
func (k *known) literally(text []byte) bool {
	for _, list := range [...][][]byte{k.plain, k.encoded, k.escaped, k.percent} {
		for _, form := range list {
			if bytes.Contains(text, form) {
				return true
			}
		}
	}
	return false
}

func (k *known) inNumber(number []byte) bool {
	return k.numeric && slices.ContainsFunc(k.plain, func(s []byte) bool { return bytes.Contains(number, s) })
}

// find appends where in text, which is not escaped, something known is.
func (k *known) find(text []byte, spans []span) []span {
	for _, list := range [...][][]byte{k.plain, k.escaped, k.percent} {
		for _, form := range list {
			spans = findAll(text, form, false, spans)
		}
	}
	for _, core := range k.encoded {
		spans = findAll(text, core, true, spans)
	}
	if len(k.plain) > 0 && bytes.IndexByte(text, '%') >= 0 {
		for _, secret := range k.plain {
			spans = findPercent(text, secret, spans)
		}
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

// encodedForms returns, for each of the three ways in which a secret can lie
// across the groups of base64, the digits that depend on the secret alone.
func encodedForms(secret string) (forms [][]byte) {
	for before := range 3 {
		shifted := append(make([]byte, before, before+len(secret)), secret...)
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

// percentForms returns the usual ways to write a secret in a URL; others are
// found by findPercent once there is a percent sign.
func percentForms(secret string) (forms [][]byte) {
	query := url.QueryEscape(secret)
	// As encodeURIComponent does.
	component := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(query)
	for _, form := range []string{query, component, url.PathEscape(secret)} {
		for _, f := range []string{form, lowerHex(form)} {
			if f != secret && !contains(forms, f) {
				forms = append(forms, []byte(f))
			}
		}
	}
	return forms
}

// lowerHex writes the digits behind each percent sign in lower case.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// findPercent finds a secret of which any bytes are percent-encoded.
func findPercent(text, secret []byte, spans []span) []span {
	for i := 0; i < len(text); i++ {
		if text[i] != secret[0] && text[i] != '%' {
			continue
		}
		if end := matchPercent(text, i, secret); end > 0 {
			spans = append(spans, span{i, end})
			i = end - 1
		}
	}
	return spans
}

// matchPercent returns the end of the secret that begins at text[i], or zero.
func matchPercent(text []byte, i int, secret []byte) int {
	for _, c := range secret {
		switch {
		case i+2 < len(text) && text[i] == '%' && unhex(text[i+1])<<4|unhex(text[i+2]) == int(c):
			i += 3
		case i < len(text) && (text[i] == c || text[i] == '+' && c == ' '):
			i++
		default:
			return 0
		}
	}
	return i
}

// unhex returns the value of a hex digit, or something too large for a byte.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return 1 << 16
}
