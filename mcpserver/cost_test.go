package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"sallyport/action"
	"sallyport/mcpserver"
)

// BenchmarkListCost prints what a list costs a model, which reads it with each
// request: of 10, 100 and 500 tools as services list them, all of them against
// search mode, with the gateway's own as a coding session has them. Tokens are estimated as a quarter of the bytes. The time is that
// of making one list and answering it.
func BenchmarkListCost(b *testing.B) {
	for _, n := range []int{10, 100, 500} {
		for _, mode := range []action.ToolListing{action.ListAll, action.ListSearch} {
			b.Run(fmt.Sprintf("tools=%d/list=%s", n, mode), func(b *testing.B) {
				var of atomic.Value
				of.Store(mode)
				g := newGate(append(catalogOf(n), platformTools()...)...)
				s := newServer(b, g, &hints{}, func(c *mcpserver.Config) {
					asSearcher(&of)(c)
					c.RequestGrant, c.Snapshot = g.RequestGrant, g.snapshot
				})
				id := begin(b, s, "token-a")
				var bytes int
				for b.Loop() {
					bytes = serve(s, rpc("token-a", id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)).Body.Len()
				}
				b.ReportMetric(float64(bytes), "bytes/list")
				b.ReportMetric(float64(bytes)/4, "tokens/list")
			})
		}
	}
}

// BenchmarkSearch is one actions_search among 500 tools, without what it takes
// to make the index.
func BenchmarkSearch(b *testing.B) {
	var of atomic.Value
	of.Store(action.ListSearch)
	s := newServer(b, newGate(catalogOf(500)...), &hints{}, asSearcher(&of))
	id := begin(b, s, "token-a")
	var bytes int
	for b.Loop() {
		bytes = serve(s, rpc("token-a", id, callBody(1, "actions_search", `,"arguments":{"query":"update an issue of a project"}`))).Body.Len()
	}
	b.ReportMetric(float64(bytes)/4, "tokens/answer")
}

// platformTools have the names and sizes of what a coding session lists of the
// gateway's own source in either mode.
func platformTools() (list []*served) {
	for name, size := range map[string]int{"verify": 912, "request_env_variables": 1593} {
		definition := fmt.Sprintf(`{"name":%q,"description":"","inputSchema":{"type":"object"}}`, name)
		definition = strings.Replace(definition, `"description":"`, `"description":"`+strings.Repeat("a", size-len(definition)), 1)
		list = append(list, &served{Action: action.Action{
			Tool: name, Name: name, Source: action.Platform, SourceName: "Sallyport", Definition: json.RawMessage(definition),
		}})
	}
	return list
}

// catalogOf are tools of about the size that those of services have, some 700
// bytes each.
func catalogOf(n int) (list []*served) {
	verbs := []string{"create", "update", "list", "get", "search", "archive", "close", "assign", "comment_on", "move"}
	nouns := []string{"issue", "project", "message", "channel", "pull_request", "incident", "event", "document", "release", "comment"}
	for i := range n {
		verb, noun := verbs[i%10], nouns[i/10%10]
		name := fmt.Sprintf("service%d_%s_%s", i/100, verb, noun)
		schema := fmt.Sprintf(`{"type":"object","required":["id"],"properties":{`+
			`"id":{"type":"string","description":"The id of the %[1]s, as the list of them returns it."},`+
			`"title":{"type":"string","description":"A short title for the %[1]s; at most 200 characters."},`+
			`"state":{"type":"string","enum":["open","in_progress","done"],"description":"Where the %[1]s stands."},`+
			`"labels":{"type":"array","items":{"type":"string"},"description":"Names of labels; those that it had are replaced."}},"additionalProperties":false}`, noun)
		about := fmt.Sprintf("Use this to %s a %s. It returns the %s as it is afterwards, with its id, its URL and the time of its last change.", verb, noun, noun)
		definition, _ := json.Marshal(map[string]any{"name": name, "description": about, "inputSchema": json.RawMessage(schema)})
		list = append(list, &served{Action: action.Action{
			Tool: name, Name: verb + "_" + noun, Source: fmt.Sprintf("connector:%d", i/100), SourceName: fmt.Sprintf("Service %d", i/100),
			Description: about, InputSchema: json.RawMessage(schema), Definition: definition,
		}})
	}
	return list
}
