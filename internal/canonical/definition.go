package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"sallyport/internal/jsonlex"
)

// DefinitionHash returns the hash, in hex, of what an MCP tool does as far as
// its definition tells: name, input and output schema, annotations. Texts for
// people and models (the schema keywords description and default, and the
// lists of enum, which change with a workspace's data) are left out; a
// property that is so named is not. A member that is null counts as absent.
//
// With [TextHash] it covers the whole definition.
func DefinitionHash(definition json.RawMessage) (string, error) {
	return hashOf(definition, appendBehaviourParts)
}

// hashOf returns the hash of a part of a definition.
func hashOf(definition json.RawMessage, part func(def []byte) []byte) (string, error) {
	def, err := JSON(definition)
	if err != nil {
		return "", err
	}
	if def[0] != '{' {
		return "", (&fault{what: "a tool definition must be an object"}).public()
	}
	h := sha256.Sum256(part(def))
	return hex.EncodeToString(h[:]), nil
}

// appendBehaviourParts returns the canonical JSON that DefinitionHash hashes.
func appendBehaviourParts(def []byte) []byte {
	out := []byte{'{'}
	for name, value := range jsonlex.Children(def) {
		if string(value) == "null" {
			continue
		}
		switch string(name) {
		case `"inputSchema"`, `"outputSchema"`:
			out = append(comma(out), name...)
			out = appendSchema(append(out, ':'), value)
		case `"name"`, `"annotations"`:
			out = append(comma(out), name...)
			out = append(append(out, ':'), value...)
		}
	}
	return append(out, '}')
}

// appendSchema appends a canonical schema without its texts. Values other than
// objects, such as true and false, are copied.
func appendSchema(out, schema []byte) []byte {
	if schema[0] != '{' {
		return append(out, schema...)
	}
	out = append(out, '{')
	for name, value := range jsonlex.Children(schema) {
		kind := keyword(name)
		if kind == keywordText {
			continue
		}
		out = append(comma(out), name...)
		out = append(out, ':')
		switch kind {
		case keywordSchemaMap:
			if value[0] != '{' {
				out = append(out, value...)
				continue
			}
			out = append(out, '{')
			for name, schema := range jsonlex.Children(value) {
				out = append(comma(out), name...)
				out = appendSchema(append(out, ':'), schema)
			}
			out = append(out, '}')
		case keywordSchemas:
			out = appendSchemas(out, value)
		default:
			out = append(out, value...)
		}
	}
	return append(out, '}')
}

// appendSchemas appends one schema, or an array of them.
func appendSchemas(out, value []byte) []byte {
	if value[0] != '[' {
		return appendSchema(out, value)
	}
	out = append(out, '[')
	for _, schema := range jsonlex.Children(value) {
		out = appendSchema(comma(out), schema)
	}
	return append(out, ']')
}

// The kinds of values of schema keywords.
const (
	keywordData      = iota // a value, or a keyword not known here
	keywordText             // left out
	keywordSchemaMap        // an object of schemas by name
	keywordSchemas          // a schema or an array of them
)

func keyword(name []byte) int {
	switch string(name) {
	case `"description"`, `"default"`, `"enum"`:
		return keywordText
	case `"properties"`, `"patternProperties"`, `"$defs"`, `"definitions"`, `"dependentSchemas"`, `"dependencies"`:
		return keywordSchemaMap
	case `"items"`, `"prefixItems"`, `"additionalItems"`, `"unevaluatedItems"`, `"contains"`,
		`"additionalProperties"`, `"unevaluatedProperties"`, `"propertyNames"`,
		`"allOf"`, `"anyOf"`, `"oneOf"`, `"not"`, `"if"`, `"then"`, `"else"`, `"contentSchema"`:
		return keywordSchemas
	}
	return keywordData
}

// comma appends a comma unless out ends at the start of a list or object.
func comma(out []byte) []byte {
	if c := out[len(out)-1]; c == '{' || c == '[' {
		return out
	}
	return append(out, ',')
}

// TextHash returns the hash, in hex, of what [DefinitionHash] leaves out of a
// tool definition: title, description, icons, _meta and members that are not
// known here, and of the schemas each description, default and enum at its
// place. Definitions that agree in both hashes are the same, but for members
// that are null.
//
// A change of behaviour does not change it, unless a text moves with it, as
// when an element of anyOf before it comes or goes.
func TextHash(definition json.RawMessage) (string, error) {
	return hashOf(definition, textParts)
}

// textParts returns what TextHash hashes: the definition without its behaviour
// and without members that are then empty. Arrays of schemas become objects by
// index.
func textParts(def []byte) []byte {
	out := []byte{'{'}
	for name, value := range jsonlex.Children(def) {
		if string(value) == "null" {
			continue
		}
		switch string(name) {
		case `"name"`, `"annotations"`:
		case `"inputSchema"`, `"outputSchema"`:
			out = appendMember(out, name, value, appendTexts)
		default:
			out = appendMember(out, name, value, appendVerbatim)
		}
	}
	return append(out, '}')
}

// appendTexts appends the texts of a schema, or nothing if it has none.
func appendTexts(out, schema []byte) []byte {
	if schema[0] != '{' {
		return out
	}
	start := len(out)
	out = append(out, '{')
	for name, value := range jsonlex.Children(schema) {
		switch keyword(name) {
		case keywordText:
			out = appendMember(out, name, value, appendVerbatim)
		case keywordSchemaMap:
			out = appendMember(out, name, value, appendSchemaMapTexts)
		case keywordSchemas:
			out = appendMember(out, name, value, appendSchemasTexts)
		}
	}
	return closeOrDrop(out, start)
}

// appendSchemaMapTexts appends the texts of an object whose values are schemas.
func appendSchemaMapTexts(out, value []byte) []byte {
	if value[0] != '{' {
		return out
	}
	start := len(out)
	out = append(out, '{')
	for name, schema := range jsonlex.Children(value) {
		out = appendMember(out, name, schema, appendTexts)
	}
	return closeOrDrop(out, start)
}

// appendSchemasTexts appends the texts of a schema or of an array of schemas.
func appendSchemasTexts(out, value []byte) []byte {
	if value[0] != '[' {
		return appendTexts(out, value)
	}
	start := len(out)
	out = append(out, '{')
	n := 0
	for _, schema := range jsonlex.Children(value) {
		out = appendMember(out, []byte(`"`+strconv.Itoa(n)+`"`), schema, appendTexts)
		n++
	}
	return closeOrDrop(out, start)
}

// appendMember appends a member with the value that write appends, or nothing
// if write appends nothing.
func appendMember(out, name, value []byte, write func(out, value []byte) []byte) []byte {
	start := len(out)
	out = append(append(comma(out), name...), ':')
	before := len(out)
	if out = write(out, value); len(out) == before {
		return out[:start]
	}
	return out
}

func appendVerbatim(out, value []byte) []byte { return append(out, value...) }

// closeOrDrop closes the object that begins at out[start], or removes it if it
// is empty.
func closeOrDrop(out []byte, start int) []byte {
	if len(out) == start+1 {
		return out[:start]
	}
	return append(out, '}')
}
