package jsonlex_test

import (
	"encoding/json"
	"testing"

	"sallyport/internal/jsonlex"
)

func TestObject(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":1}`:                       `{"a":1}`,
		`"{\"n\":9007199254740993.10}"`: `{"n":9007199254740993.10}`,
		`" {\"a\":\"\\u00e9\\\"\"} "`:   ` {"a":"\u00e9\""} `,
		`"\"{}\""`:                      "", // a string in a string
		`"{} {}"`:                       "",
		`"{"`:                           "",
		`"[1]"`:                         "",
		`""`:                            "",
		`"\ud800{}"`:                    "",
		`[1]`:                           "",
		`null`:                          "",
		`1`:                             "",
		``:                              "",
	} {
		got, ok := jsonlex.Object([]byte(raw))
		if string(got) != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", raw, got, ok, want)
		}
	}
}

func TestNoObject(t *testing.T) {
	for raw, want := range map[string]string{
		`"x"`: "it is a string that does not hold one", `[1]`: "it is an array", `null`: "it is null", `-1`: "it is a number", `true`: "it is a boolean", ``: "it is nothing",
	} {
		if got := jsonlex.NoObject([]byte(raw)); got != want {
			t.Errorf("%s: %s", raw, got)
		}
	}
}

// FuzzObject: what comes out is an object, and the same again.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{`{}`, `"{}"`, `"{\"a\":\"{}\"}"`, `"x"`, `"\u007b\u007d"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || jsonlex.Document(raw) != nil || jsonlex.Space(raw, 0) != 0 {
			return
		}
		end, err := jsonlex.Value(raw, 0, 0)
		if err != nil || end != len(raw) {
			return
		}
		object, ok := jsonlex.Object(raw)
		if !ok {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(object, &m); err != nil {
			t.Fatalf("%q became %q: %v", raw, object, err)
		}
	})
}
