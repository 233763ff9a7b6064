package cloudlogs_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/action"
)

func TestTheModuleIsWhole(t *testing.T) {
	m := newDesk(t).module
	if len(m.Needs) != 1 || m.Needs[0].Kind != action.KindNone || m.BaseURL != "" || m.Account != nil {
		t.Errorf("it needs %+v", m.Needs)
	}
	for _, a := range m.Actions {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Input))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("mem:schema", doc); err != nil {
			t.Fatal(err)
		}
		schema, err := c.Compile("mem:schema")
		if err != nil {
			t.Fatal(err)
		}
		if a.Risk != action.RiskRead || !a.Idempotent || len(a.Examples) == 0 || !strings.Contains(m.Guide, "`"+a.Name+"`") {
			t.Errorf("%s is not all there", a.Name)
		}
		for _, e := range a.Examples {
			params, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Params))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(params); err != nil {
				t.Errorf("%s: the example %q: %v", a.Name, e.Note, err)
			}
			if a.Summarize(e.Params) == "" {
				t.Errorf("%s: nothing is said of %s", a.Name, e.Params)
			}
		}
	}
}

func TestSummaries(t *testing.T) {
	m := newDesk(t).module
	for params, want := range map[string]string{
		`{"service":"api"}`: `query logs of "api"`,
		`{"service":"api\n","since":"2h","level":"error","text":"x\u202e","fields":{"b":true,"a":1}}`: `query logs of "api ", since "2h", from level "error", with "x ", where "a" is "1", where "b" is "true"`,
		`[]`: "query logs",
	} {
		if got := m.Actions[1].Summarize(json.RawMessage(params)); got != want {
			t.Errorf("%s: got %q, want %q", params, got, want)
		}
	}
}
