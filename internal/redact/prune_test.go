package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/redact"
)

func TestPrune(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, test := range []struct {
		name, raw string
		limit     int
		want      string
	}{
		{"what fits stays as it is", ` {"b": 1.0, "a": [ ] } `, 100, ` {"b": 1.0, "a": [ ] } `},
		{"what fits without white space", `{"a":` + strings.Repeat(" ", 100) + `[ 1 , "x y" ]}`, 50, `{"a":[1,"x y"]}`},
		{"a long string is cut", `{"a":"` + long + `","n":1}`, 60, `{"_truncated":true,"a":"` + strings.Repeat("x", 25) + `…","n":1}`},
		{
			"small members stay, long ones share", `{"a":"` + long + `","id":7,"b":"` + long + `","ok":true}`, 120,
			`{"_truncated":true,"a":"` + strings.Repeat("x", 32) + `…","id":7,"b":"` + strings.Repeat("x", 32) + `…","ok":true}`,
		},
		{"arrays keep their beginning", `[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]`, 40, `{"_truncated":true,"value":[1,2,3,4,5]}`},
		{"a number that is too long goes", `{"a":` + strings.Repeat("9", 100) + `,"b":1}`, 60, `{"_truncated":true,"b":1}`},
		{"its own mark is replaced", `{"_truncated":"` + long + `","a":1}`, 60, `{"_truncated":true,"a":1}`},
		{"a string alone", `"` + long + `"`, 60, `{"_truncated":true,"value":"` + strings.Repeat("x", 27) + `…"}`},
		{"characters stay whole", `{"a":"` + strings.Repeat("é", 50) + `"}`, 36, `{"_truncated":true,"a":"ééé…"}`},
		{"escapes stay whole", `{"a":"\u00e9\n\ud83d\ude00` + long + `"}`, 43, `{"_truncated":true,"a":"\u00e9\n…"}`},
		{
			"with room there is the size", `{"a": "` + strings.Repeat(long, 2) + `","n":1}`, 200,
			`{"_truncated":true,"_original_size":415,"a":"` + strings.Repeat("x", 144) + `…","n":1}`,
		},
		{"of other values, too", `"` + strings.Repeat(long, 2) + `"`, 200, `{"_truncated":true,"_original_size":402,"value":"` + strings.Repeat("x", 146) + `…"}`},
		{
			"pruned again, the size of the first time", `{"_truncated":true,"_original_size":90000,"a":"` + long + `"}`, 200,
			`{"_truncated":true,"_original_size":90000,"a":"` + strings.Repeat("x", 148) + `…"}`,
		},
		{
			"a size that a service made up", `{"_original_size":90000,"a":"` + long + `"}`, 200,
			`{"_truncated":true,"_original_size":231,"a":"` + strings.Repeat("x", 150) + `…"}`,
		},
		{"only the mark has room", `{"a":"` + long + `"}`, 22, `{"_truncated":true}`},
		{"not even that", `{"a":"` + long + `"}`, 18, `{}`},
		{"a digit at most", `{"a":"` + long + `"}`, 1, `0`},
		{"no room at all", `{"a":1}`, 0, ``},
		{"no JSON", `{"a":`, 100, `"[not valid JSON, 5 bytes]"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := string(redact.JSON{}.Prune([]byte(test.raw), test.limit))
			if diff := cmp.Diff(test.want, out); diff != "" {
				t.Error(diff)
			}
			fits(t, []byte(out), test.limit)
		})
	}
}

func fits(t *testing.T, out []byte, limit int) {
	t.Helper()
	if len(out) > max(limit, 0) {
		t.Fatalf("%d bytes of %d: %s", len(out), limit, out)
	}
	if limit > 0 && !json.Valid(out) {
		t.Fatalf("not valid: %s", out)
	}
}

// A list of issues as a service sends it keeps whole issues and every field.
func TestPruneUsesTheRoom(t *testing.T) {
	var list []string
	for i := range 500 {
		list = append(list, fmt.Sprintf(`{"id":"ISS-%d","title":"Payment fails","description":%q,"priority":2}`, i, strings.Repeat("text ", 20)))
	}
	raw := `{"issues":[` + strings.Join(list, ",") + `],"total":500,"isError":false}`
	out := redact.JSON{}.Prune([]byte(raw), 10_000)
	fits(t, out, 10_000)
	if len(out) < 9_000 {
		t.Errorf("only %d bytes of 10,000 are used", len(out))
	}
	var got struct {
		Truncated bool                         `json:"_truncated"`
		Issues    []struct{ ID, Title string } `json:"issues"`
		Total     int                          `json:"total"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if !got.Truncated || got.Total != 500 || len(got.Issues) < 40 || got.Issues[39].Title != "Payment fails" {
		t.Errorf("got %d issues, %+v", len(got.Issues), got)
	}
}

// Of lists and objects that are much too large nearly all the room is used,
// whatever their values are.
func TestPruneKeepsAsMuchAsFits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, values := range []func() string{
		func() string { return strconv.Itoa(r.IntN(1_000_000)) },
		func() string { return `"` + strings.Repeat("x", r.IntN(30)) + `"` },
		func() string { return `"` + strings.Repeat("é", r.IntN(3_000)) + `"` },
		func() string {
			return `{"id":` + strconv.Itoa(r.IntN(100)) + `,"tags":["a","b"],"text":"` + strings.Repeat("x", r.IntN(200)) + `"}`
		},
		func() string {
			return []string{"null", "true", `"` + strings.Repeat("x", 500) + `"`, "[1,2]"}[r.IntN(4)]
		},
	} {
		for i := range 60 {
			limit := 400 + r.IntN(10_000)
			raw := flat(i%2 == 0, 5*limit, values)
			out := redact.JSON{}.Prune([]byte(raw), limit)
			fits(t, out, limit)
			if len(out) < limit*9/10 && len(out) < limit-60 {
				t.Errorf("%d bytes of %d are used for %.80s…", len(out), limit, raw)
			}
		}
	}
}

// flat returns an array or object of at least size bytes.
func flat(array bool, size int, value func() string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if !array {
			fmt.Fprintf(&b, `"name%d":`, i)
		}
		b.WriteString(value())
	}
	if array {
		return "[" + b.String() + "]"
	}
	return "{" + b.String() + "}"
}

