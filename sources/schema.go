package sources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaURL is the base URI of a schema, so that # refers to the schema itself.
const schemaURL = "sallyport:///schema"

// schema is a compiled schema and the cost of checking against it.
type schema struct {
	*jsonschema.Schema
	cost      cost
	unchecked int // patterns that Go cannot match
}

// cost bounds the work of a check: each value is visited at most visits times,
// and each byte is matched by programs of at most bytes instructions. Recursive
// schemas have no bound. The validator searches for cycles at every visit,
// through as many schemas as lead to it: that is the height.
type cost struct {
	visits, bytes float64
	height        int
}

const maxHeight = 256

// compileSchema compiles a decoded and inspected schema. With a meter, every
// visit and match is metered.
func compileSchema(doc any, m *meter) (s *schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the schema compiler failed: %.100v", p)
		}
	}()
	s = &schema{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(regexpEngine(m, &s.unchecked))
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	if s.Schema, err = c.Compile(schemaURL); err != nil {
		return nil, compileError(err)
	}
	g := costGraph{meter: m, costs: map[*jsonschema.Schema]cost{}, visiting: map[*jsonschema.Schema]bool{}}
	s.cost = g.cost(s.Schema)
	g.relaxRequired()
	return s, g.err
}

// relaxRequired lets a required member be missing if its schema has a default: servers
// list such members as required and fill them in themselves. The params stay as they
// are. It changes no schema that another one negates or chooses by, where accepting
// more would refuse more.
func (g *costGraph) relaxRequired() {
	chosen := map[*jsonschema.Schema]bool{}
	var keep func(s *jsonschema.Schema)
	keep = func(s *jsonschema.Schema) {
		if s == nil || chosen[s] {
			return
		}
		chosen[s] = true
		for _, child := range children(s) {
			keep(child)
		}
	}
	for s := range g.costs {
		for _, child := range append([]*jsonschema.Schema{s.Not, s.If, s.Contains}, s.OneOf...) {
			keep(child)
		}
	}
	for s := range g.costs {
		if !chosen[s] {
			s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return hasDefault(s.Properties[name]) })
		}
	}
}

// hasDefault reports whether a schema, or one that it refers to, has a default.
func hasDefault(s *jsonschema.Schema) bool {
	for range maxSchemaDepth { // references can form a cycle
		switch {
		case s == nil:
			return false
		case s.Default != nil:
			return true
		}
		s = s.Ref
	}
	return false
}

// noLoader refuses to load other schemas.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%.100q is not loaded", url)
}

// compileError shortens the compiler's errors to the part about the schema.
func compileError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var v *jsonschema.ValidationError
		if errors.As(invalid.Err, &v) {
			if list := problems(v); len(list) > 0 {
				return fmt.Errorf("it is not a valid JSON Schema: at %.100q, %s", list[0].pointer, list[0].text)
			}
		}
		return errors.New("it is not a valid JSON Schema")
	}
	return errors.New(strings.ReplaceAll(err.Error(), schemaURL, ""))
}

// costGraph traverses a compiled schema.
type costGraph struct {
	meter    *meter
	costs    map[*jsonschema.Schema]cost
	visiting map[*jsonschema.Schema]bool // on the path from the root
	err      error
}

// cost returns the cost of a schema and of all schemas it refers to, unfolded.
// It also attaches the meter, and removes formats: they are hints, and
// validators disagree about what is a valid e-mail address or date.
func (g *costGraph) cost(s *jsonschema.Schema) cost {
	if s == nil {
		return cost{}
	}
	if c, ok := g.costs[s]; ok {
		return c
	}
	if g.visiting[s] {
		return cost{visits: math.Inf(1), bytes: math.Inf(1)}
	}
	if strings.Contains(s.Location, "json-schema.org") {
		g.err = errors.New("it refers to another document")
		return cost{}
	}
	g.visiting[s] = true
	c := cost{visits: 1, bytes: size(s.Pattern)}
	if s.Enum != nil {
		c.visits += float64(len(s.Enum.Values))
	}
	for re := range s.PatternProperties {
		c.bytes += size(re)
		c.visits++
	}
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		c.visits = math.Inf(1)
	}
	for _, child := range children(s) {
		w := g.cost(child)
		c.visits += w.visits
		c.bytes += w.bytes
		c.height = max(c.height, w.height+1)
	}
	if c.height > maxHeight {
		g.err = fmt.Errorf("its parts refer to each other through more than %d levels", maxHeight)
	}
	s.Format = nil
	if g.meter != nil {
		s.Extensions = append(s.Extensions, g.meter)
	}
	delete(g.visiting, s)
	g.costs[s] = c
	return c
}

