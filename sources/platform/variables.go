package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

// VariablesTool is the name of the tool that requests environment variables
// from people.
const VariablesTool = "request_env_variables"

const variablesSchema = `{
  "type": "object",
  "properties": {
    "keys": {
      "type": "array", "minItems": 1, "maxItems": 50,
      "items": {
        "type": "object",
        "properties": {
          "key": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "Name of the variable."},
          "description": {"type": "string", "maxLength": 2000, "description": "Purpose of the variable, for the person who enters it."},
          "type": {"type": "string", "enum": ["env", "secret"], "description": "secret: the value is hidden while the person enters it. Default: env."},
          "required": {"type": "boolean", "description": "Default: true."},
          "suggestions": {
            "type": "array", "maxItems": 10,
            "items": {
              "type": "object",
              "properties": {
                "label": {"type": "string", "minLength": 1, "maxLength": 2000},
                "value": {"type": "string", "maxLength": 2000, "description": "A value that the person can choose; not a secret."},
                "instructions": {"type": "string", "maxLength": 2000, "description": "How to get a value."}
              },
              "required": ["label"],
              "additionalProperties": false
            }
          }
        },
        "required": ["key"],
        "additionalProperties": false
      }
    }
  },
  "required": ["keys"],
  "additionalProperties": false
}`

func (p *platform) variables() sources.PlatformAction {
	return sources.PlatformAction{
		Name: VariablesTool, Title: "Ask a person for environment variables",
		Description: "Requests environment variables that you lack from a person, such as an API key of a test account, and returns at once. " +
			"Then run sallyport env pull --wait 10m in the sandbox's shell: it writes the values to a file, once. " +
			"Do not request credentials of services that are among your tools: the gateway has them. Never print the file or its values.",
		Risk: action.RiskWrite, Idempotent: true, Input: json.RawMessage(variablesSchema),
		Examples: []sources.Example{{
			Note:   "A key for tests",
			Params: json.RawMessage(`{"keys":[{"key":"STRIPE_TEST_KEY","type":"secret","description":"The checkout tests call Stripe.","suggestions":[{"label":"Test key","instructions":"Stripe, Developers, API keys, of the test mode."}]}]}`),
		}},
		Summarize: func(params json.RawMessage) string {
			keys, err := readMember[[]action.EnvKey](params, "keys")
			if err != nil {
				return ""
			}
			return "Ask a person for " + keyNames(keys)
		},
		Check: func(params json.RawMessage) error {
			keys, err := readMember[[]action.EnvKey](params, "keys")
			if err != nil {
				return invalidParam("/keys", "The keys cannot be read: %s", "give a list of objects.")
			}
			if err := action.CheckEnvKeys(keys); err != nil {
				return err
			}
			return p.rejectSecrets(keys)
		},
		Answered: p.replay,
		Run: func(ctx context.Context, c action.ToolCall, params json.RawMessage) (action.ToolReply, error) {
			keys, err := readMember[[]action.EnvKey](params, "keys")
			if err != nil {
				return action.ToolReply{}, err
			}
			reply, made, err := p.Rows.RequestVariables(ctx, p.withQuota(c, params), keys, p.envReply)
			if made && err == nil {
				p.Asked(c.Organization, c.Session)
			}
			return reply, err
		},
	}
}

// rejectSecrets rejects text that looks like a credential, because every member
// can read requests.
func (p *platform) rejectSecrets(keys []action.EnvKey) error {
	for i, k := range keys {
		at := fmt.Sprintf("/keys/%d", i)
		if err := p.rejectSecret(at+"/description", k.Description); err != nil {
			return err
		}
		for j, s := range k.Suggestions {
			for field, text := range map[string]string{"label": s.Label, "value": s.Value, "instructions": s.Instructions} {
				if err := p.rejectSecret(fmt.Sprintf("%s/suggestions/%d/%s", at, j, field), text); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// envReply is the immediate reply to the agent.
func (p *platform) envReply(r action.EnvRequest) (action.ToolReply, error) {
	at := strings.TrimSuffix(p.PublicURL, "/") + "/env-requests/" + r.ID
	data, err := json.Marshal(map[string]any{"request_id": r.ID, "status": r.Status, "url": at, "expires_at": r.ExpiresAt})
	if err != nil {
		return action.ToolReply{}, err
	}
	return action.ToolReply{Data: data, Text: fmt.Sprintf(
		"A person is asked for %s at %s. Now run in the sandbox's shell: sallyport env pull --wait 10m. It waits for the answer and writes the values to /tmp/.sallyport_env.json, once; "+
			"take single ones from there with jq, or write files with sallyport env apply. Do not print the file. If the person refuses, the command says why.", keyNames(r.Keys), at)}, nil
}

func keyNames(keys []action.EnvKey) string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.Key
	}
	return strings.Join(list, ", ")
}
