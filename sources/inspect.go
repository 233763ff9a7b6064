package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of what a schema may be. They keep the work of one check, and the
// memory of its error, in proportion to the params.
const (
	maxSchemaBytes  = 256 << 10
	maxSchemaDepth  = 64
	maxSchemas      = 20_000
	maxRequired     = 1_000
	maxEnum         = 10_000
	maxPatternProps = 100
	maxNumber       = 1_024 // bytes of one number
)

// decode reads one JSON value, with numbers as they are written.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the end of the value")
	}
	return v, nil
}

// inspector walks a schema before anything is compiled from it.
type inspector struct{ schemas int }

// schema refuses what the gateway does not check params against.
func (n *inspector) schema(v any, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxSchemaDepth)
	}
	if n.schemas++; n.schemas > maxSchemas {
		return fmt.Errorf("it has more than %d parts", maxSchemas)
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	for name, value := range obj {
		if err := n.keyword(name, value, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (n *inspector) keyword(name string, value any, depth int) error {
	switch name {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if ref, ok := value.(string); ok && !strings.HasPrefix(ref, "#") {
			return fmt.Errorf("%s %.100q leads out of the schema; only #… is followed", name, ref)
		}
	case "$id", "id":
		if id, ok := value.(string); ok && strings.Contains(id, "json-schema.org") {
			return fmt.Errorf("it claims to be %.100q", id)
		}
	case "required":
		return longest(name, value, maxRequired)
	case "enum":
		if err := longest(name, value, maxEnum); err != nil {
			return err
		}
		return numbers(value)
	case "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return numbers(value)
	case "default", "examples":
		return nil // data, not schemas
	case "patternProperties":
		if obj, ok := value.(map[string]any); ok && len(obj) > maxPatternProps {
			return fmt.Errorf("patternProperties has more than %d patterns", maxPatternProps)
		}
		return n.named(value, depth)
	case "properties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return n.named(value, depth)
	default:
		return n.nested(value, depth)
	}
	return nil
}

// named inspects the values of an object whose names are not keywords.
func (n *inspector) named(value any, depth int) error {
	obj, _ := value.(map[string]any)
	for _, v := range obj {
		if err := n.schema(v, depth); err != nil {
			return err
		}
	}
	return nil
}

func (n *inspector) nested(value any, depth int) error {
	list, ok := value.([]any)
	if !ok {
		return n.schema(value, depth)
	}
	for _, v := range list {
		if err := n.schema(v, depth); err != nil {
			return err
		}
	}
	return nil
}

func longest(name string, value any, limit int) error {
	if list, ok := value.([]any); ok && len(list) > limit {
		return fmt.Errorf("%s lists more than %d values", name, limit)
	}
	return nil
}

// numbers refuses numbers that are costly to compare exactly.
func numbers(value any) error {
	s := survey{}
	s.walk(value)
	if s.wild != "" {
		return fmt.Errorf("the number %.40s… is too large or too exact", s.wild)
	}
	return nil
}

// survey counts what a decoded value consists of.
type survey struct {
	values int
	wild   string // a number that would be costly to compare
}

func (s *survey) walk(v any) {
	s.values++
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			s.walk(member)
		}
	case []any:
		for _, item := range v {
			s.walk(item)
		}
	case json.Number:
		if wild(string(v)) {
			s.wild = string(v)
		}
	}
}

// wild reports whether a number is so long, or its exponent so large, that
// exact arithmetic with it takes noticeable time.
func wild(number string) bool {
	if len(number) > maxNumber {
		return true
	}
	e := strings.LastIndexAny(number, "eE")
	return e >= 0 && len(strings.TrimLeft(number[e+1:], "+-0")) > 3
}
