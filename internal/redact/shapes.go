package redact

import (
	"bytes"
	"encoding/base64"
)

// tokenShape is the format of a service's credentials.
type tokenShape struct {
	prefix string
	min    int         // minimum number of bytes after the prefix
	set    uint8       // character class of the bytes after the prefix
	need   requirement // additional requirement
}

// requirement distinguishes a credential from an ordinary word. If a run of
// bytes does not meet one, no suffix of it does, so a long run is checked once.
type requirement uint8

const (
	needNothing requirement = iota
	needDigit
	needDots // two, as in a JWT, whose last part may be empty
	requirements
)

func (n requirement) met(token []byte) bool {
	switch n {
	case needDigit:
		return bytes.ContainsAny(token, "0123456789")
	case needDots:
		return bytes.Count(token, []byte{'.'}) >= 2
	}
	return true
}

// findShapes appends the spans of text, which is not escaped, that look like a
// credential.
func findShapes(text []byte, spans []span) []span {
	var lacking [requirements]int
	for i := 0; i < len(text); i++ {
		kind := triggers[text[i]]
		if kind == triggerNone {
			continue
		}
		var s span
		switch kind {
		case triggerShape:
			if atWordStart(text, i) {
				s = findShape(text, i, &lacking)
				if text[i] == 'p' && s.end == 0 {
					s = findNetrc(text, i)
				}
			}
		case triggerScheme:
			s = findAuthScheme(text, i)
		case triggerColon:
			s = afterColon(text, i)
		case triggerEquals:
			s = afterEquals(text, i)
		case triggerHyphen:
			if s = findPrivateKey(text, i); s.end == 0 {
				s = commandOption(text, i)
			}
		case triggerBracket:
			s = xmlElement(text, i)
		}
		if s.end > s.start {
			spans = append(spans, s)
			i = max(i, s.end-1)
		}
	}
	return spans
}

// atWordStart reports whether a word can begin at text[i].
func atWordStart(text []byte, i int) bool { return i == 0 || sets[text[i-1]]&alnum == 0 }

// findShape finds a credential that begins at text[i]. lacking caches up to
// where the text does not meet each requirement.
func findShape(text []byte, i int, lacking *[requirements]int) span {
	for _, s := range shapesByFirstByte[text[i]] {
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

// minBearer is the minimum length of a token after Bearer.
const minBearer = 8

// findAuthScheme finds the credential after Bearer or Basic.
func findAuthScheme(text []byte, i int) span {
	word := text[i:min(len(text), i+6)]
	bearer := len(word) == 6 && bytes.EqualFold(word, []byte("bearer"))
	if !bearer && (len(word) < 5 || !bytes.EqualFold(word[:5], []byte("basic"))) || !atWordStart(text, i) {
		return span{}
	}
	at := i + 5
	if bearer {
		at++
	}
	start := at
	for start < len(text) && (text[start] == ' ' || text[start] == '\t' || bearer && text[start] == '+') { // + is a space in a URL
		start++
	}
	if start == at {
		return span{}
	}
	if !bearer {
		end := run(text, start, base64Set)
		// A user and password in base64, not an ordinary word.
		plain, err := base64.RawStdEncoding.DecodeString(string(bytes.TrimRight(text[start:end], "=")))
		if err != nil || bytes.IndexByte(plain, ':') < 0 {
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

// findPrivateKey finds a private key in PEM, up to its end or that of the text.
func findPrivateKey(text []byte, i int) span {
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

// findNetrc finds the password in login NAME password WORD, the format of
// .netrc. Without a preceding machine, a plain word may be prose: a login page
// password field.
func findNetrc(text []byte, i int) span {
	rest, ok := bytes.CutPrefix(text[i:], []byte("password"))
	after := len(text) - len(rest)
	start := after
	for start < len(text) && isSpace(text[start]) {
		start++
	}
	if !ok || start == after || start == len(text) {
		return span{}
	}
	end := start
	for end < len(text) && !isSpace(text[end]) {
		end++
	}
	key, at := keyBefore(text, i)
	plain := run(text, start, lower) >= len(bytes.TrimRight(text[:end], ".,;:!?)"))
	switch {
	case key == "machine":
	case key != "login" && key != "account", plain && !inNetrcEntry(text, at):
		return span{}
	}
	return unlessMarked(text, start, end)
}

// inNetrcEntry reports whether the text before text[i] belongs to an entry for
// a machine.
func inNetrcEntry(text []byte, i int) bool {
	word, _ := wordBefore(text, i)
	key, _ := keyBefore(text, i)
	return key == "machine" || key == "login" || key == "account" || string(word) == "default"
}

// keyBefore returns the key of the pair of words that ends before text[i], and
// its start.
func keyBefore(text []byte, i int) (key string, start int) {
	_, at := wordBefore(text, i)
	word, start := wordBefore(text, at)
	if len(word) > len("machine") {
		return "", start
	}
	return string(word), start
}

// wordBefore returns the word before text[i], and its start.
func wordBefore(text []byte, i int) (word []byte, start int) {
	for i > 0 && isSpace(text[i-1]) {
		i--
	}
	end := i
	for i > 0 && !isSpace(text[i-1]) {
		i--
	}
	return text[i:end], i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
