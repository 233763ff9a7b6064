package render

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flat writes segments as text, marking what is not plain.
func flat(segments []Segment) string {
	var b strings.Builder
	for _, s := range segments {
		switch s.Class {
		case classEscape, classMixed, ClassMasked:
			b.WriteString("‹" + s.Text + "›")
		default:
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

func TestPretty(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{}`,
		`{"a":9007199254740993,"b":[1e400,-0.10,true,null],"c":[]}`: "{\n  \"a\": 9007199254740993,\n  \"b\": [\n    1e400,\n    -0.10,\n    true,\n    null\n  ],\n  \"c\": []\n}",
		"\"safe\u202egnp.exe\"":                  `"safe‹\u202e›gnp.exe"`,
		`"safe\u202Egnp.exe"`:                    `"safe‹\u202e›gnp.exe"`,
		"\"zero\u200bwidth\u00a0space\"":         `"zero‹\u200b›width‹\u00a0›space"`,
		`"caf\u00e9 \ud83d\ude00"`:               `"café 😀"`,
		`"lone \ud83d!"`:                         `"lone ‹\ud83d›!"`,
		`"tag \udb40\udc41"`:                     `"tag ‹\udb40\udc41›"`,
		`"a\"b\\c\/d\u0022e\u005c"`:              `"a\"b\\c/d\"e\\"`,
		`"one\ntwo"`:                             "text of 2 lines\none\ntwo",
		`{"a":"\t\"one\"\n\r\u202e\\n\n","b":1}`: "{\n  \"a\": text of 3 lines\n  \t\"one\"\n‹\\r›‹\\u202e›\\n\n\n  \"b\": 1\n}",
		`{"a\nb":["x\ny"]}`:                      "{\n  \"a‹\\n›b\": [\n    text of 2 lines\n    x\ny\n  ]\n}",
		`"end\n"`:                                `"end‹\n›"`,
		`"t\tr\u0000"`:                           `"t‹\t›r‹\u0000›"`,
		"\"p\u0430ypal.com and привет\"":         "\"‹p\u0430ypal›.com and привет\"",
		"\"日本語のテスト\"":                            "\"日本語のテスト\"",
		"{\"\u202ekey\":1}":                      "{\n  \"‹\\u202e›key\": 1\n}",
		"\"\xff\"":                               `"‹\xff›"`,
		`nope`:                                   `‹not JSON› nope`,
		` "\\u202e" `:                            `"\\u202e"`,
	} {
		if got := flat(JSON([]byte(in))); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// Every line is a box of its own, with the depth that it hangs at, and nothing
// is lost between them.
func TestLines(t *testing.T) {
	var depths []int
	var texts []string
	for _, l := range Lines(JSON([]byte(`{"a":["one\n\"b\": 2",{}],"b":1}`))) {
		depths = append(depths, l.Depth)
		for _, of := range l.Block {
			texts = append(texts, "┃"+flat(of.Text))
		}
		if l.Block == nil {
			texts = append(texts, flat(l.Text))
		}
	}
	// A text that looks like JSON is in its own box.
	want := []string{"{", `  "a": [`, "    text of 2 lines", "┃one", `┃"b": 2`, "    {}", "  ],", `  "b": 1`, "}"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{0, 1, 2, 2, 2, 1, 1, 0}, depths); diff != "" {
		t.Error(diff)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain text":         "plain text",
		"a\nb\x1b[31m":       `a‹\n›b‹\u001b›[31m`,
		"\u2066hidden\u2069": `‹\u2066›hidden‹\u2069›`,
		"gіthub":             "‹gіthub›",
		"αβγ abc":            "αβγ abc",
		"\u3164":             `‹\u3164›`,
		"\U000e0041":         `‹\u{e0041}›`,
		"bad \xc3\x28":       `bad ‹\xc3›(`,
	} {
		if got := flat(Escape(in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestMaskedValuesAreLengthAndHash(t *testing.T) {
	hash := func(b []byte) string { return "hash-of-" + string(b) }
	got := flat(MaskedJSON(
		[]byte(`{"a":1,"list":["x","see tok at [redacted:1:0]"],"nest":{"b":2},"password":"hunter2","ghp_key":{"x":"y"},"same":"[redacted:9:aa]"}`),
		[]byte(`{"a":1,"list":["x","see [redacted:3:ab12] at [redacted:1:0]"],"nest":"[redacted:7:cd]","password":"[redacted]","[redacted:7:ef]":{"x":"y"},"same":"[redacted:9:aa]"}`), hash))
	want := `{
  "a": 1,
  "list": [
    "x",
    "see ‹redacted · 3 bytes · #ab12› at ‹redacted · 1 bytes · #0›"
  ],
  "nest": "‹redacted · 7 bytes · #cd›",
  "password": ‹redacted · 7 bytes · #hash-of-›,
  "‹redacted · 7 bytes · #ef›": {
    "x": "y"
  },
  "same": "[redacted:9:aa]"
}`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// What the redacted form has no place for is not shown either.
	if got := flat(MaskedJSON([]byte(`{"a":"secret"}`), []byte(`{}`), hash)); strings.Contains(got, `"secret"`) || !strings.Contains(got, "redacted · 14 bytes") {
		t.Errorf("got %s", got)
	}
}

// Whatever comes, nothing hidden is shown as it is, and plain JSON loses no
// byte that means something.
func FuzzPretty(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.50,"x\n\u202e"],"b":{}}`, "\"p\u0430y\"", `[[[]]]`, `{"":""}`, `"\ud800"`, "\xff", `1e400`, `{"a":1,"a":2}`, "", `"\\"`,
	} {
		f.Add([]byte(seed), []byte(`{"a":1}`))
	}
	f.Fuzz(func(t *testing.T, in, redacted []byte) {
		segments := JSON(in)
		for _, s := range segments {
			text := s.Text
			if s.Class == "" || s.Class == classText || s.Class == classTab {
				text = strings.NewReplacer("\n", "", "\t", "").Replace(text)
			}
			if strings.ContainsFunc(text, IsInvisible) {
				t.Fatalf("%q shows a hidden character: %q", in, s.Text)
			}
		}
		_ = MaskedJSON(in, redacted, func([]byte) string { return "0" })
		var compact bytes.Buffer
		if json.Compact(&compact, in) != nil || bytes.ContainsFunc(compact.Bytes(), func(r rune) bool { return r >= 0x7f || r == '\\' }) {
			return
		}
		var shown strings.Builder
		for _, s := range segments {
			if s.Class != "" {
				shown.WriteString(s.Text)
			}
		}
		if shown.String() != compact.String() {
			t.Fatalf("%s is shown as %s", compact.String(), shown.String())
		}
	})
}

func FuzzVisible(f *testing.F) {
	f.Add("a\u202eb\xff")
	f.Fuzz(func(t *testing.T, in string) {
		for _, s := range Escape(in) {
			if strings.ContainsFunc(s.Text, IsInvisible) {
				t.Fatalf("%q shows %q", in, s.Text)
			}
		}
	})
}
