package guide

import (
	"encoding/json"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/internal/canonical"
	"sallyport/internal/jsonlex"
)

// exampleParams returns the module's example, or one that is generated from the
// schema and passes its check. Nil means that there is none.
func exampleParams(a *action.Action) (params []byte, note string) {
	if len(a.Examples) > 0 {
		return a.Examples[0].Params, a.Examples[0].Note
	}
	if a.Check == nil || len(a.InputSchema) > maxSchema || jsonlex.Document(a.InputSchema) != nil {
		return nil, ""
	}
	r := newReader(a.InputSchema)
	raw := r.sample(a.InputSchema, 0)
	made, err := canonical.JSON(raw)
	if err != nil || len(made) > maxExample || made[0] != '{' || a.Check(made) != nil {
		return nil, ""
	}
	return raw, ""
}

const maxExample = 4 << 10

// sample generates a minimal value for the schema.
func (r *schemaReader) sample(schema []byte, depth int) []byte {
	schema = r.resolve(schema)
	if depth > maxNesting || !r.spend(schema) {
		return []byte("null")
	}
	for _, name := range []string{"const", "default"} {
		if v := get(schema, name); v != nil {
			return v
		}
	}
	for _, name := range []string{"examples", "enum"} {
		for v := range elements(get(schema, name)) {
			return v
		}
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		for one := range elements(get(schema, name)) {
			if get(schema, "properties") == nil {
				return r.sample(one, depth+1)
			}
		}
	}
	switch kind := r.firstType(schema); kind {
	case "object":
		return r.sampleObject(schema, depth)
	case "array":
		if n, _ := strconv.Atoi(string(get(schema, "minItems"))); n != 1 || get(schema, "items") == nil {
			return []byte("[]")
		}
		return append(append([]byte{'['}, r.sample(get(schema, "items"), depth+1)...), ']')
	case "string":
		return jsonlex.Quote(nil, sampleText(schema))
	case "integer", "number":
		return sampleNumber(schema)
	case "boolean":
		return []byte("true")
	}
	return []byte("null")
}

// firstType returns the first type that is not null.
func (r *schemaReader) firstType(schema []byte) string {
	if t := stringOf(get(schema, "type")); t != "" {
		return t
	}
	for _, t := range stringsOf(get(schema, "type")) {
		if t != "null" {
			return t
		}
	}
	if get(schema, "properties") != nil {
		return "object"
	}
	return ""
}

func (r *schemaReader) sampleObject(schema []byte, depth int) []byte {
	b := []byte{'{'}
	properties := get(schema, "properties")
	for i, name := range stringsOf(get(schema, "required")) {
		if i == maxParams || len(b) > maxExample {
			break
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(b, name), ':')
		b = append(b, r.sample(get(properties, name), depth+1)...)
	}
	return append(b, '}')
}

func sampleText(schema []byte) string {
	switch stringOf(get(schema, "format")) {
	case "date-time":
		return "2026-01-31T12:00:00Z"
	case "date":
		return "2026-01-31"
	case "uri", "url":
		return "https://example.com"
	case "email":
		return "ada@example.com"
	case "uuid":
		return "0199a3c4-5d6e-7f80-9123-456789abcdef"
	}
	least, _ := strconv.Atoi(string(get(schema, "minLength")))
	most, err := strconv.Atoi(string(get(schema, "maxLength")))
	sample := "text"
	if least > len(sample) && least <= 200 {
		sample = strings.Repeat("text", least/4+1)[:least]
	}
	if err == nil && most >= 0 && most < len(sample) {
		sample = sample[:most]
	}
	return sample
}

func sampleNumber(schema []byte) []byte {
	if v := get(schema, "minimum"); v != nil {
		return v
	}
	var above json.Number
	if v := get(schema, "exclusiveMinimum"); v != nil && json.Unmarshal(v, &above) == nil {
		if n, err := above.Int64(); err == nil {
			return strconv.AppendInt(nil, n+1, 10)
		}
	}
	return []byte("1")
}