func size(re jsonschema.Regexp) float64 {
	if p, ok := re.(*pattern); ok && p.re != nil {
		return float64(p.size)
	}
	return 0
}

// children returns the schemas that s applies; some can be nil.
func children(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{
		s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema,
	}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	list = slices.Concat(list, s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, subschemas(s.AdditionalProperties), subschemas(s.Items), subschemas(s.AdditionalItems))
	list = slices.AppendSeq(list, maps.Values(s.Properties))
	list = slices.AppendSeq(list, maps.Values(s.PatternProperties))
	list = slices.AppendSeq(list, maps.Values(s.DependentSchemas))
	for _, dependency := range s.Dependencies {
		list = append(list, subschemas(dependency)...)
	}
	return list
}

func subschemas(v any) []*jsonschema.Schema {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return []*jsonschema.Schema{v}
	case []*jsonschema.Schema:
		return v
	}
	return nil
}

// Limits of a schema. They keep the work of one check, and the memory of its
// error, proportional to the params.
const (
	maxSchemaBytes  = 256 << 10
	maxSchemaDepth  = 64
	maxSchemas      = 20_000
	maxRequired     = 1_000
	maxEnum         = 10_000
	maxPatternProps = 100
	maxNumber       = 1_024 // bytes of one number
)

// decode parses one JSON value and keeps the notation of numbers.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is data after the end of the value")
	}
	return v, nil
}

// inspector checks a schema before it is compiled.
type inspector struct{ schemas int }

// schema rejects schemas that the gateway does not support.
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
			return fmt.Errorf("%s %.100q refers to another document; only references that start with # are supported", name, ref)
		}
	case "$id", "id":
		if id, ok := value.(string); ok && strings.Contains(id, "json-schema.org") {
			return fmt.Errorf("it claims to be %.100q", id)
		}
	case "required":
		return checkLength(name, value, maxRequired)
	case "enum":
		if err := checkLength(name, value, maxEnum); err != nil {
			return err
		}
		return checkNumbers(value)
	case "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		return checkNumbers(value)
	case "default", "examples":
		return nil // data, not schemas
	case "patternProperties":
		if obj, ok := value.(map[string]any); ok && len(obj) > maxPatternProps {
			return fmt.Errorf("patternProperties has more than %d patterns", maxPatternProps)
		}
		return n.mapValues(value, depth)
	case "properties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return n.mapValues(value, depth)
	default:
		list, ok := value.([]any)
		if !ok {
			return n.schema(value, depth)
		}
		for _, v := range list {
			if err := n.schema(v, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// mapValues inspects the values of an object whose keys are not keywords.
func (n *inspector) mapValues(value any, depth int) error {
	obj, _ := value.(map[string]any)
	for _, v := range obj {
		if err := n.schema(v, depth); err != nil {
			return err
		}
	}
	return nil
}

func checkLength(name string, value any, limit int) error {
	if list, ok := value.([]any); ok && len(list) > limit {
		return fmt.Errorf("%s lists more than %d values", name, limit)
	}
	return nil
}

// checkNumbers rejects numbers that are expensive to compare exactly.
func checkNumbers(value any) error {
	s := valueStats{}
	s.walk(value)
	if s.costlyNumber != "" {
		return fmt.Errorf("the number %.40s… is too large or too exact", s.costlyNumber)
	}
	return nil
}

// valueStats describes a decoded value.
type valueStats struct {
	values       int
	costlyNumber string // a number that is expensive to compare
}

func (s *valueStats) walk(v any) {
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
		// So long, or with such a large exponent, that exact arithmetic takes noticeable time.
		exp := strings.LastIndexAny(string(v), "eE")
		if len(v) > maxNumber || exp >= 0 && len(strings.TrimLeft(string(v[exp+1:]), "+-0")) > 3 {
			s.costlyNumber = string(v)
		}
	}
}
