package slack_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/ingest/event"
	"sallyport/sources/slack"
)

func trigger(t *testing.T, id string) event.Type {
	t.Helper()
	for _, tr := range slack.Triggers().Types {
		if tr.ID == id {
			return tr
		}
	}
	t.Fatalf("there is no trigger %s", id)
	return event.Type{}
}

// fitsConfig reports what keeps a config from fitting its trigger.
func fitsConfig(t *testing.T, id, config string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(trigger(t, id).Config))
	if err != nil {
		t.Fatal(id, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:/", doc); err != nil {
		t.Fatal(id, err)
	}
	s, err := c.Compile("schema:/")
	if err != nil {
		t.Fatal(id, err)
	}
	if s.AdditionalProperties != false || len(s.Required) > 0 {
		t.Errorf("%s asks for something, or takes anything", id)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(config))
	if err != nil {
		t.Fatal(config, err)
	}
	return s.Validate(v)
}

func TestFilters(t *testing.T) {
	heard := func(inner string) *event.Event {
		p, err := parse(callback(inner))
		if err != nil || len(p.Events) != 1 {
			t.Fatal(inner, p, err)
		}
		return &p.Events[0]
	}
	message := heard(`{"type":"message","channel":"C1","user":"U1","text":"The Deploy FAILED"}`)
	bot := heard(`{"type":"message","subtype":"bot_message","channel":"C1","bot_id":"B2","attachments":[{"fallback":"deploy failed"}]}`)
	mention := heard(`{"type":"app_mention","channel":"C2","user":"U1","bot_id":"B2","text":"hi"}`)
	reaction := heard(`{"type":"reaction_added","user":"U1","reaction":"eyes","item":{"type":"message","channel":"C1"}}`)
	for _, tt := range []struct {
		of     *event.Event
		config string
		want   bool
	}{
		{message, ``, true},
		{message, `{}`, true},
		{message, `{"channels":["C0","C1"],"users":["U1"],"contains":["x","deploy failed"]}`, true},
		{message, `{"channels":["C2"]}`, false},
		{message, `{"users":["U2"]}`, false},
		{message, `{"contains":["deployed"]}`, false},
		{message, `{"channels":["C1"],"users":["U2"]}`, false},
		{bot, ``, false},
		{bot, `{"channels":["C1"]}`, false},
		{bot, `{"bots":true}`, true},
		{bot, `{"bots":true,"users":["B2"],"contains":["FAILED"]}`, true},
		{bot, `{"bots":true,"users":["U1"]}`, false},
		{mention, ``, false},
		{mention, `{"bots":true,"channels":["C2"]}`, true},
		{reaction, ``, true},
		{reaction, `{"reactions":["tada","eyes"],"channels":["C1"],"users":["U1"]}`, true},
		{reaction, `{"reactions":["eye"]}`, false},
		{reaction, `{"channels":["C2"]}`, false},
	} {
		if got := trigger(t, tt.of.Type).Matches(tt.of, json.RawMessage(tt.config)); got != tt.want {
			t.Errorf("%s %s: %v", tt.of.Native, tt.config, got)
		}
		if tt.config != "" {
			if err := fitsConfig(t, tt.of.Type, tt.config); err != nil {
				t.Error(tt.config, err)
			}
		}
	}
	if trigger(t, "message").Matches(&event.Event{Context: json.RawMessage(`7`)}, nil) || trigger(t, "message").Matches(message, json.RawMessage(`7`)) {
		t.Error("what cannot be read passes")
	}
}

func TestConfigs(t *testing.T) {
	for id, wrong := range map[string][]string{
		"message":        {`{"channels":["#general"]}`, `{"users":"U1"}`, `{"contains":[""]}`, `{"bots":1}`, `{"reactions":["eyes"]}`},
		"app_mention":    {`{"channels":[""]}`},
		"reaction_added": {`{"reactions":[":eyes:"]}`, `{"contains":["x"]}`},
	} {
		for _, config := range wrong {
			if fitsConfig(t, id, config) == nil {
				t.Errorf("%s takes %s", id, config)
			}
		}
	}
	if err := fitsConfig(t, "reaction_added", `{"reactions":["wave::skin-tone-2","+1"]}`); err != nil {
		t.Error(err)
	}
}
