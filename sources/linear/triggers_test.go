package linear_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/ingest/event"
	"sallyport/sources/linear"
)

func trigger(t *testing.T, id string) event.Type {
	t.Helper()
	for _, tr := range linear.Triggers().Types {
		if tr.ID == id {
			return tr
		}
	}
	t.Fatalf("there is no trigger %s", id)
	return event.Type{}
}

func matching(t *testing.T, id string) func(*event.Event, json.RawMessage) bool {
	return trigger(t, id).Matches
}

func configSchema(t *testing.T, id string) *jsonschema.Schema {
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
	return s
}

func TestFilters(t *testing.T) {
	parse := linear.Triggers().Webhook.Parse
	heard := func(kind, action, data string) *event.Event {
		p, err := parse(signed(posted(kind, action, data, "")))
		if err != nil || len(p.Events) != 1 {
			t.Fatal(p, err)
		}
		return &p.Events[0]
	}
	issue, bare := heard("Issue", "update", hookIssue), heard("Issue", "create", `{"id":"a","updatedAt":"2026-11-02T10:00:00Z","teamId":"t9","labels":[]}`)
	comment, elsewhere := heard("Comment", "create", hookComment), heard("Comment", "update", `{"id":"a","updatedAt":"2026-11-02T10:00:00Z"}`)
	for _, tt := range []struct {
		of     *event.Event
		config string
		want   bool
	}{
		{issue, ``, true},
		{issue, `{}`, true},
		{issue, `{"teams":[],"priorities":[]}`, true},
		{issue, `{"actions":["updated"]}`, true},
		{issue, `{"actions":["created"]}`, false},
		{issue, `{"teams":["ops","eng"]}`, true},
		{issue, `{"teams":["t1"]}`, true},
		{issue, `{"teams":["Engineering"]}`, true},
		{issue, `{"teams":["EN"]}`, false},
		{issue, `{"states":["in progress"]}`, true},
		{issue, `{"states":["started"]}`, true},
		{issue, `{"states":["s1"]}`, true},
		{issue, `{"states":["Done","completed"]}`, false},
		{issue, `{"priorities":[1,2]}`, true},
		{issue, `{"priorities":[0,1]}`, false},
		{issue, `{"labels":["urgent"]}`, true},
		{issue, `{"labels":["l1","x"]}`, true},
		{issue, `{"labels":["Feature"]}`, false},
		{issue, `{"assignees":["ADA@example.com"]}`, true},
		{issue, `{"assignees":["none"]}`, false},
		{issue, `{"projects":["launch"]}`, true},
		{issue, `{"projects":["p2"]}`, false},
		{issue, `{"teams":["ENG"],"labels":["Feature"]}`, false},
		{bare, `{"assignees":["none"],"priorities":[0],"teams":["t9"],"actions":["created"]}`, true},
		{bare, `{"projects":["Launch"]}`, false},
		{bare, `{"labels":["Bug"]}`, false},
		{bare, `{"states":["started"]}`, false},
		{comment, ``, true},
		{comment, `{"teams":["ENG"],"authors":["bob"],"actions":["created"]}`, true},
		{comment, `{"authors":["Ada"]}`, false},
		{comment, `{"teams":["OPS"]}`, false},
		{elsewhere, `{"actions":["updated"]}`, true},
		{elsewhere, `{"teams":["ENG"]}`, false},
		{elsewhere, `{"authors":["Ada"]}`, false},
	} {
		if got := matching(t, tt.of.Type)(tt.of, json.RawMessage(tt.config)); got != tt.want {
			t.Errorf("%s %s: %v", tt.of.Native, tt.config, got)
		}
		if tt.config != "" && fits(t, configSchema(t, tt.of.Type), tt.config) != nil {
			t.Errorf("%s is no config of %s", tt.config, tt.of.Type)
		}
	}
	for _, e := range []event.Event{{Type: "issue", Context: json.RawMessage(`7`)}, {Type: "issue"}, {Type: "comment", Context: issue.Context}} {
		if matching(t, e.Type)(&e, nil) {
			t.Errorf("%+v passes", e)
		}
	}
}

