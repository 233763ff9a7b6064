package sources_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
)

// tool is one compiled tool of a source: the part of an action that does not
// depend on other sources.
func tool(schema string) json.RawMessage {
	return json.RawMessage(`{"name":"t","inputSchema":` + schema + `}`)
}

// compile compiles a tool definition. The error says why the tool is left out.
func compile(t *testing.T, raw json.RawMessage) *sources.Compiled {
	t.Helper()
	c, err := sources.Compile(raw, 250*time.Millisecond)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return c
}

func TestDefinitionKeepsItsBytes(t *testing.T) {
	for _, test := range []struct{ raw, want string }{
		{`{"name":"a.b","inputSchema":{}}`, `{"name":"x_a_b","inputSchema":{}}`},
		{
			` { "inputSchema" : {"maximum":18446744073709551616, "name":"a.b"} , "name" : "a\u002eb" ,"zz":[1.0,null], "execution":{} } `,
			` { "inputSchema" : {"maximum":18446744073709551616, "name":"a.b"} , "name" : "x_a_b" ,"zz":[1.0,null], "execution":{} } `,
		},
		{`{"\u006eame":"a.b","inputSchema":{},"annotations":{"name":"a.b"}}`, `{"\u006eame":"x_a_b","inputSchema":{},"annotations":{"name":"a.b"}}`},
	} {
		c := compile(t, json.RawMessage(test.raw))
		if diff := cmp.Diff(test.want, string(c.Renamed("x_a_b"))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(test.raw, string(c.Renamed("a.b"))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCompileReads(t *testing.T) {
	c := compile(t, json.RawMessage(`{"name":"t","title":"T","description":"d\u00e9","Title":"no","inputSchema":{},"annotations":{"title":"no","readOnlyHint":true}}`))
	if c.Title != "T" || c.Description != "dé" || c.Hint != action.RiskRead {
		t.Errorf("got %+v", c)
	}
	for annotations, want := range map[string]action.Risk{
		`{"destructiveHint":true,"readOnlyHint":true}`: action.RiskDanger,
		`{"destructiveHint":false}`:                    "",
		`{"ReadOnlyHint":true}`:                        "",
		`{"readOnlyHint":"true"}`:                      "",
		`{"readOnlyHint":1}`:                           "",
		`null`:                                         "",
		`[]`:                                           "",
	} {
		if c := compile(t, json.RawMessage(`{"name":"t","inputSchema":{},"annotations":`+annotations+`}`)); c.Hint != want {
			t.Errorf("%s is %q, want %q", annotations, c.Hint, want)
		}
	}
}

func TestCompileDrops(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"a":`, 40) + `{}` + strings.Repeat(`}}`, 40)
	for _, test := range []struct{ name, raw, says string }{
		{"null", `null`, "not an object"},
		{"a number", `7`, "not an object"},
		{"a list", `[]`, "not an object"},
		{"no name", `{"inputSchema":{}}`, "name"},
		{"a name that is no text", `{"name":7,"inputSchema":{}}`, "name"},
		{"a name with a space", `{"name":"a b","inputSchema":{}}`, "name"},
		{"a name with a colon", `{"name":"a:b","inputSchema":{}}`, "name"},
		{"a name that looks Latin", `{"name":"раypal","inputSchema":{}}`, "name"},
		{"a long name", `{"name":"` + strings.Repeat("n", 129) + `","inputSchema":{}}`, "name"},
		{"a name in another case", `{"Name":"t","inputSchema":{}}`, "name"},
		{"two names", `{"name":"t","name":"u","inputSchema":{}}`, "twice"},
		{"a keyword twice", `{"name":"t","inputSchema":{"properties":{"a":{"type":"string","type":"number"}}}}`, "twice"},
		{"no schema", `{"name":"t"}`, "no inputSchema"},
		{"null schema", string(tool(`null`)), "not an object"},
		{"true", string(tool(`true`)), "not an object"},
		{"a schema of text", string(tool(`{"type":"string"}`)), "describe an object"},
		{"of several types", string(tool(`{"type":["object","null"]}`)), "describe an object"},
		{"an unknown type", string(tool(`{"properties":{"a":{"type":"strin"}}}`)), "not a valid JSON Schema"},
		{"required that is text", string(tool(`{"required":"a"}`)), "not a valid JSON Schema"},
		{"a reference out of it", string(tool(`{"properties":{"a":{"$ref":"https://example.com/s.json"}}}`)), "refers to another document"},
		{"a reference to a file", string(tool(`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`)), "refers to another document"},
		{"a relative reference", string(tool(`{"allOf":[{"$ref":"other.json#/a"}]}`)), "refers to another document"},
		{"a reference to the meta schema", string(tool(`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`)), "refers to another document"},
		{"a reference by a trick of base", string(tool(`{"$id":"http://json-schema.org/draft-07/schema","$ref":"#"}`)), "claims to be"},
		{"a dynamic reference", string(tool(`{"$dynamicRef":"https://example.com/#x"}`)), "refers to another document"},
		{"a reference to nothing", string(tool(`{"$ref":"#/$defs/none"}`)), "not found"},
		{"an unknown dialect", string(tool(`{"$schema":"https://example.com/dialect"}`)), "not loaded"},
		{"an unknown dialect inside", string(tool(`{"properties":{"a":{"$id":"x","$schema":"https://example.com/dialect"}}}`)), "not loaded"},
		{"an expression that is broken", string(tool(`{"properties":{"a":{"pattern":"("}}}`)), "not a valid JSON Schema"},
		{"a number as large as a house", string(tool(`{"properties":{"a":{"minimum":1e999999999}}}`)), "too large"},
		{"too deep", string(tool(deep)), "64"},
		{"too large", string(tool(`{"title":"` + strings.Repeat("x", 256<<10) + `"}`)), "larger"},
		{"too many required", string(tool(`{"required":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 1001), ",") + `]}`)), "more than"},
		{"a header for an object", string(tool(`{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}`)), "x-mcp-header"},
		{"a header with a space", string(tool(`{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`)), "x-mcp-header"},
		{"a header twice", string(tool(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}}}`)), "twice"},
		{"a broken output", `{"name":"t","inputSchema":{},"outputSchema":{"type":7}}`, "outputSchema"},
		{"an output from elsewhere", `{"name":"t","inputSchema":{},"outputSchema":{"$ref":"http://x/"}}`, "outputSchema"},
		{"references in a long chain", string(tool(chain(2000))), "levels"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := sources.Compile(json.RawMessage(test.raw), time.Second)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %+v, %v; want %q", c, err, test.says)
			}
			if err != nil && strings.Contains(err.Error(), "panic") {
				t.Errorf("it panicked: %v", err)
			}
		})
	}
}

// chain is a schema in which one definition refers to the next.
func chain(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"object"}}}`, n)
	return b.String()
}

