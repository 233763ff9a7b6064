package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/dashboard/render"
)

// The kinds of controls in a form that is generated from a JSON Schema. Scripts
// refer to them by these names.
const (
	controlText    = "text"
	controlLines   = "lines" // strings, one per line
	controlNumber  = "number"
	controlNumbers = "numbers" // numbers, one per line
	controlFlag    = "flag"
	controlChoice  = "choice"  // one of several
	controlChoices = "choices" // some of several
	controlGroup   = "group"   // an object with the fields below it
	controlJSON    = "json"    // anything else
)

// control is a field of a form that is generated from a JSON Schema.
type control struct {
	Kind     string
	Pointer  string // JSON Pointer in the config, without the first slash
	Name     string // of the element, to show errors beside it
	Label    string
	Hint     string
	Text     string // the value, except for flags and choices
	Usual    string // the default
	On       bool
	Min, Max json.Number
	Options  []choice
	Controls []control // of a group
}

// property is a schema that a form can show. A schema with other keywords is
// edited as JSON.
type property struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default"`
	Enum        []json.RawMessage `json:"enum"`
	Items       json.RawMessage   `json:"items"`
	Properties  json.RawMessage   `json:"properties"`
	Closed      json.RawMessage   `json:"additionalProperties"`
	Min         json.Number       `json:"minimum"`
	Max         json.Number       `json:"maximum"`
}

// supportedKeywords are the keywords that a form supports or leaves to the server's
// validation.
var supportedKeywords = []string{
	"type", "title", "description", "default", "enum", "items", "properties", "additionalProperties", "minimum", "maximum",
	"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "pattern", "format", "examples", "required",
}

// configForm returns the controls for a trigger's config. A config or schema
// that they cannot show becomes a single JSON control.
func configForm(schema, config json.RawMessage) []control {
	root := control{Kind: controlJSON, Name: "config", Label: "Filters", Hint: "JSON", Text: indented(config)}
	p, ok := readProperty(schema)
	if !ok || p.Type != "object" {
		return []control{root}
	}
	if p.Properties == nil {
		p.Properties = json.RawMessage("{}")
	}
	controls, ok := controlsOf(p.Properties, config, "")
	if !ok {
		return []control{root}
	}
	return controls
}

// controlsOf returns a control for each property, in order. It returns false if
// the object has other members.
func controlsOf(properties, object json.RawMessage, at string) ([]control, bool) {
	names, schemas, ok := parseMembers(properties)
	if !ok {
		return nil, false
	}
	has, values, ok := parseMembers(object)
	if !ok || slices.ContainsFunc(has, func(name string) bool { return schemas[name] == nil }) {
		return nil, false
	}
	controls := make([]control, len(names))
	for i, name := range names {
		pointer := at + render.PointerToken(name)
		first, size := utf8.DecodeRuneInString(name)
		words := string(unicode.ToUpper(first)) + strings.ReplaceAll(name[size:], "_", " ")
		p, ok := readProperty(schemas[name])
		c := control{Pointer: pointer, Name: "config." + strings.ReplaceAll(pointer, "/", "."), Label: cmp.Or(p.Title, words), Hint: p.Description}
		if ok {
			c.Kind = p.kind()
			ok = c.fill(&p, values[name])
		}
		if !ok {
			c.Kind, c.Text = controlJSON, indented(values[name])
		}
		controls[i] = c
	}
	return controls, true
}

// readProperty parses a schema. It returns false if no form can show it.
func readProperty(schema json.RawMessage) (p property, ok bool) {
	names, values, ok := parseMembers(schema)
	if !ok {
		return p, false
	}
	for _, name := range []string{"title", "description"} { // whatever the rest is
		var text string
		if json.Unmarshal(values[name], &text) == nil && name == "title" {
			p.Title = text
		} else if text != "" {
			p.Description = text
		}
	}
	strange := slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(supportedKeywords, name) })
	return p, !strange && json.Unmarshal(schema, &p) == nil && (p.Closed == nil || string(p.Closed) == "false")
}