// TestWhoDidIt: agents that act as an app, or as a user of their own, do not start
// themselves.
func TestWhoDidIt(t *testing.T) {
	const me = `"actor":{"id":"u1","type":"user","name":"Ada Byron"}`
	app := `"actor":{"id":"x1","type":"oauthClient","name":"Gate"}`
	tell := func(kind, action, data, actor string) event.Event {
		p, err := linear.Triggers().Webhook.Parse(signed(strings.Replace(posted(kind, action, data, ""), me, actor, 1)))
		if err != nil || len(p.Events) != 1 {
			t.Fatal(p, err)
		}
		return p.Events[0]
	}
	made := strings.Replace(hookIssue, `"botActor":"{}"`, `"botActor":"{\"type\":\"workflow\"}"`, 1)
	wrote := strings.Replace(hookComment, `"body":`, `"botActor":{"id":"b"},"body":`, 1)
	for _, tt := range []struct {
		name     string
		of       event.Event
		config   string
		want     bool
		withBots bool // and with bots
	}{
		{"a person", tell("Issue", "update", hookIssue, me), `{}`, true, true},
		{"nobody who is known", tell("Issue", "update", hookIssue, `"actor":null`), `{}`, true, true},
		{"somebody outside", tell("Issue", "update", hookIssue, `"actor":{"id":"e","type":"externalUser"}`), `{}`, true, true},
		{"an app", tell("Issue", "update", hookIssue, app), `{}`, false, true},
		{"an integration", tell("Comment", "create", hookComment, `"actor":{"id":"i","type":"integration","service":"github"}`), `{}`, false, true},
		{"an app that is no actor", tell("Issue", "create", made, me), `{}`, false, true},
		{"a person, with the issue of an app", tell("Issue", "update", made, me), `{}`, true, true},
		{"an app's comment", tell("Comment", "create", wrote, `"actor":null`), `{}`, false, true},
		{"a person who is left out", tell("Issue", "update", hookIssue, me), `{"ignore_authors":["ada byron"]}`, false, false},
		{"another one is left out", tell("Issue", "update", hookIssue, me), `{"ignore_authors":["u2","Bob"]}`, true, true},
		{"an app that is left out", tell("Issue", "update", hookIssue, app), `{"ignore_authors":["gate"]}`, false, false},
		{"a comment's author", tell("Comment", "create", hookComment, `"actor":null`), `{"ignore_authors":["bob@example.com"]}`, false, false},
		{"nobody who is known is left out", tell("Issue", "update", hookIssue, `"actor":null`), `{"ignore_authors":["u1"]}`, true, true},
	} {
		bots := strings.Replace(`{"bots":true,`+tt.config[1:], ",}", "}", 1)
		for config, want := range map[string]bool{tt.config: tt.want, bots: tt.withBots} {
			if got := matching(t, tt.of.Type)(&tt.of, json.RawMessage(config)); got != want {
				t.Errorf("%s, %s: %v", tt.name, config, got)
			}
			if err := fits(t, configSchema(t, tt.of.Type), config); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestConfigs(t *testing.T) {
	for _, tr := range linear.Triggers().Types {
		s := configSchema(t, tr.ID)
		if s.AdditionalProperties != false || len(s.Required) > 0 || tr.Title == "" || tr.Description == "" {
			t.Errorf("%s lacks something", tr.ID)
		}
		for name, p := range s.Properties {
			if p.Description == "" || fits(t, s, `{"`+name+`":"x"}`) == nil || fits(t, s, `{"`+name+`":[""]}`) == nil {
				t.Errorf("%s: %s is not a list that is described", tr.ID, name)
			}
		}
	}
	if err := fits(t, configSchema(t, "issue"), `{"priorities":[5]}`); err == nil || !strings.Contains(err.Error(), "maximum") {
		t.Error(err)
	}
}
