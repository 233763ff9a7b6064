package rank

import (
	"strings"
	"unicode"
)

// tokenize splits a text into terms: runs of letters or digits in lower case,
// with camelCase split and plurals reduced to singulars. more reports that the
// text was truncated.
func tokenize(text string, most int) (out []string, more bool) {
	if more = len(text) > maxFieldSize; more {
		text = text[:maxFieldSize]
	}
	var word []rune
	end := func() {
		switch {
		case len(word) == 0:
		case len(out) < most:
			out = append(out, stem(strings.ToLower(string(word))))
		default:
			more = true
		}
		word = word[:0]
	}
	var before rune
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case len(word) > 0 && (unicode.IsUpper(r) && unicode.IsLower(before) || unicode.IsDigit(r) != unicode.IsDigit(before)):
			end()
			word = append(word, r)
		case len(word) < maxWordLength:
			word = append(word, r)
		}
		before = r
		if more && len(out) == most {
			return out, true
		}
	}
	end()
	return out, more
}

// stem removes the plural ending of an English word. It need not be correct,
// only consistent.
func stem(word string) string {
	switch {
	case len(word) < 4:
		return word
	case strings.HasSuffix(word, "ies"):
		return word[:len(word)-3] + "y"
	case strings.HasSuffix(word, "sses"), strings.HasSuffix(word, "xes"), strings.HasSuffix(word, "ches"), strings.HasSuffix(word, "shes"):
		return word[:len(word)-2]
	case strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") && !strings.HasSuffix(word, "us") && !strings.HasSuffix(word, "is"):
		return word[:len(word)-1]
	}
	return word
}
