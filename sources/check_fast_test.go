package sources

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// fastSchemas are schemas with a fast form.
func fastSchemas() []string {
	return []string{
		`{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},"required":["n"]}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,"x-more":1,"properties":{"state":{"type":"string","enum":["open","closed"]},
			"labels":{"type":"array","items":{"type":["string","null"]}},"size":{"type":"number","default":1},"any":true,"on":{"type":"boolean"},
			"nested":{"type":"object","properties":{"id":{"type":"string","description":"d"}},"required":["id"],"additionalProperties":false}},"required":["state","size"]}`,
		`{"properties":{"list":{"items":{"type":"array"}},"é":{"type":"integer"},"a\"b":{"type":"null"}},"additionalProperties":true}`,
		`{"type":"object","properties":{"\ufffd":{"type":"integer"}}}`,
		`{}`,
	}
}

// checkers returns the checker of a schema, and one without its fast form.
func checkers(t testing.TB, schema string) (fast, slow *checker) {
	t.Helper()
	var both [2]*checker
	for i := range both {
		c, _, err := newChecker(json.RawMessage(schema), time.Second)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		both[i] = c
	}
	both[1].fast = nil
	return both[0], both[1]
}

// Whatever the fast form accepts, the validator accepts.
func FuzzFastSchema(f *testing.F) {
	for schema := range fastSchemas() {
		for _, params := range []string{
			`{"n":1}`, `{"n":1.0}`, `{"n":-5,"text":"\u0000"}`, `{"n":1,"n":"x"}`, `{"n":1e5}`, `{"n":1}x`, `{"n":01}`, `{"n":1,}`, `{ "n" : 1 , "x":[1,{"y":1e99999}]} `,
			`{"state":"open","size":1.5,"labels":["a",null],"any":{"a":[]},"on":true,"nested":{"id":"x"}}`, `{"state":"op\u0065n","size":1}`, `{"state":"other","size":1}`,
			`{"st\u0061te":"open","size":2,"nested":{}}`, `{"size":1,"state":1}`, `{"list":[[],[1]],"é":"x"}`, `{"list":{}}`, `{"a\"b":1}`, "{\"\xff\":\"x\"}", `[]`, `{}`, `null`, `"x"`,
			`{"any":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `{"n":1,"x":` + strings.Repeat("9", 500) + `}`, `{"on":tru}`, `{"n":nul}`,
		} {
			f.Add(schema, []byte(params))
		}
	}
	var fast, slow []*checker
	for _, schema := range fastSchemas() {
		a, b := checkers(f, schema)
		fast, slow = append(fast, a), append(slow, b)
	}
	f.Fuzz(func(t *testing.T, schema int, params []byte) {
		if schema < 0 || schema >= len(fast) || len(params) == 0 {
			return
		}
		if err := slow[schema].Check(params); err != nil && fast[schema].fast.accepts(params) {
			t.Fatalf("schema %d accepts %q: %v", schema, params, err)
		}
	})
}

// The fast form exists for what is simple, and accepts it.
func TestFastSchema(t *testing.T) {
	for _, test := range []struct {
		schema, params string
		accepts        bool
	}{
		{fastSchemas()[0], `{"n":1,"text":"the quick brown fox","more":[1.5,{"x":null}]}`, true},
		{fastSchemas()[0], `{"text":"x"}`, false},
		{fastSchemas()[1], `{"state":"open","size":1.5,"labels":["a",null],"any":{"a":[]},"on":true,"nested":{"id":"x"}}`, true},
		{fastSchemas()[1], `{"state":"open","size":1,"other":2}`, false},
		{fastSchemas()[1], `{"state":"open","size":1,"nested":{"id":"x","y":1}}`, false},
		{`{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}`, `{"n":1}`, false},
		{`{"type":"object","properties":{"n":{"$ref":"#/properties/m"},"m":{}}}`, `{"n":1}`, false},
		{`{"type":"object","properties":{"n":{"type":"string","format":"date"}}}`, `{"n":"x"}`, false},
		{`{"type":"object","properties":{"n":false}}`, `{"n":1}`, false},
		{`{"type":"object","required":["n"]}`, `{"n":1}`, false},
		{`{"type":"object","properties":{"n":{"enum":[1,"a"]}}}`, `{"n":"a"}`, false},
	} {
		fast, _ := checkers(t, test.schema)
		if got := fast.fast.accepts([]byte(test.params)); got != test.accepts {
			t.Errorf("%s accepts %s: %v, want %v", test.schema, test.params, got, test.accepts)
		}
	}
}