func TestPruneOfLargeAndDeepDocuments(t *testing.T) {
	const size = 2 << 20
	deep := strings.Repeat(`{"a":[1,`, 400) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`]}`, 400)
	for name, raw := range map[string]string{
		"a string":           `{"a":"` + strings.Repeat("x", size) + `"}`,
		"many numbers":       `[` + strings.Repeat("1,", size/2) + `1]`,
		"many members":       `{` + strings.Repeat(`"a":1,`, size/6) + `"b":2}`,
		"deep":               deep,
		"many deep ones":     `[` + strings.Repeat(strings.Repeat("[", 500)+strings.Repeat("]", 500)+",", size/1001) + `1]`,
		"deep and wide":      strings.Repeat(`[`+strings.Repeat(`"xxxxxxxxxx",`, 1000), 900) + `1` + strings.Repeat("]", 900),
		"white space":        `[` + strings.Repeat(" ", size) + `1]`,
		"a name":             `{"` + strings.Repeat("x", size) + `":1,"b":2}`,
		"objects in objects": `{` + strings.Repeat(`"k":{"a":{"b":"cccccccccccc"}},`, size/32) + `"z":0}`,
	} {
		t.Run(name, func(t *testing.T) { fits(t, redact.JSON{}.Prune([]byte(raw), 10_000), 10_000) })
	}
}

func FuzzPrune(f *testing.F) {
	f.Add([]byte(`{"a":"`+strings.Repeat(`\u00e9x`, 40)+`","b":[1,2,{"c":null}],"_truncated":1}`), 60)
	f.Add([]byte(`[["a","b"],{"x":"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"},1234567890]`), 45)
	f.Add([]byte("{\"\xffé\\ud800\":\"\xe2\x82\",  \"b\" : 1e5 }"), 24)
	f.Add([]byte(`"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`), 40)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		out := redact.JSON{}.Prune(raw, limit)
		if len(raw) == 0 {
			return
		}
		fits(t, out, limit)
		if again := (redact.JSON{}).Prune(out, limit); !bytes.Equal(again, out) {
			t.Fatalf("pruned again: %s, then %s", out, again)
		}
		var whole bytes.Buffer
		if json.Compact(&whole, raw) == nil && whole.Len() > limit && limit >= len(`{"_truncated":true}`) && !bytes.HasPrefix(out, []byte(`{"_truncated":true`)) {
			t.Fatalf("cut without a word: %s", out)
		} else if whole.Len() > 0 && whole.Len() <= limit && !sameJSON(raw, out) {
			t.Fatalf("it fits, and becomes %s", out)
		}
		if utf8.Valid(raw) && !utf8.Valid(out) {
			t.Fatalf("a character was split: %q", out)
		}
	})
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && x.String() == y.String()
}

func BenchmarkPrune(b *testing.B) {
	item := `{"id":"ISS-1","title":"Payment fails","labels":["a","b"],"text":"` + strings.Repeat("text ", 50) + `"},`
	for _, size := range []int{200 << 10, 16 << 20} {
		raw := []byte(`{"issues":[` + strings.Repeat(item, size/len(item)) + `1],"n":1}`)
		b.Run(fmt.Sprint(size>>10, " KiB"), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				redact.JSON{}.Prune(raw, 10_000)
			}
		})
	}
}
