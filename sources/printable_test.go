package sources_test

import (
	"testing"

	"sallyport/sources"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"Straße 7":                   "Straße 7",
		"a\r\nb\x1b[31m\u202e\u00a0": "a  b [31m  ",
		"äöüäöüäöüäöü":               "äöüäöüäöüäöü",
		"äöüäöüäöüäöü!":              "äöüäöüäöüäöü…",
		"a\xffb":                     "a\ufffdb",
	} {
		if got := sources.Printable(text, 12); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
