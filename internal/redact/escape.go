package redact

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"sallyport/internal/jsonlex"
)

// escapedForms returns how writers of JSON escape a secret, up to three
// times over as in JSON in a string of JSON, where that is not the secret itself.
func escapedForms(secret string) (forms [][]byte) {
	writers := []func(string) string{fewest, htmlSafe, asciiOnly, slashes}
	for _, write := range writers {
		form := secret
		for range 3 {
			form = write(form)
			if form != secret && !contains(forms, form) {
				forms = append(forms, []byte(form))
			}
		}
	}
	return forms
}

// fewest escapes as little as can be, as most writers do.
func fewest(s string) string {
	q := jsonlex.Quote(nil, s)
	return string(q[1 : len(q)-1])
}

// htmlSafe escapes what is special in HTML too, as encoding/json does.
func htmlSafe(s string) string {
	return strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "\u2028", `\u2028`, "\u2029", `\u2029`).Replace(fewest(s))
}

// slashes escapes the slash, as PHP does.
func slashes(s string) string { return strings.ReplaceAll(fewest(s), "/", `\/`) }

// asciiOnly escapes what is not ASCII, as Python does.
func asciiOnly(s string) string {
	var b strings.Builder
	for _, r := range fewest(s) {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
