package sources_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
)

const issue = `{"type":"object","additionalProperties":false,"required":["title","team"],"properties":{
	"title":{"type":"string","minLength":1,"maxLength":5},
	"team":{"type":"string","pattern":"^[A-Z]+$"},
	"priority":{"enum":["low","high",3]},
	"points":{"type":"integer","minimum":1,"maximum":9007199254740992},
	"labels":{"type":"array","maxItems":2,"uniqueItems":true,"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}},
	"when":{"anyOf":[{"type":"string"},{"type":"null"}]},
	"who":{"oneOf":[{"type":"object","required":["id"],"properties":{"id":{"type":"string"}},"additionalProperties":false},{"type":"string"}]},
	"kind":{"const":"bug"},
	"a/b~c":{"type":"boolean"},
	"dep":{},"ratio":{"type":"number","exclusiveMaximum":0.5,"multipleOf":0.1}},
	"dependentRequired":{"dep":["points"]}}`

func TestCheckSaysWhatIsWrong(t *testing.T) {
	c := compile(t, tool(issue))
	for _, test := range []struct{ params, field, says string }{
		{`{"title":"x","team":"ENG"}`, "", ""},
		{`{"title":"x","team":"ENG","points":9007199254740992,"priority":3,"labels":[{"name":"a"}],"when":null,"who":"me"}`, "", ""},
		{`{"title":"x","team":"ENG","points":1.0,"priority":3.0,"ratio":0.3}`, "", ""},
		{`{"title":"x"}`, "/team", `"team" is missing.`},
		{`{}`, "/team", `"team" is missing; "title" is missing.`},
		{`{"titel":"x","team":"ENG"}`, "/title", `"title" is missing; "titel" is not a field of this action (did you mean "title"?).`},
		{`{"title":7,"team":"ENG"}`, "/title", `"title" must be a string, not a number.`},
		{`{"title":null,"team":"ENG"}`, "/title", `"title" must be a string, not null.`},
		{`{"title":"toolong","team":"ENG"}`, "/title", `"title" must have at most 5 characters, not 7.`},
		{`{"title":"","team":"ENG"}`, "/title", `at least 1 characters, not 0.`},
		{`{"title":"x","team":"eng"}`, "/team", `"team" must match the pattern ^[A-Z]+$.`},
		{`{"title":"x","team":"E","priority":"medium"}`, "/priority", `"priority" must be one of "low", "high", 3.`},
		{`{"title":"x","team":"E","points":9007199254740993}`, "/points", `"points" must be at most 9007199254740992.`},
		{`{"title":"x","team":"E","points":1.5}`, "/points", `"points" must be an integer, not a number.`},
		{`{"title":"x","team":"E","points":0}`, "/points", `"points" must be at least 1.`},
		{`{"title":"x","team":"E","ratio":0.5}`, "/ratio", `"ratio" must be less than 0.5.`},
		{`{"title":"x","team":"E","ratio":0.25}`, "/ratio", `"ratio" must be a multiple of 0.1.`},
		{`{"title":"x","team":"E","labels":[{"name":"a"},{"name":7}]}`, "/labels/1/name", `"labels[1].name" must be a string, not a number.`},
		{`{"title":"x","team":"E","labels":[{}]}`, "/labels/0/name", `"labels[0].name" is missing.`},
		{`{"title":"x","team":"E","labels":[{"name":"a"},{"name":"a"}]}`, "/labels", `the same item twice, at 0 and 1.`},
		{`{"title":"x","team":"E","labels":[{"name":"a"},{"name":"b"},{"name":"c"}]}`, "/labels", `"labels" must have at most 2 items, not 3.`},
		{`{"title":"x","team":"E","when":7}`, "/when", `"when" must be null or a string, not a number.`},
		{`{"title":"x","team":"E","who":{}}`, "/who/id", `"who.id" is missing.`},
		{`{"title":"x","team":"E","kind":"story"}`, "/kind", `"kind" must be "bug".`},
		{`{"title":"x","team":"E","a/b~c":1}`, "/a~1b~0c", `"a/b~c" must be a boolean, not a number.`},
		{`{"title":"x","team":"E","dep":1}`, "/points", `"points" is missing; it is required because "dep" is given.`},
		{`{"title":7,"team":7,"points":"x","x":1,"y":2}`, "/x", `"x" is not a field of this action; "y" is not a field of this action; "points" must be an integer, not a string; and 2 more.`},
		{`[]`, "", `must be an object.`},
		{`7`, "", `must be an object.`},
		{`{"title":`, "", `not valid JSON.`},
		{`{} {}`, "", `not valid JSON.`},
		{`{"title":"x","team":"E","points":1e99999999}`, "", `too large`},
		{`{"title":"x","team":"E","points":` + strings.Repeat("1", 2000) + `}`, "", `too large`},
	} {
		for range 3 { // maps are walked in any order
			err := c.Check(json.RawMessage(test.params))
			if test.says == "" {
				if err != nil {
					t.Errorf("%s: %v", test.params, err)
				}
				continue
			}
			var e *action.Error
			if !errors.As(err, &e) || !errors.Is(err, action.ErrInvalid) || e.Code != "invalid_params" {
				t.Fatalf("%s: got %v", test.params, err)
			}
			if e.Field != test.field || !strings.HasSuffix(e.Message, test.says) && !strings.Contains(e.Message, "too large") {
				t.Errorf("%.80s: field %q, %q; want %q, %q", test.params, e.Field, e.Message, test.field, test.says)
			}
		}
	}
}

