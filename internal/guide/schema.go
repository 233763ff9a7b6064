package guide

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/internal/canonical"
	"sallyport/internal/jsonlex"
)

// Limits on parsing a schema. Beyond them it is cut, and the table says so.
const (
	maxSchema          = 512 << 10
	maxNesting         = 6
	maxParams          = 120
	maxBudget          = 2 << 20 // bytes that are read, including repeated reads through references
	maxName            = 200     // characters of a param's name
	maxTypeText        = 500     // of its type
	maxDescriptionText = 1000    // of its description or default
)

// Param is a param of an action, as its JSON Schema describes it. All texts are
// the source's own.
type Param struct {
	Name     string // with dots within objects and [] within arrays: assignee.id, labels[].name
	Type     string // "string", "array of string", "one of \"a\", \"b\"" and so on; empty: any
	Required bool   // within the object that it is of; not if it has a default
	About    string
	Default  string // JSON; empty: none
}

// Params returns the params of a schema, in its order; none if it is not the
// schema of an object. A schema is untrusted: at most most bytes (zero: 2 MiB)
// are read, counting repeated reads, and cut reports that the schema has more.
func Params(schema []byte, most int) (params []Param, cut bool) {
	if len(schema) > maxSchema {
		return nil, true
	}
	if jsonlex.Document(schema) != nil {
		return nil, false
	}
	r := newReader(schema)
	if most > 0 {
		r.budget = min(most, maxBudget)
	}
	r.properties(schema, "", 0)
	return r.params, r.truncated
}

// schemaReader reads a schema within a budget.
type schemaReader struct {
	root      []byte
	params    []Param
	budget    int  // bytes that may still be read
	truncated bool // something was left out
}

func newReader(schema []byte) schemaReader { return schemaReader{root: schema, budget: maxBudget} }

// spend charges a read of a schema to the budget, and reports whether there is
// any left.
func (r *schemaReader) spend(schema []byte) bool {
	if r.budget -= len(schema) + 64; r.budget < 0 {
		r.truncated = true
	}
	return r.budget >= 0
}

// truncate cuts a text of the schema.
func (r *schemaReader) truncate(text string, limit int) string {
	s := truncate(text, limit)
	r.truncated = r.truncated || len(s) != len(text)
	return s
}

// properties adds the properties of an object's schema.
func (r *schemaReader) properties(schema []byte, prefix string, depth int) {
	schema = r.resolve(schema)
	if !r.spend(schema) {
		return
	}
	required := stringsOf(get(schema, "required"))
	for name, one := range members(get(schema, "properties")) {
		if len(r.params) == maxParams || depth == maxNesting || r.budget < 0 {
			r.truncated = true
			return
		}
		one = r.resolve(one)
		as := r.truncate(prefix+name, maxName)
		r.params = append(r.params, Param{
			Name: as, Type: r.truncate(r.typeText(one, 0), maxTypeText), Required: slices.Contains(required, name) && get(one, "default") == nil,
			About: r.truncate(stringOf(get(one, "description")), maxDescriptionText), Default: r.truncate(string(get(one, "default")), maxDescriptionText),
		})
		within := depth + 1
		for within < maxNesting && get(one, "items") != nil && get(one, "properties") == nil {
			one, as = r.resolve(get(one, "items")), as+"[]"
			within++
		}
		r.properties(one, as+".", within)
	}
	for _, of := range []string{"allOf", "anyOf", "oneOf"} {
		for one := range elements(get(schema, of)) {
			if depth == maxNesting || r.budget < 0 {
				r.truncated = true
				return
			}
			r.properties(one, prefix, depth+1)
		}
	}
}

// resolve follows references within the schema, up to a limit.
func (r *schemaReader) resolve(schema []byte) []byte {
	for range maxNesting {
		if !r.spend(schema) {
			return nil
		}
		path, ok := strings.CutPrefix(stringOf(get(schema, "$ref")), "#/")
		if !ok {
			break
		}
		if schema = r.root; !r.spend(schema) {
			return nil
		}
		for segment := range strings.SplitSeq(path, "/") {
			schema = get(schema, strings.NewReplacer("~1", "/", "~0", "~").Replace(segment))
		}
	}
	return schema
}

// typeText describes the type of a value in words.
func (r *schemaReader) typeText(schema []byte, depth int) string {
	if depth > 3 || !r.spend(schema) {
		return ""
	}
	if c := get(schema, "const"); c != nil {
		return string(c)
	}
	var values []string
	for one := range elements(get(schema, "enum")) {
		if len(values) == 20 {
			values = append(values, "…")
			break
		}
		values = append(values, string(one))
	}
	if len(values) > 0 {
		return "one of " + strings.Join(values, ", ")
	}
	for _, of := range []string{"anyOf", "oneOf"} {
		var kinds []string
		for one := range elements(get(schema, of)) {
			if k := r.typeText(r.resolve(one), depth+1); k != "" && !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		if len(kinds) > 0 {
			return strings.Join(kinds, " or ")
		}
	}
	kinds := stringsOf(get(schema, "type"))
	if t := stringOf(get(schema, "type")); t != "" {
		kinds = []string{t}
	}
	k := strings.Join(kinds, " or ")
	if k == "array" {
		if of := r.typeText(r.resolve(get(schema, "items")), depth+1); of != "" {
			return "array of " + of
		}
	}
	if format := stringOf(get(schema, "format")); format != "" && k == "string" {
		return k + " (" + format + ")"
	}
	return k
}

// members iterates over an object; anything else is empty. raw must be valid
// JSON.
func members(raw []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for quoted, value := range jsonlex.Children(raw) {
			if quoted == nil || !yield(stringOf(quoted), value) {
				return
			}
		}
	}
}

// elements iterates over an array; anything else is empty.
func elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for quoted, value := range jsonlex.Children(raw) {
			if quoted != nil || !yield(value) {
				return
			}
		}
	}
}

// get returns the value of a member, or nil.
func get(object []byte, name string) []byte {
	for n, value := range members(object) {
		if n == name {
			return value
		}
	}
	return nil
}

// stringOf returns the value of a string; empty for anything else.
func stringOf(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	t, _ := jsonlex.Unquote(nil, raw[1:len(raw)-1])
	return string(t)
}

// stringsOf returns the strings of an array.
func stringsOf(raw []byte) (out []string) {
	for one := range elements(raw) {
		if len(one) > 0 && one[0] == '"' {
			out = append(out, stringOf(one))
		}
	}
	return out
}

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
