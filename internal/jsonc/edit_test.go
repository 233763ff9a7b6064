package jsonc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tailscale/hujson"

	"sallyport/internal/jsonc"
)

func set(value any, path ...string) jsonc.Edit { return jsonc.Edit{Path: path, Value: value} }

func TestApply(t *testing.T) {
	t.Parallel()
	rule := jsonc.Edit{Path: []string{"permission", "sallyport_*"}, Value: "allow", Kind: jsonc.Default, Under: "*"}
	narrow := rule
	narrow.Before = func(key string) bool { return strings.HasPrefix(key, "sallyport_") }
	for name, test := range map[string]struct {
		document string
		edits    []jsonc.Edit
		want     string
	}{
		"nothing": {"", []jsonc.Edit{set("x", "a", "b")}, "{\n  \"a\": {\n    \"b\": \"x\"\n  }\n}\n"},
		"white space and a mark": {
			"\xef\xbb\xbf\n \n",
			[]jsonc.Edit{set(true, "a")},
			"\xef\xbb\xbf{\n  \"a\": true\n}\n",
		},
		"beside others, with comments, tabs and odd numbers": {
			"// mine\n{\n\t\"n\": 1.50e+2, // as it was\n\t\"mcp\": {\n\t\t/* one */\n\t\t\"other\": {\"url\": \"u\"} // two\n\t} // three\n}\n// end\n",
			[]jsonc.Edit{set("v", "mcp", "sallyport", "url")},
			"// mine\n{\n\t\"n\": 1.50e+2, // as it was\n\t\"mcp\": {\n\t\t/* one */\n\t\t\"other\": {\"url\": \"u\"}, // two\n\t\t\"sallyport\": {\n\t\t\t\"url\": \"v\"\n\t\t}\n\t} // three\n}\n// end\n",
		},
		"a trailing comma stays": {
			"{\n  \"a\": 1, // one\n}",
			[]jsonc.Edit{set(2, "b")},
			"{\n  \"a\": 1, // one\n  \"b\": 2,\n}",
		},
		"on one line": {
			`{"a": {"b": 1}, "c": [1, 2]}`,
			[]jsonc.Edit{set("x", "a", "d"), {Path: []string{"c"}, Value: 3, Kind: jsonc.Element}},
			`{"a": {"b": 1, "d": "x"}, "c": [1, 2, 3]}`,
		},
		"a line comment ends the line": {
			"{\"a\": {\"b\": 1 // one\n}}",
			[]jsonc.Edit{set("x", "a", "d")},
			"{\"a\": {\"b\": 1, // one\n    \"d\": \"x\"\n  }}",
		},
		"what is the same stays as it is written": {
			`{"a":"A<b>",  "b" : [ "x" ]}`,
			[]jsonc.Edit{set("A<b>", "a"), {Path: []string{"b"}, Value: "x", Kind: jsonc.Element}},
			`{"a":"A<b>",  "b" : [ "x" ]}`,
		},
		"a value is replaced, its comments stay": {
			"{\n  \"a\": /* old */ 1 /* why */, // that\n  \"b\": 2\n}",
			[]jsonc.Edit{set("new", "a")},
			"{\n  \"a\": /* old */ \"new\" /* why */, // that\n  \"b\": 2\n}",
		},
		"a default does not replace": {
			`{"a": null}`, []jsonc.Edit{{Path: []string{"a"}, Value: 1, Kind: jsonc.Default}}, `{"a": null}`,
		},
		"first": {
			"{\n  \"p\": { // rules\n    // of bash\n    \"bash\": \"ask\"\n  }\n}",
			[]jsonc.Edit{{Path: []string{"p", "*"}, Value: "allow", Kind: jsonc.First}},
			"{\n  \"p\": { // rules\n    \"*\": \"allow\",\n    // of bash\n    \"bash\": \"ask\"\n  }\n}",
		},
		"first on one line": {
			`{"p": {"bash": "ask"}}`,
			[]jsonc.Edit{{Path: []string{"p", "*"}, Value: "allow", Kind: jsonc.First}},
			`{"p": {"*": "allow", "bash": "ask"}}`,
		},
		"before the first that is narrower": {
			"{\n  \"permission\": {\n    \"*\": \"ask\", // all\n    // never\n    \"sallyport_x\": \"deny\", // that\n    \"sallyport_y\": \"ask\",\n  }\n}",
			[]jsonc.Edit{narrow},
			"{\n  \"permission\": {\n    \"*\": \"ask\", // all\n    \"sallyport_*\": \"allow\",\n    // never\n    \"sallyport_x\": \"deny\", // that\n    \"sallyport_y\": \"ask\",\n  }\n}",
		},
		"before the first that is narrower, behind a comment": {
			"{\n  \"permission\": {\n    \"*\": \"ask\", /* all */\n    \"sallyport_x\": \"deny\"\n  }\n}",
			[]jsonc.Edit{narrow},
			"{\n  \"permission\": {\n    \"*\": \"ask\", /* all */\n    \"sallyport_*\": \"allow\",\n    \"sallyport_x\": \"deny\"\n  }\n}",
		},
		"before the first that is narrower, on one line": {
			`{"permission":{"*":"ask","sallyport_x":"deny"}}`,
			[]jsonc.Edit{narrow},
			`{"permission":{"*":"ask","sallyport_*": "allow", "sallyport_x":"deny"}}`,
		},
		"a rule for all keeps its place": {
			"{\n  \"permission\": \"ask\"\n}",
			[]jsonc.Edit{rule},
			"{\n  \"permission\": {\n    \"*\": \"ask\",\n    \"sallyport_*\": \"allow\"\n  }\n}",
		},
		"elements by identity": {
			`{"inputs": [{"id": "a", "x": 1}]}`,
			[]jsonc.Edit{
				{Path: []string{"inputs"}, Value: map[string]any{"id": "a"}, Kind: jsonc.Element, Identity: "id"},
				{Path: []string{"inputs"}, Value: map[string]any{"id": "b"}, Kind: jsonc.Element, Identity: "id"},
			},
			`{"inputs": [{"id": "a", "x": 1}, {"id":"b"}]}`,
		},
		"elements on lines": {
			"{\n  \"l\": [\n    1, // one\n    2\n  ]\n}",
			[]jsonc.Edit{{Path: []string{"l"}, Value: 3, Kind: jsonc.Element}},
			"{\n  \"l\": [\n    1, // one\n    2,\n    3\n  ]\n}",
		},
		"an empty object with a comment, lines of Windows": {
			"{\r\n  \"mcp\": { /* none */ }\r\n}\r\n",
			[]jsonc.Edit{set(1, "mcp", "a")},
			"{\r\n  \"mcp\": { /* none */\r\n    \"a\": 1\r\n  }\r\n}\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := jsonc.Apply([]byte(test.document), test.edits)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			again, err := jsonc.Apply(got, test.edits)
			if err != nil || string(again) != string(got) {
				t.Errorf("the same edits again make %s (%v)", again, err)
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ document, want string }{
		"no JSON":        {`{"a": }`, "is not valid JSON: line 1, column 7"},
		"cut off":        {`{"a": 1`, "is not valid JSON"},
		"two documents":  {`{} {}`, "is not valid JSON"},
		"a list":         {`[]`, "is not an object"},
		"a key on path":  {`{"mcp": []}`, "mcp is not an object"},
		"a text":         {`{"mcp": "x"}`, "mcp is not an object"},
		"twice":          {`{"mcp": {}, "mcp": {}}`, "mcp appears twice"},
		"twice, escaped": {`{"mcp": {}, "\u006dcp": {}}`, "mcp appears twice"},
		"no list":        {`{"mcp": {}, "l": 1}`, "l is not a list"},
	} {
		_, err := jsonc.Apply([]byte(test.document), []jsonc.Edit{set(1, "mcp", "a"), {Path: []string{"l"}, Value: 1, Kind: jsonc.Element}})
		if fault := new(jsonc.Fault); !errors.As(err, &fault) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
	}
}

// FuzzApply: what is there stays, and what was to be there is.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"a":{"z":1}}`, "{// c\n\"l\":[1,],}", `{"a":/*x*/{},"p":true}`, "{\"l\":[//\n]}"} {
		f.Add([]byte(seed))
	}
	edits := []jsonc.Edit{
		set("v<", "a", "b"),
		{Path: []string{"p", "s"}, Value: "allow", Kind: jsonc.Default, Under: "*"},
		{Path: []string{"p", "*"}, Value: "ask", Kind: jsonc.First},
		{Path: []string{"l"}, Value: "e", Kind: jsonc.Element},
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		out, err := jsonc.Apply(document, edits)
		if err != nil {
			return
		}
		standard, err := hujson.Standardize([]byte(strings.TrimPrefix(string(out), "\xef\xbb\xbf")))
		if err != nil {
			t.Fatalf("%q becomes %q: %v", document, out, err)
		}
		var now struct {
			A map[string]any `json:"a"`
			P map[string]any `json:"p"`
			L []any          `json:"l"`
		}
		if json.Unmarshal(standard, &now) == nil && now.A != nil && now.P["s"] == nil {
			t.Fatalf("%q becomes %q, without the rule", document, out)
		}
		if again, err := jsonc.Apply(out, edits); err != nil || string(again) != string(out) {
			t.Fatalf("%q becomes %q and then %q (%v)", document, out, again, err)
		}
		if n := strings.Count(string(document), "//") + strings.Count(string(document), "/*"); strings.Count(string(out), "//")+strings.Count(string(out), "/*") < n {
			t.Fatalf("%q becomes %q, with a comment less", document, out)
		}
	})
}
