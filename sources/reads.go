package sources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"sallyport/action"
)

// The params of the actions beside tools, by the names at the source.
const (
	readSchemaText = `{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`
	getSchemaText  = `{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"]}`
)

// beside returns the actions by which the source's resources are read and its
// prompts gotten. They are the gateway's own code, which no server can change,
// so that there is nothing of them to review.
func (f *feed) beside() (list []*action.Action) {
	if f.source == nil {
		return nil
	}
	con, can := f.connector, f.offer.can
	if can.Resources {
		a := f.own(action.ActionRead, readSchemaText, f.tenant.readParams, "uri")
		a.Title, a.Description = "Read a resource of "+con.Name, "Reads a resource of the connector "+con.Name+" by its URI."
		if can.Subscribe {
			a.Subscribe = f.source.Subscribe
		}
		list = append(list, a)
	}
	if can.Prompts {
		a := f.own(action.ActionPrompt, getSchemaText, f.tenant.getParams, "name")
		a.Title, a.Description = "Get a prompt of "+con.Name, "Gets a prompt of the connector "+con.Name+" by its name, filled in with arguments."
		list = append(list, a)
	}
	return list
}

// own returns an action that is no tool.
func (f *feed) own(name, schema string, c *checker, says string) *action.Action {
	con := f.connector
	sum := sha256.Sum256([]byte(name + "\n" + schema))
	a := &action.Action{
		Source: con.Source(), SourceName: con.Name, Name: name,
		Risk:        risk(con.Risks[name], action.RiskRead, ""),
		InputSchema: json.RawMessage(schema),
		Hash:        hex.EncodeToString(sum[:]),
		Revision:    f.revision(),
		Check:       c.Check,
		Summarize: func(params json.RawMessage) string {
			members, _ := Members(params)
			return text(params, members, says)
		},
		Run: func(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
			return f.source.Do(ctx, name, params, caller)
		},
	}
	a.MayAsk, a.Timeout = f.asking()
	if f.offer.can.Completions {
		a.Complete = func(ctx context.Context, params json.RawMessage) (action.Result, error) {
			return f.source.Do(ctx, "completion/complete", params, nil)
		}
	}
	return a
}
