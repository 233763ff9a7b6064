// Package shell quotes words for a POSIX shell.
package shell

import (
	"strings"
	"unicode"
)

// Quote quotes a word, if it needs quotes. Other people choose names, so a printed
// command must be safe to paste.
func Quote(word string) string {
	harmless := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:@%+=,", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !harmless(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
