package redact

import (
	"bytes"
	"strings"
)

// maxName bounds how far back the name before a colon or = is looked for.
const maxName = 40

// afterColon finds the secret that a colon points out: the user of a URL, the
// rest of a header line, the value of a pair.
func afterColon(text []byte, i int) span {
	if bytes.HasPrefix(text[i:], []byte("://")) {
		return userinfo(text, i+3)
	}
	if i == 0 {
		return span{}
	}
	if q := text[i-1]; q == '"' || q == '\'' {
		return quotedPair(text, i)
	}
	name := nameBefore(text, i)
	switch {
	case len(name) == 0:
		return span{}
	case secretHeader(name):
		return line(text, i+1, i-len(name))
	case passwordName(name):
		return word(text, i+1)
	}
	return span{}
}

// afterEquals finds the value of name=value, as in the query of a URL.
func afterEquals(text []byte, i int) span {
	name := nameBefore(text, i)
	if len(name) == 0 || !secretParameter(name) || i+1 < len(text) && text[i+1] == '=' {
		return span{}
	}
	return value(text, i+1)
}

// nameBefore returns the name that ends before text[i].
func nameBefore(text []byte, i int) []byte {
	start := i
	for start > 0 && i-start < maxName && sets[text[start-1]]&nameSet != 0 {
		start--
	}
	return text[start:i]
}

// userinfo finds user and password of the authority that begins at text[i].
// The user git alone is everyone's.
func userinfo(text []byte, i int) span {
	end, at := i, -1
	for ; end < len(text) && strings.IndexByte(" \t\r\n\"'<>`\\/?#", text[end]) < 0; end++ {
		if text[end] == '@' {
			at = end
		}
	}
	if at <= i || string(text[i:at]) == "git" || isMark(text[i:at]) {
		return span{}
	}
	return span{i, at}
}

// line takes what follows a header's name, to the end of the line or of the
// quotes in which the header stands. from is where the name begins.
func line(text []byte, i, from int) span {
	stop := "\r\n"
	if from > 0 && strings.IndexByte("\"'`", text[from-1]) >= 0 {
		stop += string(rune(text[from-1]))
	}
	start := spaces(text, i)
	end := start
	for end < len(text) && strings.IndexByte(stop, text[end]) < 0 {
		end++
	}
	return unmarked(text, start, end)
}

// word takes the next word, or what is between quotes. The words by which
// programs name a type or nothing are no passwords.
func word(text []byte, i int) span {
	s := value(text, spaces(text, i))
	switch string(bytes.TrimRight(text[s.start:s.end], ",;")) {
	case "string", "str", "String", "boolean", "bool", "number", "int", "null", "nil", "None", "true", "false", "undefined", "none",
		"required", "optional", "any":
		return span{}
	}
	return s
}

// value takes what follows an equals sign or colon.
func value(text []byte, i int) span {
	if i < len(text) && (text[i] == '"' || text[i] == '\'') {
		end := closing(text, i+1, text[i], false)
		return unmarked(text, i+1, end)
	}
	end := i
	for end < len(text) && strings.IndexByte(" \t\r\n\"'`<>&#", text[end]) < 0 {
		end++
	}
	return unmarked(text, i, end)
}

// quotedPair finds the value of "name": value in text that is not JSON as a
// whole. The quotes may be escaped, when the text was quoted once more.
func quotedPair(text []byte, i int) span {
	quote, end := text[i-1], i-1
	escaped := end > 0 && text[end-1] == '\\'
	if escaped {
		end--
	}
	name := nameBefore(text, end)
	if from := end - len(name); from == 0 || text[from-1] != quote || !secretName(name) {
		return span{}
	}
	start := spaces(text, i+1)
	if escaped && start < len(text) && text[start] == '\\' {
		start++
	} else {
		escaped = false
	}
	if start < len(text) && text[start] == quote {
		return unmarked(text, start+1, closing(text, start+1, quote, escaped))
	}
	end = start
	for end < len(text) && strings.IndexByte(" \t\r\n,}]", text[end]) < 0 {
		end++
	}
	if end < len(text) && isMark(text[start:end+1]) {
		return span{}
	}
	switch string(text[start:end]) {
	case "true", "false", "null", "None", "{", "[":
		return span{}
	}
	return unmarked(text, start, end)
}

// closing returns where the quotes end that were opened before text[i].
func closing(text []byte, i int, quote byte, escaped bool) int {
	for ; i < len(text); i++ {
		switch {
		case escaped && text[i] == '\\' && i+1 < len(text) && text[i+1] == quote:
			return i
		case escaped && bytes.HasPrefix(text[i:], []byte(`\\`)):
			if i += 2; i < len(text) && text[i] == '\\' {
				i++ // what a backslash escapes was escaped once more
			}
		case text[i] == '\\':
			i++
		case text[i] == quote:
			return i
		}
	}
	return len(text)
}

func spaces(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	return i
}

// unmarked returns the span unless it is empty or redacted already.
func unmarked(text []byte, start, end int) span {
	if end <= start || isMark(text[start:end]) {
		return span{}
	}
	return span{start, end}
}
