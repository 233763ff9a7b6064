package canonical

import (
	"encoding/json"
	"strconv"

	"sallyport/internal/jsonlex"
)

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
	for name, value := range members(def) {
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
	for name, value := range members(schema) {
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
	for name, schema := range members(value) {
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
	var index [24]byte
	for i, n := 1, 0; value[i] != ']'; n++ {
		end := jsonlex.Skip(value, i)
		name := append(strconv.AppendInt(append(index[:0], '"'), int64(n), 10), '"')
		out = appendMember(out, name, value[i:end], appendTexts)
		i = end
		if value[i] == ',' {
			i++
		}
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