// TestNothingMeansAnEmptyObject as the Gate says.
func TestNothingMeansAnEmptyObject(t *testing.T) {
	if err := compile(t, tool(`{"type":"object"}`)).Check(nil); err != nil {
		t.Error(err)
	}
}

// TestPathologicalSchemas has schemas and params that would take hours, or
// all memory.
func TestPathologicalSchemas(t *testing.T) {
	branch := func(n int, keyword, leaf string) string {
		var b strings.Builder
		fmt.Fprintf(&b, `{"allOf":[{"$ref":"#/$defs/d0"}],"$defs":{"d%d":%s`, n, leaf)
		for i := range n {
			fmt.Fprintf(&b, `,"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, keyword, i+1, i+1)
		}
		return b.String() + "}}"
	}
	nested := strings.Repeat(`{"c":[`, 30) + `1` + strings.Repeat(`]}`, 30)
	for _, test := range []struct{ name, schema, params, code string }{
		{"doubling, and all fit", branch(40, "allOf", `{"type":"object"}`), `{}`, "params_too_costly"},
		{"doubling, and none fits", branch(40, "anyOf", `{"required":["x"]}`), `{}`, "params_too_costly"},
		{"doubling, exactly one", branch(40, "oneOf", `{"required":["x"]}`), `{}`, "params_too_costly"},
		{
			"itself twice at each level",
			`{"properties":{"c":{"items":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}}`,
			nested, "params_too_costly",
		},
		{"long text and a large pattern", `{"properties":{"a":{"pattern":"^(a?){500}b$"}}}`, `{"a":"` + strings.Repeat("a", 1<<20) + `"}`, "params_too_costly"},
		{"too many values", `{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":[1` + strings.Repeat(",1", 200_000) + `]}`, "params_too_large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := compile(t, tool(test.schema))
			started := time.Now()
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					var e *action.Error
					if err := c.Check(json.RawMessage(test.params)); !errors.As(err, &e) || e.Code != test.code {
						t.Errorf("got %v", err)
					}
				})
			}
			group.Wait()
			// Generous: what is tested is that it ends at all.
			if took := time.Since(started); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if test.code == "params_too_costly" && c.Refused() != 4 {
				t.Errorf("%d refusals are counted", c.Refused())
			}
			// The tool goes on to work for what it can check.
			if test.name == "itself twice at each level" {
				if err := c.Check(json.RawMessage(`{"c":[]}`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestRecursiveSchemas of the honest kind are checked like any other, many at
// a time.
func TestRecursiveSchemas(t *testing.T) {
	c := compile(t, tool(`{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`))
	tree := `{"name":"x"}`
	for range 10 {
		tree = `{"name":"x","children":[` + tree + `,` + `{"name":"y"}` + `]}`
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := c.Check(json.RawMessage(tree)); err != nil {
				t.Error(err)
			}
			var e *action.Error
			if err := c.Check(json.RawMessage(`{"children":[{"name":7}]}`)); !errors.As(err, &e) || e.Field != "/children/0/name" {
				t.Errorf("got %v", err)
			}
		})
	}
	group.Wait()
}

// A required member that has a default may be missing: servers fill it in. Where
// accepting more would refuse more, the schema applies as it is written.
func TestRequiredMembersWithDefaults(t *testing.T) {
	c := compile(t, tool(`{"type":"object","required":["type","size","depth","list"],"$defs":{"depth":{"type":"integer","default":1},"loop":{"$ref":"#/$defs/loop"}},
		"properties":{
			"type":{"type":"string","default":"png"},
			"size":{"type":"integer"},
			"depth":{"$ref":"#/$defs/depth"},
			"loop":{"$ref":"#/$defs/loop"},
			"list":{"type":"array","default":null,"items":{"type":"object","required":["a","b"],"properties":{"a":{"default":0},"b":{}}}},
			"one":{"oneOf":[
				{"type":"object","required":["url"],"properties":{"url":{"type":"string","default":"x"}}},
				{"type":"object","required":["file"],"properties":{"file":{"type":"string"}}}]},
			"not":{"type":"object","not":{"required":["x"],"properties":{"x":{"default":1}}}}}}`))
	for _, test := range []struct{ params, says string }{
		{`{"size":1}`, ""},
		{`{"size":1,"type":"jpg","depth":2,"list":[{"b":1}]}`, ""},
		{`{"type":"png"}`, `"size" is missing.`},
		{`{"size":1,"type":7}`, `"type" must be a string, not a number.`},
		{`{"size":1,"list":[{"a":1}]}`, `"list[0].b" is missing.`},
		{`{"size":1,"one":{"file":"f"}}`, ""},
		{`{"size":1,"not":{}}`, ""},
	} {
		err := c.Check(json.RawMessage(test.params))
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", test.params, err, test.says)
		}
	}
}

func TestMembers(t *testing.T) {
	raw := []byte(` { "a" : 1 , "b\u0063" :{"x":[1,"}"]},"a": "\"" } `)
	members, ok := sources.Members(raw)
	if !ok {
		t.Fatal("not an object")
	}
	var got []string
	for _, m := range members {
		got = append(got, m.Name+"="+string(raw[m.Value:m.End]))
	}
	if diff := cmp.Diff([]string{"a=1", `bc={"x":[1,"}"]}`, `a="\""`}, got); diff != "" {
		t.Error(diff)
	}
	if v := sources.Lookup(raw, members, "a"); string(v) != `"\""` {
		t.Errorf("got %s", v)
	}
	for in, want := range map[string]string{
		`{"a":1}`: `{}`, `{ "a":1 , "b":2 }`: `{ "b":2 }`, `{"b":2 , "a":1}`: `{"b":2}`, `{"b":1,"a":2 ,"c":3}`: `{"b":1 ,"c":3}`,
		`{"a":1,"a":2,"c":3}`: `{"c":3}`, `[1]`: `[1]`, `{"b":1}`: `{"b":1}`, `{`: `{`,
	} {
		if got := string(sources.RemoveMember([]byte(in), "a")); got != want {
			t.Errorf("Without(%s) = %s, want %s", in, got, want)
		}
	}
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[]},"a":"x"}`), "a")
	f.Add([]byte(` { } `), "")
	f.Add([]byte(`{"\ud800":1}`), "x")
	for _, seed := range []string{``, `{`, `{"a"}`, `{"a":1,}`, `{"a":1}x`, `{"a":01}`, `{,}`, `{}}`, `{a:1}`, `[{}]`, `{"a":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`, `{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`} {
		f.Add([]byte(seed), "a")
	}
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		members, ok := sources.Members(raw)
		if text := bytes.TrimLeft(raw, " \t\r\n"); ok != (json.Valid(raw) && text[0] == '{') {
			t.Fatalf("%.100q is an object: %v", raw, ok)
		}
		out := sources.RemoveMember(raw, name)
		if !ok {
			return
		}
		for _, m := range members {
			if !json.Valid(raw[m.Value:m.End]) {
				t.Fatalf("%q is no value", raw[m.Value:m.End])
			}
		}
		left, ok := sources.Members(out)
		if !ok || sources.Lookup(out, left, name) != nil {
			t.Fatalf("%q without %q is %q", raw, name, out)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	c, err := sources.Compile(tool(issue), time.Second)
	if err != nil {
		b.Fatal(err)
	}
	params := json.RawMessage(`{"title":"x","team":"ENG","points":3,"priority":"low","labels":[{"name":"a"},{"name":"b"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Check(params); err != nil {
			b.Fatal(err)
		}
	}
}
