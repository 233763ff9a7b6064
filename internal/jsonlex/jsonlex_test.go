package jsonlex_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// FuzzDocument holds the grammar against encoding/json, which nests deeper.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0.5e+3,true,false,null,"\u00e9\n"]}`, ` [ ] `, `{}`, `"x`, `01`, `1.`, `-`, `1e`, `[1,]`, `{"a":1,}`, `{"a"}`, `{1:2}`, `[1}`, `{]`,
		`truefalse`, `nul`, "\"\x00\"", `"\x"`, `"\u12g4"`, `"\ud800"`, "\"\xff\"", `[[[[`, `1 2`, ``, `,`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := jsonlex.Document(data)
		if len(data) < jsonlex.MaxDepth && (err == nil) != json.Valid(data) {
			t.Fatalf("%q: %v, encoding/json: %v", data, err, json.Valid(data))
		}
		if err != nil {
			return
		}
		i := jsonlex.Space(data, 0)
		if end := jsonlex.Space(data, jsonlex.Skip(data, i)); end != len(data) {
			t.Fatalf("%q: Skip ends at %d of %d", data, end, len(data))
		}
	})
}

// FuzzSkip: whatever the text is, nothing is read outside of it.
func FuzzSkip(f *testing.F) {
	f.Add([]byte(`{"a":"\`), 5)
	f.Add([]byte(`]]`), 0)
	f.Fuzz(func(t *testing.T, data []byte, i int) {
		if i < 0 || i > len(data) {
			return
		}
		if end := jsonlex.Skip(data, i); end < i || end > len(data) {
			t.Fatalf("%q from %d ends at %d", data, i, end)
		}
	})
}

// FuzzUnquote holds strings against encoding/json, both ways.
func FuzzUnquote(f *testing.F) {
	for _, seed := range []string{`plain`, `\u0041\n\"\\\/`, `\ud83d\ude00`, `\ud83d`, `\ude00\ud83d`, `\ud83dx`, `\ud83d\u0041`, "é\u2028", "\xff", "\ufffd"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		quoted := []byte(`"` + string(content) + `"`)
		end, form, err := jsonlex.String(quoted, 0)
		if err != nil || end != len(quoted) {
			return
		}
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", quoted, err)
		}
		got, whole := jsonlex.Unquote(nil, content)
		if string(got) != want {
			t.Fatalf("%q is %q; want %q", content, got, want)
		}
		if !utf8.Valid(content) && whole || form == 0 && string(got) != string(content) {
			t.Fatalf("%q: whole %v, form %v", content, whole, form)
		}
		again := jsonlex.Quote(nil, got)
		var back string
		if err := json.Unmarshal(again, &back); err != nil || back != want {
			t.Fatalf("quoted again it is %s: %q, %v", again, back, err)
		}
	})
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, "a\"\\\b\f\n\r\t\x00\x1f/<é\u2028": `"a\"\\\b\f\n\r\t\u0000\u001f/<é` + "\u2028\"", "a\xffb\xc3": `"a` + "\ufffd" + `b` + "\ufffd" + `"`,
	} {
		if got := string(jsonlex.Quote(nil, text)); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestDepth(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if err := jsonlex.Document(nested(jsonlex.MaxDepth)); err != nil {
		t.Error(err)
	}
	if err := jsonlex.Document(nested(jsonlex.MaxDepth + 1)); err == nil {
		t.Error("one level more is taken")
	}
}
