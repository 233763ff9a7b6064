package posthog_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/ingest/event"
	"sallyport/sources/posthog"
)

// fits checks a config by a validator.
func fits(t *testing.T, config string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(posthog.Triggers().Types[0].Config))
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
	e := hear(t, signed(body, "")).Events[0]
	matches := posthog.Triggers().Types[0].Matches
	for config, passes := range map[string]bool{
		`{}`:                                   true,
		`{"events":[],"properties":{}}`:        true,
		byHeader:                               true,
		`{"events":["other","signed_up"]}`:     true,
		`{"events":["signed"]}`:                false,
		`{"properties":{"plan":"pro"}}`:        true,
		`{"properties":{"plan":"Pro"}}`:        false,
		`{"properties":{"plan":["x","pro"]}}`:  true,
		`{"properties":{"plan":["x"]}}`:        false,
		`{"properties":{"seats":7}}`:           true,
		`{"properties":{"seats":"7"}}`:         true,
		`{"properties":{"seats":70}}`:          false,
		`{"properties":{"paid":true}}`:         true,
		`{"properties":{"paid":[false]}}`:      false,
		`{"properties":{"tags":["a"]}}`:        false, // a list is no value
		`{"properties":{"none":""}}`:           false,
		`{"properties":{"plan":"pro","x":1}}`:  false,
		`{"events":["x"],"properties":{}}`:     false,
		`{"properties":{"email":["ada@e.c"]}}`: false,
	} {
		if got := matches(&e, json.RawMessage(config)); got != passes {
			t.Errorf("%s: %v", config, got)
		}
		if err := fits(t, config); err != nil {
			t.Errorf("its schema refuses %s: %v", config, err)
		}
	}
	empty := hear(t, signed(`{"event":"a","properties":{"plan":"","gone":null}}`, "")).Events[0]
	if !matches(&empty, json.RawMessage(`{"properties":{"plan":""}}`)) || matches(&empty, json.RawMessage(`{"properties":{"gone":""}}`)) {
		t.Error("an empty text is nothing, or nothing is an empty text")
	}
	if !matches(&e, nil) || matches(&e, json.RawMessage(`{"events":"signed_up"}`)) || matches(&event.Event{Context: json.RawMessage(`[]`)}, nil) {
		t.Error("what cannot be read passes, or nothing does")
	}
	for _, config := range []string{`[]`, `{"other":1}`, `{"events":[""]}`, `{"properties":{"a":null}}`, `{"properties":{"a":[]}}`, `{"properties":{"a":[{}]}}`, `{"verification":{"scheme":"none"}}`, `{"verification":{"header":"A B"}}`} {
		if fits(t, config) == nil {
			t.Errorf("its schema takes %s", config)
		}
	}
}
