package sources

import (
	"slices"
	"strings"

	"sallyport/internal/jsonlex"
)

// fastSchema is an input schema that only names types, members and texts, as most
// do. It reads params once, without decoding them, and accepts only what the schema
// accepts. What it does not accept is left to the validator, which also explains
// errors: it refuses nothing, and need not know every case.
type fastSchema struct {
	types    fastType // zero: any
	texts    []string // of which a string is one; nil: any
	members  map[string]fastMember
	required uint64 // bits of members
	closed   bool   // there are no other members
	items    *fastSchema
}

type fastMember struct {
	schema *fastSchema
	bit    uint64 // if it is required
}

// fastType is a set of types.
type fastType uint8

const (
	fastObject fastType = 1 << iota
	fastArray
	fastString
	fastNumber
	fastInteger
	fastBoolean
	fastNull
)

func fastTypeOf(name any) fastType {
	switch name {
	case "object":
		return fastObject
	case "array":
		return fastArray
	case "string":
		return fastString
	case "number":
		return fastNumber | fastInteger
	case "integer":
		return fastInteger
	case "boolean":
		return fastBoolean
	case "null":
		return fastNull
	}
	return 0
}

// newFastSchema returns the fast form of a decoded schema that compiles, or nil if
// the schema has a keyword that it does not know.
func newFastSchema(doc any) *fastSchema {
	if doc == true {
		return &fastSchema{}
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	s := &fastSchema{}
	for keyword, value := range object {
		known := false
		switch keyword {
		case "type":
			known = s.setTypes(value)
		case "enum":
			known = s.setTexts(value)
		case "properties":
			known = s.setMembers(value, object["required"])
		case "required":
			known = object["properties"] != nil
		case "additionalProperties":
			open, isBool := value.(bool)
			s.closed, known = !open, isBool
		case "items":
			s.items = newFastSchema(value)
			known = s.items != nil
		case "title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly":
			known = true
		default:
			known = strings.HasPrefix(keyword, "x-")
		}
		if !known {
			return nil
		}
	}
	return s
}

func (s *fastSchema) setTypes(value any) bool {
	list, several := value.([]any)
	if !several {
		list = []any{value}
	}
	for _, name := range list {
		one := fastTypeOf(name)
		if one == 0 {
			return false
		}
		s.types |= one
	}
	return s.types != 0
}

func (s *fastSchema) setTexts(value any) bool {
	list, _ := value.([]any)
	for _, one := range list {
		text, ok := one.(string)
		if !ok {
			return false
		}
		s.texts = append(s.texts, text)
	}
	return s.texts != nil
}

// setMembers reads the members, and which of them are required.
func (s *fastSchema) setMembers(properties, required any) bool {
	all, ok := properties.(map[string]any)
	if !ok {
		return false
	}
	s.members = make(map[string]fastMember, len(all))
	for name, doc := range all {
		member := fastMember{schema: newFastSchema(doc)}
		if member.schema == nil {
			return false
		}
		s.members[name] = member
	}
	list, _ := required.([]any)
	for i, one := range list {
		name, _ := one.(string)
		member, ok := s.members[name]
		if !ok || i >= 64 {
			return false
		}
		member.bit = 1 << i
		s.members[name], s.required = member, s.required|member.bit
	}
	return true
}

// accepts reports whether params are valid. False: they may be.
func (s *fastSchema) accepts(params []byte) bool {
	if s == nil || len(params) > maxValues { // each value has a byte
		return false
	}
	i := jsonlex.Space(params, 0)
	if i == len(params) || params[i] != '{' {
		return false
	}
	end, ok := s.value(params, i, 0)
	return ok && jsonlex.Space(params, end) == len(params)
}

// maxFastDepth is the nesting of params that is followed.
const maxFastDepth = 64

// value reads the value at raw[i] and returns its end. ok: it is valid.
func (s *fastSchema) value(raw []byte, i, depth int) (end int, ok bool) {
	if i == len(raw) || depth == maxFastDepth {
		return i, false
	}
	var kind fastType
	switch c := raw[i]; {
	case c == '{':
		kind = fastObject
		end, ok = s.object(raw, i, depth+1)
	case c == '[':
		kind = fastArray
		end, ok = s.array(raw, i, depth+1)
	case c == '"':
		kind = fastString
		end, ok = s.text(raw, i)
	case c == '-' || '0' <= c && c <= '9':
		kind = fastInteger
		e, err := jsonlex.Number(raw, i)
		// Integers in other notations and numbers that are costly to compare are left.
		end, ok = e, err == nil && e-i <= maxNumber && !slices.ContainsFunc(raw[i:e], func(c byte) bool { return c == 'e' || c == 'E' })
		if slices.Contains(raw[i:e], '.') {
			kind = fastNumber
		}
	default:
		kind = fastBoolean
		if c == 'n' {
			kind = fastNull
		}
		e, err := jsonlex.Literal(raw, i)
		end, ok = e, err == nil
	}
	if s.texts != nil && kind != fastString || s.types != 0 && s.types&kind == 0 {
		return end, false
	}
	return end, ok
}

func (s *fastSchema) text(raw []byte, i int) (end int, ok bool) {
	end, form, err := jsonlex.String(raw, i)
	if err != nil {
		return end, false
	}
	return end, s.texts == nil || form == 0 && slices.Contains(s.texts, string(raw[i+1:end-1]))
}

// anything is the schema of what no schema describes.
func anything() *fastSchema { return &fastSchema{} }

func (s *fastSchema) array(raw []byte, i, depth int) (end int, ok bool) {
	items := s.items
	if items == nil {
		items = anything()
	}
	i = jsonlex.Space(raw, i+1)
	if i < len(raw) && raw[i] == ']' {
		return i + 1, true
	}
	for {
		if i, ok = items.value(raw, i, depth); !ok {
			return i, false
		}
		switch i = jsonlex.Space(raw, i); {
		case i < len(raw) && raw[i] == ']':
			return i + 1, true
		case i == len(raw) || raw[i] != ',':
			return i, false
		}
		i = jsonlex.Space(raw, i+1)
	}
}

func (s *fastSchema) object(raw []byte, i, depth int) (end int, ok bool) {
	var seen uint64
	i = jsonlex.Space(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return i + 1, s.required == 0
	}
	for {
		end, form, err := jsonlex.String(raw, i)
		if err != nil || form != 0 {
			return end, false
		}
		member, known := s.members[string(raw[i+1:end-1])]
		switch {
		case known:
			seen |= member.bit
		case s.closed:
			return end, false
		default:
			member.schema = anything()
		}
		if i = jsonlex.Space(raw, end); i == len(raw) || raw[i] != ':' {
			return i, false
		}
		if i, ok = member.schema.value(raw, jsonlex.Space(raw, i+1), depth); !ok {
			return i, false
		}
		switch i = jsonlex.Space(raw, i); {
		case i < len(raw) && raw[i] == '}':
			return i + 1, seen == s.required
		case i == len(raw) || raw[i] != ',':
			return i, false
		}
		i = jsonlex.Space(raw, i+1)
	}
}