// kind returns the control for a property.
func (p *property) kind() string {
	switch {
	case p.Enum != nil && (p.Type == "" || p.Type == "string") && enumStrings(p.Enum) != nil:
		return controlChoice
	case p.Enum != nil:
		return controlJSON
	case p.Type == "object" && p.Properties != nil:
		return controlGroup
	case p.Type == "array":
		each, ok := readProperty(p.Items)
		if !ok {
			return controlJSON
		}
		return cmp.Or(map[string]string{controlChoice: controlChoices, controlText: controlLines, controlNumber: controlNumbers}[each.kind()], controlJSON)
	}
	return cmp.Or(map[string]string{"string": controlText, "boolean": controlFlag, "integer": controlNumber, "number": controlNumber}[p.Type], controlJSON)
}

// fill sets the control's value. It returns false if the control cannot show
// it.
func (c *control) fill(p *property, value json.RawMessage) bool {
	switch c.Kind {
	case controlGroup:
		if value == nil {
			value = json.RawMessage("{}")
		}
		var ok bool
		c.Controls, ok = controlsOf(p.Properties, value, c.Pointer+"/")
		return ok
	case controlText:
		return value == nil || json.Unmarshal(value, &c.Text) == nil && !strings.Contains(c.Text, "\n")
	case controlFlag:
		return value == nil || json.Unmarshal(value, &c.On) == nil
	case controlNumber:
		c.Min, c.Max = p.Min, p.Max
		var n json.Number
		ok := value == nil || value[0] != '"' && json.Unmarshal(value, &n) == nil
		c.Text = n.String()
		return ok
	case controlChoice:
		var text string
		_ = json.Unmarshal(p.Default, &c.Usual) // without one, or with one of another type, none is shown
		ok := value == nil || json.Unmarshal(value, &text) == nil && slices.Contains(enumStrings(p.Enum), text)
		c.Options = options(enumStrings(p.Enum), []string{text})
		return ok
	case controlChoices:
		each, _ := readProperty(p.Items)
		var on []string
		ok := value == nil || json.Unmarshal(value, &on) == nil && !slices.ContainsFunc(on, func(v string) bool { return !slices.Contains(enumStrings(each.Enum), v) })
		c.Options = options(enumStrings(each.Enum), on)
		return ok
	case controlLines:
		var list []string
		ok := value == nil || json.Unmarshal(value, &list) == nil && !slices.ContainsFunc(list, func(v string) bool { return strings.Contains(v, "\n") || strings.TrimSpace(v) != v })
		c.Text = strings.Join(list, "\n")
		return ok
	case controlNumbers:
		var list []json.Number
		ok := value == nil || !bytes.Contains(value, []byte(`"`)) && json.Unmarshal(value, &list) == nil
		for _, n := range list {
			c.Text += n.String() + "\n"
		}
		return ok
	}
	return false
}

func options(all, on []string) []choice {
	list := make([]choice, len(all))
	for i, v := range all {
		list[i] = choice{Value: v, Text: v, On: slices.Contains(on, v)}
	}
	return list
}

// enumStrings returns the values of an enumeration of strings, or nil if it has
// others.
func enumStrings(enum []json.RawMessage) []string {
	all := make([]string, len(enum))
	for i, v := range enum {
		if json.Unmarshal(v, &all[i]) != nil {
			return nil
		}
	}
	return all
}

// parseMembers parses an object and keeps the order of its names.
func parseMembers(object json.RawMessage) (names []string, values map[string]json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, nil, false
	}
	values = map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		name, is := token.(string)
		if err != nil || !is {
			return nil, nil, false
		}
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return nil, nil, false
		}
		names, values[name] = append(names, name), v
	}
	return names, values, true
}

func indented(value json.RawMessage) string {
	var b bytes.Buffer
	if len(value) == 0 || json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}
	return b.String()
}
