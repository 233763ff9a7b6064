package canonical_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"sallyport/internal/canonical"
)

func TestAt(t *testing.T) {
	const doc = `{"":{"":1},"a":[10,[true],{"b":"x"}],"a/b":2,"m~n":3,"n":null,"q\"\\\n":4,"~1":5,"é":6,"` + "\ufffd" + `":7}`
	for pointer, want := range map[string]string{
		"": doc, "/": `{"":1}`, "//": `1`, "/a": `[10,[true],{"b":"x"}]`, "/a/0": `10`, "/a/1/0": `true`, "/a/2/b": `"x"`,
		"/a~1b": `2`, "/m~0n": `3`, "/n": `null`, "/q\"\\\n": `4`, "/~01": `5`, "/é": `6`, "/\ufffd": `7`,
		// There is nothing there, or they are no pointers.
		"a": "", "/x": "", "/a/3": "", "/a/-": "", "/a/01": "", "/a/+1": "", "/a/-1": "", "/a/": "", "/a/0/": "", "/a/1e0": "",
		"/a/99999999999999999999": "", "/n/x": "", "/m~n": "", "/m~": "", "/~1": "", "/~": "", "/a/2/b/0": "", "/\xff": "", "#/a": "", "/A": "",
	} {
		if got := string(canonical.At([]byte(doc), pointer)); got != want {
			t.Errorf("%q: got %s; want %s", pointer, got, want)
		}
	}
	for _, none := range []string{"", "/", "/a"} {
		if got := canonical.At(nil, none); got != nil {
			t.Errorf("%q of nothing: %s", none, got)
		}
	}
}

func TestAtDoesNotAllocate(t *testing.T) {
	doc := []byte(`{"a":[1,2,{"channel":"C1"}],"b":"x"}`)
	if n := testing.AllocsPerRun(100, func() { canonical.At(doc, "/a/2/channel") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzAt holds At against a walk of decoded values, and feeds it what is not
// canonical, or no JSON.
func FuzzAt(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b/c":"x"}],"~":{}}`), "/a/1/b~1c")
	f.Add([]byte(`[[0,1,2],"\u0000"]`), "/0/2")
	f.Add([]byte(`{"\"":{"":[]}}`), "/\"//0")
	f.Add([]byte(`{"a":`), "/a")
	f.Add([]byte(`[,`), "/0")
	f.Fuzz(func(t *testing.T, raw []byte, pointer string) {
		canonical.At(raw, pointer)
		doc, err := canonical.JSON(raw)
		if err != nil {
			return
		}
		got, want := canonical.At(doc, pointer), naive(doc, pointer)
		if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Fatalf("%q of %s: got %s; want %s", pointer, doc, got, want)
		}
	})
}

func naive(doc json.RawMessage, pointer string) json.RawMessage {
	segments := strings.Split(pointer, "/")
	if segments[0] != "" {
		return nil
	}
	for _, segment := range segments[1:] {
		if rest := strings.ReplaceAll(strings.ReplaceAll(segment, "~0", ""), "~1", ""); strings.Contains(rest, "~") {
			return nil
		}
		name := strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
		var members map[string]json.RawMessage
		var elements []json.RawMessage
		switch {
		case json.Unmarshal(doc, &members) == nil && members != nil:
			doc = members[name]
		case json.Unmarshal(doc, &elements) == nil && elements != nil:
			n, err := strconv.ParseUint(name, 10, 31)
			if err != nil || strconv.Itoa(int(n)) != segment || int(n) >= len(elements) {
				return nil
			}
			doc = elements[n]
		default:
			return nil
		}
		if doc == nil {
			return nil
		}
	}
	return doc
}