func TestCompileTakes(t *testing.T) {
	for name, schema := range map[string]string{
		"anything":           `{}`,
		"an object":          `{"type":"object"}`,
		"local references":   `{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`,
		"an anchor":          `{"properties":{"a":{"$ref":"#a"}},"$defs":{"x":{"$anchor":"a","type":"string"}}}`,
		"itself":             `{"type":"object","properties":{"child":{"$ref":"#"}}}`,
		"draft 7":            `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{}},"properties":{"a":{"$ref":"#/definitions/a"}}}`,
		"draft 4":            `{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://example.com/x","properties":{"id":{"type":"string"}}}`,
		"2019-09":            `{"$schema":"https://json-schema.org/draft/2019-09/schema"}`,
		"an id of its own":   `{"$id":"https://example.com/tool.json","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}}`,
		"a field named $ref": `{"properties":{"$ref":{"type":"string"},"enum":{"type":"array"},"required":{"type":"boolean"}}}`,
		"data named $ref":    `{"properties":{"a":{"enum":[{"$ref":"http://x/"}],"default":{"$ref":"http://x/"}}}}`,
		"unknown formats":    `{"properties":{"a":{"type":"string","format":"made-up"}}}`,
		"unknown keywords":   `{"x-vendor":{"a":[1,{"b":2}]},"properties":{"a":{"discriminator":"k"}}}`,
		"headers":            `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"B"}}}`,
	} {
		c := compile(t, tool(schema))
		if err := c.Check(json.RawMessage(`{"a":"x"}`)); err != nil && name != "a header" && !strings.Contains(name, "$ref") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForeignPatterns has expressions that JavaScript knows and Go does not.
func TestForeignPatterns(t *testing.T) {
	for pattern, noted := range map[string]bool{
		`^(?!x).*$`: true, `(a)\\1`: true, `(?<=a)b`: true, `a{2000}`: true,
		`^\\d+$`: false, `^[\\u00e9-\\u00ff]+$`: false, `^\\p{L}+$`: false, `(?<year>\\d{4})`: false, `^\\/x`: false,
	} {
		c := compile(t, tool(`{"properties":{"a":{"pattern":"`+pattern+`"}}}`))
		if got := len(c.Notes) > 0; got != noted {
			t.Errorf("%s: notes %q", pattern, c.Notes)
		}
	}
	c := compile(t, tool(`{"properties":{"a":{"pattern":"^[\\u00e9-\\u00ff]+$"}}}`))
	if c.Check(json.RawMessage(`{"a":"é"}`)) != nil || c.Check(json.RawMessage(`{"a":"e"}`)) == nil {
		t.Error("the escapes of JavaScript are not understood")
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"integer"}}}}`,
		`{"name":"t","inputSchema":{"$ref":"#"}}`, `{"\u006eame":"t","inputSchema":{},"x":1e400}`, `{"name":"t","inputSchema":{"allOf":[true,false,{}]}}`,
		`{"name":"t","inputSchema":{"patternProperties":{"^x":{"const":1e5}},"unevaluatedProperties":false}}`,
		`{"name":"t","inputSchema":{"properties":{"a":{"pattern":"(?=x)","x-mcp-header":"A","type":"string"}}},"annotations":{"readOnlyHint":true}}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":[1,{"b":9007199254740993}],"x":"y"}`))
	}
	f.Fuzz(func(t *testing.T, raw, params []byte) {
		before := bytes.Clone(raw)
		c, err := sources.Compile(raw, 50*time.Millisecond)
		if err != nil {
			return
		}
		_ = c.Check(params)
		const name = "another_name"
		out := c.Renamed(name)
		if !bytes.Equal(raw, before) {
			t.Fatal("the definition was changed in place")
		}
		was, is := decode(t, raw), decode(t, out)
		if is["name"] != name {
			t.Fatalf("the name is %v in %s", is["name"], out)
		}
		delete(was, "name")
		delete(is, "name")
		if diff := cmp.Diff(was, is); diff != "" {
			t.Fatal(diff)
		}
		if n := len(name) - len(c.Name); len(out)-len(raw) > n && !bytes.Contains(raw, []byte(`\`)) {
			t.Fatalf("more than the name changed: %s became %s", raw, out)
		}
	})
}

// decode parses one JSON value and keeps the notation of numbers.
func decode(t *testing.T, raw []byte) (v map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return v
}
