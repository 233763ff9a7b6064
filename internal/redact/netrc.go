package redact

import "bytes"

// findNetrc finds the password in login NAME password WORD, the format of
// .netrc. Without a preceding machine, a plain word may be prose: a login page
// password field.
func findNetrc(text []byte, i int) span {
	rest, ok := bytes.CutPrefix(text[i:], []byte("password"))
	after := len(text) - len(rest)
	start := skipSpace(text, after)
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

func skipSpace(text []byte, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}
