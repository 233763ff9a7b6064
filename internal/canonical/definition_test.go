package canonical_test

import (
	"errors"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/internal/canonical"
)

const tool = `{
	"name": "create_issue",
	"title": "Create",
	"description": "Creates an issue.",
	"inputSchema": {
		"type": "object",
		"description": "params",
		"properties": {
			"title": {"type": "string", "description": "a title", "default": "x"},
			"team": {"enum": ["A", "B"]},
			"description": {"type": "string"},
			"default": {"type": "integer"},
			"enum": {"items": {"enum": [1]}},
			"kind": {"const": {"description": "data"}}
		},
		"$defs": {"enum": {"anyOf": [{"default": 1, "type": "string"}, true]}},
		"required": ["title"]
	},
	"annotations": {"readOnlyHint": false}
}`

func TestDefinitionHash(t *testing.T) {
	before := hash(t, tool)
	if len(before) != 64 {
		t.Fatalf("got %q; want 64 hex digits", before)
	}
	for _, test := range []struct {
		name, old, new string
		same           bool
	}{
		{"the tool's own texts", `"Creates an issue."`, `"Deletes an issue."`, true},
		{"its title", `"title": "Create"`, `"title": "Make"`, true},
		{"the order of members", `{"readOnlyHint": false}`, `{ "readOnlyHint":false }`, true},
		{"a null output schema", `"annotations"`, `"outputSchema": null, "annotations"`, true},
		{"a description", `"a title"`, `"another"`, true},
		{"the schema's own description", `"params"`, `"parameters"`, true},
		{"a default", `"default": "x"`, `"default": "y"`, true},
		{"an enum", `["A", "B"]`, `["A", "B", "C"]`, true},
		{"an enum under items", `{"enum": [1]}`, `{"enum": [1, 2]}`, true},
		{"a default within anyOf within $defs", `"default": 1`, `"default": 2`, true},
		{"the name", `"create_issue"`, `"delete_issue"`, false},
		{"an annotation", `"readOnlyHint": false`, `"readOnlyHint": true`, false},
		{"a new annotation", `"readOnlyHint": false`, `"readOnlyHint": false, "title": "x"`, false},
		{"a type", `"title": {"type": "string"`, `"title": {"type": "number"`, false},
		{"a property named description", `"description": {"type": "string"}`, `"description": {"type": "number"}`, false},
		{"a property named description gone", `"description": {"type": "string"},`, ``, false},
		{"a property named default", `"default": {"type": "integer"}`, `"default": {"type": "number"}`, false},
		{"a property named enum", `"enum": {"items"`, `"enum": {"minItems": 1, "items"`, false},
		{"a definition named enum", `"type": "string"}, true`, `"type": "number"}, true`, false},
		{"a description within const is data", `"description": "data"`, `"description": "other"`, false},
		{"a new property", `"team": {`, `"force": {"type": "boolean"}, "team": {`, false},
		{"what is required", `["title"]`, `["team"]`, false},
		{"an output schema", `"annotations"`, `"outputSchema": {"type": "object"}, "annotations"`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.Count(tool, test.old) != 1 {
				t.Fatalf("%q is not there once", test.old)
			}
			after := hash(t, strings.Replace(tool, test.old, test.new, 1))
			if (after == before) != test.same {
				t.Errorf("same hash: %v; want %v", after == before, test.same)
			}
		})
	}
}

func TestDefinitionHashWalksEverySchema(t *testing.T) {
	for _, key := range []string{
		"items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties",
		"propertyNames", "not", "if", "then", "else", "contentSchema",
	} {
		sameButFor(t, `{"`+key+`":{"type":"string","description":"%"}}`)
	}
	for _, key := range []string{"prefixItems", "items", "allOf", "anyOf", "oneOf"} {
		sameButFor(t, `{"`+key+`":[true,{"type":"string","default":"%"}]}`)
	}
	for _, key := range []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"} {
		sameButFor(t, `{"`+key+`":{"description":{"enum":["%"]}}}`)
	}
}

// sameButFor checks that the text at % does not count, and that the rest does.
func sameButFor(t *testing.T, schema string) {
	t.Helper()
	wrap := func(s string) string { return `{"name":"n","inputSchema":` + s + `}` }
	one := hash(t, wrap(strings.Replace(schema, "%", "one", 1)))
	if two := hash(t, wrap(strings.Replace(schema, "%", "two", 1))); one != two {
		t.Errorf("a text counts in %s", schema)
	}
	if without := hash(t, wrap(`{}`)); one == without {
		t.Errorf("nothing counts in %s", schema)
	}
}

func TestDefinitionHashKeepsDigits(t *testing.T) {
	a := hash(t, `{"name":"n","inputSchema":{"maximum":9007199254740993}}`)
	b := hash(t, `{"name":"n","inputSchema":{"maximum":9007199254740992}}`)
	if a == b {
		t.Error("2^53 and 2^53+1 have the same hash")
	}
}

func TestDefinitionHashRefuses(t *testing.T) {
	for _, def := range []string{``, `null`, `[]`, `"x"`, `{"name":"a","name":"b"}`, `{"inputSchema":{"type":"a","type":"b"}}`} {
		if h, err := canonical.DefinitionHash([]byte(def)); !errors.Is(err, action.ErrInvalid) {
			t.Errorf("DefinitionHash(%s) = %q, %v; want it refused", def, h, err)
		}
	}
}

func TestDefinitionHashOfOddSchemas(t *testing.T) {
	for _, schema := range []string{
		`true`, `[]`, `[1,{"enum":[]}]`, `"x"`, `{"properties":[]}`, `{"properties":{"a":1}}`, `{"items":3}`, `{"anyOf":{}}`, `{"dependencies":{"a":["b"]}}`,
	} {
		hash(t, `{"name":"n","inputSchema":`+schema+`}`)
	}
}

func FuzzDefinitionHash(f *testing.F) {
	f.Add([]byte(tool))
	f.Add([]byte(`{"inputSchema":{"items":[{"enum":[[]]}],"properties":{"enum":{"enum":1}}}}`))
	f.Fuzz(func(t *testing.T, def []byte) {
		h, err := canonical.DefinitionHash(def)
		if err != nil {
			return
		}
		c, err := canonical.JSON(def)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := canonical.DefinitionHash(c); err != nil || again != h {
			t.Fatalf("the canonical form hashes otherwise: %q, %q, %v", h, again, err)
		}
	})
}

func hash(t *testing.T, def string) string {
	t.Helper()
	h, err := canonical.DefinitionHash([]byte(def))
	if err != nil {
		t.Fatalf("%s: %v", def, err)
	}
	return h
}
