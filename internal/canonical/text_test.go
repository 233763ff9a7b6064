package canonical_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/internal/canonical"
)

// Each change shows in one hash or the other, and in both only when it is of
// both kinds.
func TestTextHash(t *testing.T) {
	texts, behaviour := textHash(t, tool), hash(t, tool)
	if len(texts) != 64 || texts == behaviour {
		t.Fatalf("got %q", texts)
	}
	for _, test := range []struct {
		name, old, new string
		same           bool
	}{
		{"the description", `"Creates an issue."`, `"Deletes an issue."`, false},
		{"the title", `"title": "Create"`, `"title": "Make"`, false},
		{"no title", `"title": "Create",`, ``, false},
		{"icons", `"annotations"`, `"icons": [], "annotations"`, false},
		{"an unknown member", `"annotations"`, `"_meta": {"a": 1}, "annotations"`, false},
		{"a null one", `"annotations"`, `"_meta": null, "annotations"`, true},
		{"a description in a schema", `"a title"`, `"another"`, false},
		{"one more", `"type": "object"`, `"type": "object", "default": {}`, false},
		{"a default", `"default": "x"`, `"default": "y"`, false},
		{"a null default", `"default": "x"`, `"default": null`, false},
		{"an enum", `["A", "B"]`, `["A", "B", "C"]`, false},
		{"an enum under items", `{"enum": [1]}`, `{"enum": [1, 2]}`, false},
		{"a default within anyOf within $defs", `"default": 1`, `"default": 2`, false},
		{"a text that moves to another member", `"type": "string", "description": "a title", "default": "x"},`, `"type": "string", "default": "x"}, "z": {"description": "a title"},`, false},
		{"a text that moves within anyOf", `[{"default": 1, "type": "string"}, true]`, `[true, {"default": 1, "type": "string"}]`, false},
		{"the order of members", `{"readOnlyHint": false}`, `{ "readOnlyHint":false }`, true},
		{"the name", `"create_issue"`, `"delete_issue"`, true},
		{"an annotation", `"readOnlyHint": false`, `"readOnlyHint": true`, true},
		{"a type", `"title": {"type": "string"`, `"title": {"type": "number"`, true},
		{"a property named description", `"description": {"type": "string"}`, `"description": {"type": "number"}`, true},
		{"a property without texts gone", `"description": {"type": "string"},`, ``, true},
		{"a new property without texts", `"team": {`, `"force": {"type": "boolean"}, "team": {`, true},
		{"what is required", `["title"]`, `["team"]`, true},
		{"a constant", `{"description": "data"}`, `{"description": "other"}`, true},
		{"an output schema without texts", `"annotations"`, `"outputSchema": {"items": [{}]}, "annotations"`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.Count(tool, test.old) != 1 {
				t.Fatalf("%q is not there once", test.old)
			}
			changed := strings.Replace(tool, test.old, test.new, 1)
			if (textHash(t, changed) == texts) != test.same {
				t.Errorf("same hash: %v; want %v", !test.same, test.same)
			}
			if one, two := reduced(t, tool), reduced(t, changed); !bytes.Equal(one, two) && textHash(t, changed) == texts && hash(t, changed) == behaviour {
				t.Error("neither hash changed")
			}
		})
	}
}

func TestTextHashFollowsEverySchema(t *testing.T) {
	for _, schema := range []string{
		`{"items":{"description":"%"}}`, `{"prefixItems":[true,{"default":"%"}]}`, `{"$defs":{"description":{"enum":["%"]}}}`,
		`{"not":{"properties":{"a":{"allOf":[{},{"then":{"description":"%"}}]}}}}`,
	} {
		wrap := func(s string) string {
			return `{"name":"n","outputSchema":` + strings.Replace(schema, "%", s, 1) + `}`
		}
		if textHash(t, wrap("one")) == textHash(t, wrap("two")) {
			t.Errorf("the text does not count in %s", schema)
		}
	}
}

func TestTextHashRefuses(t *testing.T) {
	for _, def := range []string{``, `null`, `[]`, `{"name":"a","name":"b"}`} {
		if h, err := canonical.TextHash([]byte(def)); !errors.Is(err, action.ErrInvalid) {
			t.Errorf("TextHash(%s) = %q, %v; want it refused", def, h, err)
		}
	}
}

