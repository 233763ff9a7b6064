package page

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is a form in a line: kinds, pointers and values.
func told(controls []control) string {
	var all []string
	for _, c := range controls {
		text := c.Kind + " " + c.Pointer
		switch {
		case c.Kind == controlGroup:
			text += " {" + told(c.Controls) + "}"
		case c.Text != "":
			text += fmt.Sprintf(" %q", c.Text)
		case c.On:
			text += " on"
		}
		for _, o := range c.Options {
			if o.On {
				text += " +" + o.Value
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestConfigForm(t *testing.T) {
	object := func(properties string) string {
		return `{"type":"object","additionalProperties":false,"properties":{` + properties + `}}`
	}
	list := func(items string) string { return `"a":{"type":"array","items":` + items + `}` }
	for _, row := range []struct{ schema, config, want string }{
		{object(`"z":{"type":"string"},"a/b":{"type":"boolean"},"n":{"type":"integer","minimum":1}`), `{"z":"x","a/b":true,"n":9007199254740993}`, `text z "x", flag a~1b on, number n "9007199254740993"`},
		{object(list(`{"type":"string","pattern":"^x"}`)), `{"a":["x","y z"]}`, `lines a "x\ny z"`},
		{object(list(`{"type":"string"}`)), `{"a":["two\nlines"]}`, `json a "[\n  \"two\\nlines\"\n]"`},
		{object(list(`{"enum":["p","q"]}`)), `{"a":["q"]}`, `choices a +q`},
		{object(list(`{"enum":["p","q"]}`)), `{"a":["other"]}`, `json a "[\n  \"other\"\n]"`},
		{object(list(`{"type":"integer"}`)), `{"a":[1,2]}`, `numbers a "1\n2\n"`},
		{object(list(`{"type":["string","number"]}`)), `{}`, `json a`},
		{object(`"e":{"enum":["p","q"]}`), `{"e":"p"}`, `choice e +p`},
		{object(`"e":{"enum":[1,2]}`), `{"e":1}`, `json e "1"`},
		{object(`"g":` + object(`"k":{"type":"string"}`)), `{"g":{"k":"v"}}`, `group g {text g/k "v"}`},
		{object(`"g":` + object(`"k":{"type":"string"}`)), `{"g":{"other":1}}`, `json g "{\n  \"other\": 1\n}"`},
		{object(`"m":{"type":"object","additionalProperties":{"type":"string"}}`), `{}`, `json m`},
		{object(`"o":{"type":"string","not":{"const":"x"}}`), `{"o":"y"}`, `json o "\"y\""`},
		{object(`"a":{"type":"string"}`), `{"b":1}`, `json  "{\n  \"b\": 1\n}"`},
		{`{"type":"object","anyOf":[]}`, `{}`, `json  "{}"`},
		{`{"type":"object"}`, `{}`, ``},
	} {
		if diff := cmp.Diff(row.want, told(configForm(json.RawMessage(row.schema), json.RawMessage(row.config)))); diff != "" {
			t.Errorf("%s with %s: %s", row.schema, row.config, diff)
		}
	}
}
