package pagerduty_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/ingest/event"
	"sallyport/sources/pagerduty"
)

// fits checks a config by a validator.
func fits(t *testing.T, config string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(pagerduty.Triggers().Types[0].Config))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:config", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("mem:config")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(v)
}

func TestFilters(t *testing.T) {
	whole, noted := heard(t, "incident.triggered", incident), heard(t, "incident.annotated", note)
	bare := heard(t, "incident.resolved", `{"id":"P1","title":"x"}`)
	for _, test := range []struct {
		of     *event.Event
		config string
		passes bool
	}{
		{whole, `{}`, true},
		{whole, `{"actions":[],"services":[]}`, true},
		{whole, `{"actions":["resolved","triggered"],"services":["api service"],"urgencies":["high"],"priorities":["p1"]}`, true},
		{whole, `{"actions":["resolved"]}`, false},
		{whole, `{"services":["PF9KMXH"],"priorities":["PSO75BM"]}`, true},
		{whole, `{"services":["API"]}`, false},
		{whole, `{"urgencies":["low"]}`, false},
		{whole, `{"priorities":["P2"]}`, false},
		{whole, `{"services":["API Service"],"priorities":["P2"]}`, false},
		{bare, `{}`, true},
		{bare, `{"services":["API Service"]}`, false},
		{bare, `{"urgencies":["high"]}`, false},
		{bare, `{"priorities":["P1"]}`, false},
		{noted, `{"actions":["annotated"]}`, true},
		{noted, `{"services":["API Service"]}`, false},
	} {
		if got := pagerduty.Triggers().Types[0].Matches(test.of, json.RawMessage(test.config)); got != test.passes {
			t.Errorf("%s with %s: %v", test.of.Native, test.config, got)
		}
		if err := fits(t, test.config); err != nil {
			t.Errorf("its schema refuses %s: %v", test.config, err)
		}
	}
	matches := pagerduty.Triggers().Types[0].Matches
	if !matches(whole, nil) || matches(whole, json.RawMessage(`{"actions":"triggered"}`)) || matches(&event.Event{Context: json.RawMessage(`[]`)}, nil) {
		t.Error("what cannot be read passes, or nothing does")
	}
	for _, config := range []string{`[]`, `{"other":1}`, `{"actions":["fixed"]}`, `{"urgencies":["medium"]}`, `{"services":[""]}`} {
		if fits(t, config) == nil {
			t.Errorf("its schema takes %s", config)
		}
	}
}

// TestActions: what people can choose is what there are events of.
func TestActions(t *testing.T) {
	var schema struct {
		Properties struct {
			Actions struct{ Items struct{ Enum []string } }
		}
	}
	if err := json.Unmarshal(pagerduty.Triggers().Types[0].Config, &schema); err != nil || len(schema.Properties.Actions.Items.Enum) == 0 {
		t.Fatal(schema, err)
	}
	for _, action := range schema.Properties.Actions.Items.Enum {
		data := strings.Replace(incident, `"type":"incident"`, `"incident":{"id":"PGR0VU2"}`, 1)
		if e := heard(t, "incident."+action, data); !strings.Contains(string(e.Context), `"action":"`+action+`"`) {
			t.Errorf("%s: %s", action, e.Context)
		}
	}
}
