package redact

import "bytes"

// netrc finds the password in login NAME password WORD, as the file .netrc
// has it. Where no machine is named before, a plain word may as well be prose:
// a login page password field.
func netrc(text []byte, i int) span {
	rest, ok := bytes.CutPrefix(text[i:], []byte("password"))
	after := len(text) - len(rest)
	start := whites(text, after)
	if !ok || start == after || start == len(text) {
		return span{}
	}
	end := start
	for end < len(text) && !white(text[end]) {
		end++
	}
	key, at := keyBefore(text, i)
	plain := run(text, start, lower) >= len(bytes.TrimRight(text[:end], ".,;:!?)"))
	switch {
	case key == "machine":
	case key != "login" && key != "account", plain && !inEntry(text, at):
		return span{}
	}
	return unmarked(text, start, end)
}

// inEntry reports whether what is before text[i] belongs to a machine.
func inEntry(text []byte, i int) bool {
	word, _ := wordBefore(text, i)
	key, _ := keyBefore(text, i)
	return key == "machine" || key == "login" || key == "account" || string(word) == "default"
}

// keyBefore returns the key of the pair of words that ends before text[i], and
// where it begins.
func keyBefore(text []byte, i int) (key string, start int) {
	_, at := wordBefore(text, i)
	word, start := wordBefore(text, at)
	if len(word) > len("machine") {
		return "", start
	}
	return string(word), start
}

// wordBefore returns the word before text[i], and where it begins.
func wordBefore(text []byte, i int) (word []byte, start int) {
	for i > 0 && white(text[i-1]) {
		i--
	}
	end := i
	for i > 0 && !white(text[i-1]) {
		i--
	}
	return text[i:end], i
}

func white(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func whites(text []byte, i int) int {
	for i < len(text) && white(text[i]) {
		i++
	}
	return i
}
