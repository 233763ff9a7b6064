package main

import (
	"context"
	"encoding/json"

	"sallyport/action"
)

// agent is a caller that fills in every form.
type agent struct{}

func (agent) Session() string { return session }

func (agent) Features() action.ClientFeatures { return action.AskFeatures(action.AskKinds()) }

func (agent) LogLevel() string { return "" }

func (agent) Invocation() string { return "" }

func (agent) Integration() string { return "" }

func (agent) Production() bool { return false }

func (agent) Progress(json.RawMessage) {}

func (agent) Log(json.RawMessage) {}

// Ask implements action.Caller.
func (agent) Ask(_ context.Context, questions []action.Question) (map[string]action.Reply, error) {
	replies := make(map[string]action.Reply, len(questions))
	for _, q := range questions {
		var asked struct {
			Schema json.RawMessage `json:"requestedSchema"`
		}
		if err := json.Unmarshal(q.Params, &asked); err != nil {
			return nil, err
		}
		result, err := json.Marshal(map[string]any{"action": "accept", "content": example(asked.Schema)})
		if err != nil {
			return nil, err
		}
		replies[q.Key] = action.Reply{Result: result}
	}
	return replies, nil
}

// example is an object that an object's schema takes: each property has its
// default, or else something of its type.
func example(schema json.RawMessage) json.RawMessage {
	var object struct {
		Properties map[string]struct {
			Type    any   `json:"type"`
			Default any   `json:"default"`
			Enum    []any `json:"enum"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(schema, &object) // nothing is filled in then
	content := make(map[string]any)
	for name, p := range object.Properties {
		switch {
		case p.Default != nil:
			content[name] = p.Default
		case len(p.Enum) > 0:
			content[name] = p.Enum[0]
		case p.Type == "boolean":
			content[name] = true
		case p.Type == "string":
			content[name] = "us-west1"
		case p.Type == "integer", p.Type == "number":
			content[name] = 1
		}
	}
	raw, _ := json.Marshal(content) //nolint:errcheck // it was JSON
	return raw
}
