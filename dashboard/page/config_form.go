package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The kinds of controls of a form that is made of a JSON Schema. Scripts read
// them by these names.
const (
	controlText    = "text"
	controlLines   = "lines"   // texts, one a line
	controlNumber  = "number"  //
	controlNumbers = "numbers" // one a line
	controlFlag    = "flag"
	controlChoice  = "choice"  // one of several
	controlChoices = "choices" // some of several
	controlGroup   = "group"   // an object, whose fields are below
	controlJSON    = "json"    // what no other control is for
)

// control is one field of a form that is made of a JSON Schema.
type control struct {
	Kind     string
	Pointer  string // JSON Pointer in the config, without the first slash
	Name     string // of the element, for errors to be shown beside it
	Label    string
	Hint     string
	Text     string // the value, but for flags and choices
	Usual    string // what holds when nothing is chosen
	On       bool
	Min, Max json.Number
	Options  []choice
	Controls []control // of a group
}

// property is what a form can be made of. A schema with any other keyword is
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

// understood are the keywords that a form has, or leaves to the server's check.
var understood = []string{
	"type", "title", "description", "default", "enum", "items", "properties", "additionalProperties", "minimum", "maximum",
	"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "pattern", "format", "examples", "required",
}

// configForm makes controls of a trigger's config by its schema; a config or
// schema that these cannot show is one control of JSON.
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

// controlsOf makes a control of each property, in their order; false: the
// object has something else.
func controlsOf(properties, object json.RawMessage, at string) ([]control, bool) {
	names, schemas, ok := members(properties)
	if !ok {
		return nil, false
	}
	has, values, ok := members(object)
	if !ok || slices.ContainsFunc(has, func(name string) bool { return schemas[name] == nil }) {
		return nil, false
	}
	controls := make([]control, len(names))
	for i, name := range names {
		pointer := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		controls[i] = controlOf(name, at+pointer, schemas[name], values[name])
	}
	return controls, true
}

func controlOf(name, pointer string, schema, value json.RawMessage) control {
	c := control{Pointer: pointer, Name: "config." + strings.ReplaceAll(pointer, "/", "."), Label: inWords(name)}
	p, ok := readProperty(schema)
	c.Label, c.Hint = cmp.Or(p.Title, c.Label), p.Description
	if ok {
		c.Kind = p.kind()
		ok = c.fill(&p, value)
	}
	if !ok {
		c.Kind, c.Text = controlJSON, indented(value)
	}
	return c
}

// readProperty reads a schema; false: it says what no form can.
func readProperty(schema json.RawMessage) (p property, ok bool) {
	names, values, ok := members(schema)
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
	strange := slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(understood, name) })
	return p, !strange && json.Unmarshal(schema, &p) == nil && (p.Closed == nil || string(p.Closed) == "false")
}

// kind is the control that a property takes.
func (p *property) kind() string {
	switch {
	case p.Enum != nil && (p.Type == "" || p.Type == "string") && texts(p.Enum) != nil:
		return controlChoice
	case p.Enum != nil:
		return controlJSON
	case p.Type == "object" && p.Properties != nil:
		return controlGroup
	case p.Type == "array":
		return p.listKind()
	}
	return cmp.Or(map[string]string{"string": controlText, "boolean": controlFlag, "integer": controlNumber, "number": controlNumber}[p.Type], controlJSON)
}

func (p *property) listKind() string {
	each, ok := readProperty(p.Items)
	if !ok {
		return controlJSON
	}
	return cmp.Or(map[string]string{controlChoice: controlChoices, controlText: controlLines, controlNumber: controlNumbers}[each.kind()], controlJSON)
}

// fill gives the control its value; false: the control cannot show it.
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
		_ = json.Unmarshal(p.Default, &c.Usual) // none, or of another type: nothing is said of it
		ok := value == nil || json.Unmarshal(value, &text) == nil && slices.Contains(texts(p.Enum), text)
		c.Options = options(texts(p.Enum), []string{text})
		return ok
	case controlChoices:
		each, _ := readProperty(p.Items)
		var on []string
		ok := value == nil || json.Unmarshal(value, &on) == nil && !slices.ContainsFunc(on, func(v string) bool { return !slices.Contains(texts(each.Enum), v) })
		c.Options = options(texts(each.Enum), on)
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

// texts are the values of an enumeration of texts; nil: it has others.
func texts(enum []json.RawMessage) []string {
	all := make([]string, len(enum))
	for i, v := range enum {
		if json.Unmarshal(v, &all[i]) != nil {
			return nil
		}
	}
	return all
}

// members reads an object with its names in order.
func members(object json.RawMessage) (names []string, values map[string]json.RawMessage, ok bool) {
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

// inWords is a name of a program's as people write it.
func inWords(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(first)) + strings.ReplaceAll(name[size:], "_", " ")
}

func indented(value json.RawMessage) string {
	var b bytes.Buffer
	if len(value) == 0 || json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}
	return b.String()
}
