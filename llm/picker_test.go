package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// picked reads JSON in pieces of a size, and returns what was found.
func picked(text string, size int, wanted ...string) (found []string, err error) {
	p := newPicker(func(path string, raw []byte) error {
		found = append(found, path+"="+string(raw))
		return nil
	}, wanted...)
	for piece := range slices.Chunk([]byte(text), size) {
		if _, err := p.Write(piece); err != nil {
			return found, err
		}
	}
	return found, p.end()
}

func TestPicker(t *testing.T) {
	for text, want := range map[string][]string{
		`{"model":"a","x":{"model":"no"}}`:                      {`model="a"`},
		` { "x" : [ { "model" : 1 } ] , "model" : "a\"\\" } `:   {`model="a\"\\"`},
		`{"mod\u0065l":"a"}`:                                    {`model="a"`},
		`{"MODEL":"a","Model":"b"}`:                             {`model="a"`, `model="b"`},
		`{"message":{"usage":{"n":[1,{"m":2}]}},"usage":null}`:  {`message.usage={"n":[1,{"m":2}]}`, `usage=null`},
		`[{"usageMetadata":{"a":1}},{"usageMetadata":{"a":2}}]`: {`*.usageMetadata={"a":1}`, `*.usageMetadata={"a":2}`},
		`{"message.usage":1,"usage":-1.5e3}`:                    {`usage=-1.5e3`},
		`{"":{"model":1},"model":true}`:                         {`model=true`},
		`{"` + strings.Repeat("x", 500) + `":1,"model":2}`:      {`model=2`},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			got, err := picked(text, size, "model", "usage", "message.usage", "*.usageMetadata")
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s in pieces of %d: %q, %v; want %q", text, size, got, err, want)
			}
		}
	}
	for text, want := range map[string]error{
		`{"model":"a"`: errTruncate, `{"a":1,}`: errNotJSON, `{"a" 1}`: errNotJSON, `{a:1}`: errNotJSON, `{}{}`: errNotJSON, `]`: errNotJSON, ``: errTruncate, `{"a":`: errTruncate,
		`{"model":"` + strings.Repeat("x", maxKept) + `"}`: errTooLong,
		strings.Repeat("[", maxDepth+1):                    errNotJSON,
	} {
		for _, size := range []int{1, 1 << 20} {
			if _, err := picked(text, size, "model"); !errors.Is(err, want) {
				t.Errorf("%.40s in pieces of %d: %v, want %v", text, size, err, want)
			}
		}
	}
}

// FuzzPicker compares the members that are found with those of encoding/json: in every
// valid document, all values of the member in its order, whatever the pieces are.
func FuzzPicker(f *testing.F) {
	f.Add(`{"model":"a","x":[1,{"model":2}]}`, uint8(3))
	f.Add(`{"MODEL":null, "model" : {"model":"\u0000"}}`, uint8(1))
	f.Add("[{\"a\\\\\":\"\\\"\"}]", uint8(2))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		if !json.Valid([]byte(text)) || len(text) > 4<<10 {
			return
		}
		got, err := picked(text, int(size)+1, "model")
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var want []string
		d := json.NewDecoder(strings.NewReader(text))
		if first, _ := d.Token(); first == json.Delim('{') {
			for d.More() {
				name, _ := d.Token()
				var value json.RawMessage
				if err := d.Decode(&value); err != nil {
					t.Fatal(err)
				}
				if strings.EqualFold(fmt.Sprint(name), "model") {
					want = append(want, "model="+string(value))
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	})
}
