package canonical_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/canonical"
)

func TestJSON(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"sorted already", `{"a":1,"b":[true,false,null]}`, `{"a":1,"b":[true,false,null]}`},
		{"white space goes", " {\n\t\"a\" : [ 1 , 2 ] }\r\n", `{"a":[1,2]}`},
		{"members are sorted", `{"b":1,"a":{"d":2,"c":3}}`, `{"a":{"c":3,"d":2},"b":1}`},
		{"a name that begins another comes first", `{"ab":1,"a":2,"":3}`, `{"":3,"a":2,"ab":1}`},
		{"sorted by what names stand for", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		{"by code point, not as UTF-16", `{"😀":1,"ｚ":2}`, `{"ｚ":2,"😀":1}`},
		{"a quote sorts as itself", `{"a":1,"\"":2,"!":3}`, `{"!":3,"\"":2,"a":1}`},
		{"arrays keep their order", `[3,1,2]`, `[3,1,2]`},
		{
			"numbers stay as written", `[9007199254740993,9007199254740992,1,1.0,1e0,1E+2,-0,-0.0,0.10]`,
			`[9007199254740993,9007199254740992,1,1.0,1e0,1E+2,-0,-0.0,0.10]`,
		},
		{"escapes are the fewest", `"\u0041\/\u00e9\uD83D\ude00\u0008\u000C\u001F\u2028"`, "\"A/é😀\\b\\f\\u001f\u2028\""},
		{"quotes and backslashes", `"\"\\\n\r\t\u0022\u005C"`, `"\"\\\n\r\t\"\\"`},
		{"delete, less-than and ampersand stand for themselves", "\"\u007f<&>\\u003c\"", "\"\u007f<&><\""},
		{"nul", `"\u0000"`, `"\u0000"`},
		{"a scalar alone", ` 12 `, `12`},
		{"empty ones", `[{},[],""]`, `[{},[],""]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := canonical.JSON([]byte(test.raw))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJSONRefuses(t *testing.T) {
	deep := strings.Repeat("[", canonical.MaxDepth+1) + strings.Repeat("]", canonical.MaxDepth+1)
	for _, test := range []struct{ name, raw, field, says string }{
		{"nothing", "", "", "it is empty"},
		{"white space only", " \n", "", "it is empty"},
		{"a duplicate name", `{"a":{"x":1,"y":2,"x":3}}`, "/a/x", "twice"},
		{"a duplicate side by side", `{"a":1,"a":1}`, "/a", "twice"},
		{"a duplicate behind an escape", `[{"a":1,"b":2,"\u0061":3}]`, "/0/a", "twice"},
		{"invalid UTF-8", "{\"a\":[0,\"\xff\"]}", "/a/1", "not Unicode"},
		{"an encoded surrogate", "\"\xed\xa0\x80\"", "", "not Unicode"},
		{"a lone high surrogate", `"\ud800"`, "", "not Unicode"},
		{"a lone low surrogate", `"\udc00x"`, "", "not Unicode"},
		{"surrogates the wrong way round", `"\udc00\ud800"`, "", "not Unicode"},
		{"a name that is not Unicode", `{"\ud800":1}`, "", "not Unicode"},
		{"too deep", deep, strings.Repeat("/0", canonical.MaxDepth), "64 levels"},
		{"something after it", `{} {}`, "", "after the end"},
		{"an unfinished object", `{"a":1`, "", "ends too early"},
		{"an unfinished array", `[1,`, "/1", "ends"},
		{"an unfinished string", `{"a~/b":"x`, "/a~0~1b", "does not end"},
		{"a comma too many", `[1,]`, "/1", "not a JSON value"},
		{"a comma too many in an object", `{"a":1,}`, "", "name of a member"},
		{"a name without quotes", `{a:1}`, "", "name of a member"},
		{"no colon", `{"a" 1}`, "", "colon"},
		{"a leading zero", `{"n":01}`, "/n", "leading zero"},
		{"a plus", `[+1]`, "/0", "not a JSON value"},
		{"a lone minus", `-`, "", "without digits"},
		{"no fraction", `1.`, "", "after its point"},
		{"no exponent", `1e+`, "", "exponent"},
		{"not a number", `NaN`, "", "not a JSON value"},
		{"a byte order mark", "\ufeff{}", "", "not a JSON value"},
		{"a raw control character", "\"a\nb\"", "", "control character"},
		{"a wrong escape", `"\x41"`, "", "escape"},
		{"a short escape", `"\u12"`, "", "escape"},
		{"a word that goes on", `truex`, "", "after the end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := canonical.JSON([]byte(test.raw))
			var e *action.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %q, %v; want an action.Error", out, err)
			}
			if !errors.Is(err, action.ErrInvalid) || e.Code != "invalid_json" {
				t.Errorf("got kind %v, code %q", e.Kind, e.Code)
			}
			if e.Field != test.field || !strings.Contains(e.Message, test.says) {
				t.Errorf("got field %q, message %q; want %q, %q", e.Field, e.Message, test.field, test.says)
			}
		})
	}
}

func TestDepthIsExact(t *testing.T) {
	for _, raw := range []string{"[]", `{"a":1}`} {
		deep := strings.Repeat("[", canonical.MaxDepth-1) + raw + strings.Repeat("]", canonical.MaxDepth-1)
		if _, err := canonical.JSON([]byte(deep)); err != nil {
			t.Errorf("%d levels are refused: %v", canonical.MaxDepth, err)
		}
	}
}

func TestLongPointerIsCut(t *testing.T) {
	name := strings.Repeat("n", 1000)
	_, err := canonical.JSON([]byte(`{"a":{"` + name + `":tru}}`))
	var e *action.Error
	if !errors.As(err, &e) || e.Field != "/a" {
		t.Errorf("got %v", err)
	}
}

func TestResultIsItsOwnMemory(t *testing.T) {
	raw := []byte(`{"a":"b"}`)
	out, err := canonical.JSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	raw[2] = 'z'
	if string(out) != `{"a":"b"}` {
		t.Errorf("changing the input changed the result: %s", out)
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":1,"a":{"d":2,"c":[3,"x"]}}`, `[9007199254740993,1.0,1e0,-0]`, `"\ud83d\ude00\u0000\/"`, `{"a":1,"\u0061":2}`,
		`"\ud800"`, "\"\xff\"", ` null `, `[[[[]]]]`, `{"":{"":{}}}`, `{"é":1,"e":2,"😀":3,"ｚ":4}`, `tru`, `[1,`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		out, err := canonical.JSON(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		again, err := canonical.JSON(out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("not idempotent: %s, then %s, %v", out, again, err)
		}
		if diff := cmp.Diff(decode(t, raw), decode(t, out)); diff != "" {
			t.Fatalf("the value changed: %s", diff)
		}
	})
}

func decode(t *testing.T, raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", raw, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("encoding/json finds more after %q: %v", raw, err)
	}
	return v
}

func BenchmarkJSON(b *testing.B) {
	sorted := `{"assignee":"u_1","description":"Something went wrong in the payment flow, please look.","labels":["bug","urgent"],"priority":2,"team":"ENG","title":"Payment fails"}`
	unsorted := `{"title":"Payment fails","team":"ENG","priority":2,"description":"Something went wrong in the payment flow,\nplease look.","labels":["bug","urgent"],"assignee":"u_1"}`
	for name, raw := range map[string]string{"sorted": sorted, "unsorted": unsorted} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			in := []byte(raw)
			for b.Loop() {
				if _, err := canonical.JSON(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
