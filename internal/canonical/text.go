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
	return hashOf(definition, texts)
}

// texts returns what TextHash hashes: the definition without behaviour, and
// without what is empty then. Arrays of schemas become objects by index.
func texts(def []byte) []byte {
	out := []byte{'{'}
	for name, value := range members(def) {
		if string(value) == "null" {
			continue
		}
		switch string(name) {
		case `"name"`, `"annotations"`:
		case `"inputSchema"`, `"outputSchema"`:
			out = appendUnder(out, name, value, appendTexts)
		default:
			out = appendUnder(out, name, value, verbatim)
		}
	}
	return append(out, '}')
}

// appendTexts appends the texts of a schema, or nothing when it has none.
func appendTexts(out, schema []byte) []byte {
	if schema[0] != '{' {
		return out
	}
	start := len(out)
	out = append(out, '{')
	for name, value := range members(schema) {
		switch keyword(name) {
		case text:
			out = appendUnder(out, name, value, verbatim)
		case named:
			out = appendUnder(out, name, value, appendNamedTexts)
		case schemas:
			out = appendUnder(out, name, value, appendTextsOfAll)
		}
	}
	return closed(out, start)
}

// appendNamedTexts appends those of an object whose values are schemas.
func appendNamedTexts(out, value []byte) []byte {
	if value[0] != '{' {
		return out
	}
	start := len(out)
	out = append(out, '{')
	for name, schema := range members(value) {
		out = appendUnder(out, name, schema, appendTexts)
	}
	return closed(out, start)
}

// appendTextsOfAll appends those of one schema, or of an array of them.
func appendTextsOfAll(out, value []byte) []byte {
	if value[0] != '[' {
		return appendTexts(out, value)
	}
	start := len(out)
	out = append(out, '{')
	var index [24]byte
	for i, n := 1, 0; value[i] != ']'; n++ {
		end := jsonlex.Skip(value, i)
		name := append(strconv.AppendInt(append(index[:0], '"'), int64(n), 10), '"')
		out = appendUnder(out, name, value[i:end], appendTexts)
		i = end
		if value[i] == ',' {
			i++
		}
	}
	return closed(out, start)
}

// appendUnder appends a member whose value write appends, or nothing when
// that is nothing.
func appendUnder(out, name, value []byte, write func(out, value []byte) []byte) []byte {
	start := len(out)
	out = append(append(comma(out), name...), ':')
	before := len(out)
	if out = write(out, value); len(out) == before {
		return out[:start]
	}
	return out
}

func verbatim(out, value []byte) []byte { return append(out, value...) }

// closed ends the object that begins at out[start], or takes it back when
// there is nothing in it.
func closed(out []byte, start int) []byte {
	if len(out) == start+1 {
		return out[:start]
	}
	return append(out, '}')
}