// Of many small definitions made of few words, no two that differ agree in
// both hashes.
func TestHashesCoverTheDefinition(t *testing.T) {
	type hashes struct{ behaviour, text string }
	seen := map[hashes]string{}
	m := maker{rand.New(rand.NewPCG(1, 2))}
	for range 20_000 {
		def := m.definition()
		key, now := hashes{hash(t, def), textHash(t, def)}, string(reduced(t, def))
		if before, ok := seen[key]; ok && before != now {
			t.Fatalf("the same hashes:\n%s\n%s", before, now)
		}
		seen[key] = now
	}
	if len(seen) < 5_000 {
		t.Errorf("only %d different ones", len(seen))
	}
}

// maker makes definitions in which names mean different things in different
// places.
type maker struct{ *rand.Rand }

func (m maker) definition() string {
	return m.object(2, []string{"name", "description", "inputSchema", "outputSchema", "_meta"}, func() string { return m.schema(3) })
}

func (m maker) object(n int, names []string, value func() string) string {
	var members []string
	for _, i := range m.Perm(len(names))[:m.IntN(n+1)] {
		members = append(members, `"`+names[i]+`":`+value())
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (m maker) schema(depth int) string {
	switch n := m.IntN(12); {
	case n == 0 || depth == 0:
		return []string{"null", "true", "1", "[]", "{}"}[m.IntN(5)]
	case n < 3:
		return "[" + m.schema(depth-1) + "," + m.schema(depth-1) + "]"
	}
	return m.object(2, []string{"description", "enum", "properties", "items", "type", "0", "1"}, func() string { return m.schema(depth - 1) })
}

// FuzzHashes: two definitions with the same hashes are the same. The second
// is also made of the first by moving bytes, which finds what chance does not.
func FuzzHashes(f *testing.F) {
	for _, pair := range [][2]string{
		{tool, strings.Replace(tool, `"a title"`, `"b title"`, 1)},
		{`{"inputSchema":{"items":{"1":{"enum":1}}}}`, `{"inputSchema":{"items":[{},{"enum":1}]}}`},
		{`{"inputSchema":{"properties":{"enum":{"enum":1}}}}`, `{"inputSchema":{"properties":{"enum":{"enum":{"enum":1}}}}}`},
		{`{"inputSchema":{"properties":{"a":{}},"enum":[{}]}}`, `{"inputSchema":{"properties":{},"enum":[{}]}}`},
		{`{"inputSchema":{"default":null}}`, `{"inputSchema":{}}`},
		{`{"title":null,"x":{"inputSchema":{"default":1}}}`, `{"x":{},"inputSchema":{"default":1}}`},
		{`{"inputSchema":{"dependencies":{"a":["enum"],"b":{"enum":[]}}}}`, `{"inputSchema":{"dependencies":{"a":["enum"],"b":{}}}}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]), 20, 3)
	}
	f.Fuzz(func(t *testing.T, one, two []byte, at, n int) {
		differ(t, one, two)
		if at >= 0 && n > 0 && at < len(one) && n < len(one)-at {
			moved := append(bytes.Clone(one[:at]), one[at+n:]...)
			differ(t, one, append(moved, one[at:at+n]...))
			differ(t, one, moved)
		}
	})
}

func differ(t *testing.T, one, two []byte) {
	t.Helper()
	a, err := canonical.DefinitionHash(one)
	b, errB := canonical.DefinitionHash(two)
	if err != nil || errB != nil || a != b || textHash(t, string(one)) != textHash(t, string(two)) {
		return
	}
	if x, y := reduced(t, string(one)), reduced(t, string(two)); !bytes.Equal(x, y) {
		t.Fatalf("the same hashes:\n%s\n%s", x, y)
	}
}

// reduced returns the canonical form of a definition without null members.
func reduced(t *testing.T, def string) []byte {
	t.Helper()
	c, err := canonical.JSON([]byte(def))
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(c, &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		if string(value) == "null" {
			delete(members, name)
		}
	}
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func textHash(t *testing.T, def string) string {
	t.Helper()
	h, err := canonical.TextHash([]byte(def))
	if err != nil {
		t.Fatalf("%s: %v", def, err)
	}
	return h
}
