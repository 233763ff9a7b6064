package redact_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/redact"
)

func TestSummary(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, test := range []struct {
		name, raw string
		limit     int
		want      string
	}{
		{
			"params", `{"title":"Fix login","team":"ENG","labels":["a","b","c"],"options":{"x":1,"y":2},"n":1.50,"ok":true,"no":null}`, 300,
			`title="Fix login", team="ENG", labels=[3 items], options={2 fields}, n=1.50, ok=true, no=null`,
		},
		{"the order of the document", ` { "b" : 1 , "a" : [ 1 ] , "c" : { "d" : [ ] } } `, 300, `b=1, a=[1 item], c={1 field}`},
		{"empty ones", `{"a":[ ],"b":{ },"c":""}`, 300, `a=[], b={}, c=""`},
		{"no params", `{}`, 300, `{}`},
		{"an array", `[1,[2,3],{}]`, 300, `[3 items]`},
		{"a text", `"x\ny"`, 300, `"x\ny"`},
		{"a number", `12.0`, 300, `12.0`},
		{"nothing", ``, 300, ``},
		{"no JSON", `{"a":`, 300, `"[not valid JSON, 5 bytes]"`},
		{"redacted values", `{"token":"[redacted:7:0011aabb]","n":"[redacted:"}`, 300, `token=[redacted:7:0011aabb], n="[redacted:"`},
		{
			"what does not print", `{"a":"x\r\n\t\u0000\u001b[1m\u202e\u2066\u200b\u2028\ud800\u007f\u0085","b\nc":"\\n\"é😀"}`, 300,
			`a="x\r\n\t\x00\x1b[1m\u202e\u2066\u200b\u2028` + "\ufffd" + `\x7f\u0085", "b\nc"="\\n\"é😀"`,
		},
		{"names that look like members", `{"a=1, b":"x","":"y"}`, 300, `"a=1, b"="x", ""="y"`},
		{
			"long texts share the line", `{"a":"` + long + `","id":7,"b":"` + long + `"}`, 100,
			`a="` + strings.Repeat("x", 38) + `…", id=7, b="` + strings.Repeat("x", 38) + `…"`,
		},
		{"a long number", `{"a":` + strings.Repeat("9", 50) + `}`, 20, `a=` + strings.Repeat("9", 15) + `…`},
		{"a long name", `{"` + long + `":1}`, 100, `"` + strings.Repeat("x", 37) + `…"=1`},
		{"many members", `{"a":1,"b":2,"c":3,"d":4}`, 16, `a=1, b=2, c=3…`},
		{"characters stay whole", `"ééééé"`, 10, `"éé…"`},
		{"a dot of room", `{"a":1234}`, 3, `…`},
		{"no room", `{"a":1}`, 2, ``},

		{"a result", `{"content":[{"type":"text","text":"Created ISS-1\nSee it."}],"isError":false}`, 300, `"Created ISS-1\nSee it."`},
		{"an error", `{"isError":true,"content":[{"type":"text","text":"no such team"}]}`, 300, `error: "no such team"`},
		{"a text of JSON", `{"content":[{"type":"text","text":"{\n \"id\": \"ISS-1\", \"tags\": [1]}"}]}`, 300, `id="ISS-1", tags=[1 item]`},
		{"a text like JSON", `{"content":[{"type":"text","text":"{id}"}]}`, 300, `"{id}"`},
		{"several items", `{"content":[{"type":"image","data":"aGk="},{"type":"text","text":"` + long + `"}]}`, 40, `"` + strings.Repeat("x", 18) + `…", 2 content items`},
		{"no text", `{"content":[{"type":"image"},{"type":"image"},{"type":"audio","text":""}]}`, 300, `3 content items`},
		{"one item", `{"content":[{"type":"image"}],"isError":true}`, 300, `error: 1 content item`},
		{"no content", `{"content":[],"_meta":{},"resultType":"complete"}`, 300, `0 content items`},
		{"structured content", `{"content":[],"structuredContent":{"id":"ISS-1","n":2}}`, 300, `id="ISS-1", n=2`},
		{"only that", `{"structuredContent":[1,2]}`, 300, `[2 items]`},
		{"odd content", `{"content":[1,null,"x",{"text":1},{"text":"y"}]}`, 300, `"y", 5 content items`},
		{"content that is none", `{"content":"a text","isError":true}`, 300, `content="a text", isError=true`},
		{
			"params like a result", `{"content":[{"type":"text","text":"harmless"}],"force":true}`, 300,
			`content=[1 item], force=true`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := redact.JSON{}.Summary([]byte(test.raw), test.limit)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			isLine(t, got, test.limit)
		})
	}
}

// A name and a value that say nothing alone may be a secret together.
func TestSummaryPutsNothingTogether(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":1,"x&sig":"00ff"}`:       `a=1, "x&sig=[redacted:4]"`,
		`{"see Authorization: x":"b"}`: `"see Authorization: [redacted:3]"`,
	} {
		if got := (redact.JSON{}).Summary([]byte(raw), 300); got != want {
			t.Errorf("%s: got %s; want %s", raw, got, want)
		}
	}
}

func isLine(t *testing.T, line string, limit int) {
	t.Helper()
	if len(line) > max(limit, 0) || !utf8.ValidString(line) {
		t.Fatalf("%d bytes of %d: %q", len(line), limit, line)
	}
	if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Fatalf("%q does not print at %d", line, i)
	}
}

// FuzzSummary: any input, at any limit, is one line of it, always the same.
func FuzzSummary(f *testing.F) {
	f.Add([]byte(`{"a":"x\ny","b":[1,{"c":2}],"\u202e":-1e5}`), 20)
	f.Add([]byte(`{"content":[{"type":"text","text":"{\"a\":1}"},2],"isError":true,"structuredContent":{}}`), 30)
	f.Add([]byte("[\"\xff\ufeff\"]"), 3)
	f.Add([]byte(` { "a" : { } , "" : [ ] } `), 9)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		line := redact.JSON{}.Summary(raw, limit)
		isLine(t, line, limit)
		if again := (redact.JSON{}).Summary(raw, limit); again != line {
			t.Fatalf("%q, then %q", line, again)
		}
		if json.Valid(raw) && limit >= 3 && line == "" {
			t.Fatal("nothing is said")
		}
	})
}
