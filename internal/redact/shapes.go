package redact

import (
	"bytes"
	"encoding/base64"
)

// shape is how the credentials of some service look.
type shape struct {
	prefix string
	min    int   // bytes after the prefix
	set    uint8 // of the bytes after the prefix
	need   need  // what else there must be in it
}

// need is what tells a credential from an ordinary word. What a run of bytes
// lacks, every end of it lacks too: so that a long run is looked at once.
type need uint8

const (
	needNothing need = iota
	needDigit
	needDots // two, as between the parts of a JWT, the last of which may be empty
	needs
)

func (n need) met(token []byte) bool {
	switch n {
	case needDigit:
		return bytes.ContainsAny(token, "0123456789")
	case needDots:
		return bytes.Count(token, []byte{'.'}) >= 2
	}
	return true
}

// shapes appends where text, which is not escaped, has what looks like a
// credential.
func shapes(text []byte, spans []span) []span {
	var lacking [needs]int
	for i := 0; i < len(text); i++ {
		kind := triggers[text[i]]
		if kind == nothing {
			continue
		}
		var s span
		switch kind {
		case first:
			if begins(text, i) {
				s = shaped(text, i, &lacking)
				if text[i] == 'p' && s.end == 0 {
					s = netrc(text, i)
				}
			}
		case scheme:
			s = schemed(text, i)
		case colon:
			s = afterColon(text, i)
		case equals:
			s = afterEquals(text, i)
		case hyphen:
			if s = pem(text, i); s.end == 0 {
				s = option(text, i)
			}
		case bracket:
			s = element(text, i)
		}
		if s.end > s.start {
			spans = append(spans, s)
			i = max(i, s.end-1)
		}
	}
	return spans
}

// begins reports whether a word can begin at text[i].
func begins(text []byte, i int) bool { return i == 0 || sets[text[i-1]]&alnum == 0 }

// shaped finds a credential that begins at text[i]. lacking tells how far the
// text is known to lack what a shape needs.
func shaped(text []byte, i int, lacking *[needs]int) span {
	for _, s := range byFirst[text[i]] {
		head := i + len(s.prefix)
		if len(text) < head+s.min || text[i+1] != s.prefix[1] || string(text[i:head]) != s.prefix || i < lacking[s.need] {
			continue
		}
		end := run(text, head, s.set)
		switch {
		case end < head+s.min:
		case !s.need.met(text[i:end]):
			lacking[s.need] = end
		default:
			return span{i, end}
		}
	}
	return span{}
}

// minBearer is the length from which the word after Bearer counts as a token.
const minBearer = 8

// schemed finds the credential after Bearer or Basic.
func schemed(text []byte, i int) span {
	word := text[i:min(len(text), i+6)]
	bearer := len(word) == 6 && bytes.EqualFold(word, []byte("bearer"))
	if !bearer && (len(word) < 5 || !bytes.EqualFold(word[:5], []byte("basic"))) || !begins(text, i) {
		return span{}
	}
	at := i + 5
	if bearer {
		at++
	}
	start := blank(text, at, bearer)
	if start == at {
		return span{}
	}
	if !bearer {
		end := run(text, start, base64Set)
		if !isBasic(text[start:end]) {
			return span{}
		}
		return span{start, end}
	}
	end := run(text, start, tokenSet)
	if end-start < minBearer {
		return span{}
	}
	return span{start, end}
}

// blank returns the end of the white space at text[i], which a URL may write
// as + where plus says so.
func blank(text []byte, i int, plus bool) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || plus && text[i] == '+') {
		i++
	}
	return i
}

// isBasic tells a user and password in base64 from an ordinary word.
func isBasic(token []byte) bool {
	plain, err := base64.RawStdEncoding.DecodeString(string(bytes.TrimRight(token, "=")))
	return err == nil && bytes.IndexByte(plain, ':') >= 0
}

// pem finds a private key in PEM, to its end or that of the text.
func pem(text []byte, i int) span {
	rest := text[i:]
	if !bytes.HasPrefix(rest, []byte("-----BEGIN ")) {
		return span{}
	}
	label, _, ok := bytes.Cut(rest[11:min(len(rest), 64)], []byte("-----"))
	if !ok || !bytes.HasSuffix(bytes.TrimSuffix(label, []byte(" BLOCK")), []byte("PRIVATE KEY")) {
		return span{}
	}
	from := 11 + len(label)
	end := bytes.Index(rest[from:], []byte("-----END "))
	if end < 0 {
		return span{i, len(text)}
	}
	from += end + 9
	if end = bytes.Index(rest[from:], []byte("-----")); end < 0 {
		return span{i, len(text)}
	}
	return span{i, i + from + end + 5}
}
