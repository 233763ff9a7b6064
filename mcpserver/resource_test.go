package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/mcpserver"
)

// Sessions that share a server read each its own capabilities, also at once.
func TestCapabilitiesOfOwnSession(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		g := newGate()
		s := open(t, func(c *mcpserver.Config) { c.Snapshot = g.snapshot }, read())
		tokens := []string{"token-dev1", "token-dev2", "token-dev-t1", "token-a", "token-b"}
		var all sync.WaitGroup
		for _, token := range tokens {
			session := s.connect(t, token, version, nil)
			if c := session.InitializeResult().Capabilities.Resources; c == nil || c.ListChanged || c.Subscribe {
				t.Errorf("declared: %+v", c)
			}
			list, err := session.ListResources(t.Context(), nil)
			if err != nil || len(list.Resources) != 2 || list.Resources[0].URI != "sallyport://capabilities" {
				t.Fatal(list, err)
			}
			all.Go(func() {
				for range 20 {
					res, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sallyport://capabilities"})
					if err != nil {
						t.Error(err)
						return
					}
					var got action.Snapshot
					if err := json.Unmarshal([]byte(res.Contents[0].Text), &got); err != nil || len(got.Providers) != 1 {
						t.Error(res.Contents[0].Text, err)
						return
					}
					who, _ := authenticate(t.Context(), token)
					if got.Providers[0] != "of "+who.ID || got.Group != who.Group || got.Task != who.Task {
						t.Errorf("%s read %+v", token, got)
						return
					}
				}
			})
		}
		all.Wait()
		if n := s.server.Servers(); n != 3 {
			t.Error("servers:", n)
		}
	})
}

// TestPagesForAgents: what an agent may do, what is denied to it, and what a search
// finds are all read page by page; of denied actions the guide says the name and the
// reason.
func TestPagesForAgents(t *testing.T) {
	eras(t, func(t *testing.T, version string) {
		var tools []*served
		for i := range 120 {
			tools = append(tools, &served{Action: action.Action{Tool: fmt.Sprintf("demo_t%03d", i), Name: fmt.Sprintf("t%03d", i), Source: "demo", SourceName: "Demo", Description: strings.Repeat("Does things. ", 40)}})
		}
		s := open(t, func(c *mcpserver.Config) {
			c.Snapshot = func(context.Context, *action.Session) (action.Snapshot, error) {
				p := action.ProviderAbility{Provider: "demo", Name: "Demo"}
				for i := range 250 {
					p.Actions = append(p.Actions, action.ActionAbility{Action: fmt.Sprintf("a%03d", i), Description: "HIDDEN", Denied: i%2 == 0, Reason: "It is destructive."})
				}
				return action.Snapshot{Capabilities: []action.ProviderAbility{p}}, nil
			}
		}, tools...)
		session := s.connect(t, "token-a", version, nil)
		found, uri := 0, "sallyport://capabilities"
		for range 3 {
			res, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if err != nil || res.Contents[0].URI != uri {
				t.Fatal(err, res)
			}
			var page action.Snapshot
			if err := json.Unmarshal([]byte(res.Contents[0].Text), &page); err != nil || page.Total != 250 {
				t.Fatal(res.Contents[0].Text, err)
			}
			found += len(page.Capabilities[0].Actions)
			uri = "sallyport://capabilities?cursor=" + page.NextCursor
		}
		if found != 250 || uri != "sallyport://capabilities?cursor=" {
			t.Errorf("three pages have %d of 250, then %s", found, uri)
		}
		if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sallyport://capabilities?cursor=x"}); err == nil || !strings.Contains(err.Error(), "belongs to another list") {
			t.Errorf("a cursor that is none: %v", err)
		}

		call := func(tool string, arguments map[string]any) (text string, content map[string]any) {
			t.Helper()
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil {
				t.Fatal(err)
			}
			content, _ = res.StructuredContent.(map[string]any)
			return textOf(res), content
		}
		text, content := call("actions_guide", map[string]any{"denied": true})
		if strings.Count(text, "`a") < 125 || strings.Contains(text, "`a001`") || strings.Contains(text, "HIDDEN") || !strings.Contains(text, "It is destructive.") || content["next_cursor"] != nil {
			t.Errorf("denied are %s, %v", text, content)
		}
		if text, _ = call("actions_guide", map[string]any{"denied": true, "source": "other"}); !strings.Contains(text, "no action of a source") {
			t.Error(text)
		}
		text, content = call("actions_guide", map[string]any{"source": "demo"})
		if next, _ := content["next_cursor"].(string); next == "" || !strings.Contains(text, "cursor `"+next+"`") {
			t.Errorf("the guide does not say how to go on: %v", content)
		} else if text, _ = call("actions_guide", map[string]any{"source": "demo", "cursor": next}); strings.Contains(text, "### `demo_t000`") || !strings.Contains(text, "### `demo_t05") {
			t.Errorf("the next page is %s", text)
		}
		seen, arguments := map[string]bool{}, map[string]any{"query": "", "limit": 50}
		for range 3 {
			text, content = call("actions_search", arguments)
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "- demo_") {
					seen[line] = true
				}
			}
			if arguments["cursor"] = content["next_cursor"]; arguments["cursor"] != nil && !strings.Contains(text, "repeat the search with cursor") {
				t.Errorf("a search does not say how to go on: %s", text)
			}
		}
		if len(seen) != 120 || arguments["cursor"] != nil {
			t.Errorf("three pages of a search have %d of 120 tools, then %v", len(seen), arguments)
		}
		if text, _ = call("actions_search", map[string]any{"query": "", "cursor": "x"}); !strings.Contains(text, "Invalid params at /cursor") {
			t.Error(text)
		}
	})
}

// What went wrong is told without its cause.
func TestCapabilitiesFail(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"sallyport://capabilities"}}`
	for _, test := range []struct {
		err  error
		says string
	}{
		{action.Errorf(action.ErrUnavailable, "database_unavailable", "Try again in a few seconds."), "Try again in a few seconds."},
		{errors.New("secret-detail"), "Internal error of the gateway"},
	} {
		s := newServer(t, newGate(read()), &hints{}, func(c *mcpserver.Config) {
			c.Snapshot = func(context.Context, *action.Session) (action.Snapshot, error) { return action.Snapshot{}, test.err }
		})
		end(t, s)
		id := begin(t, s, "token-a")
		text := serve(s, rpc("token-a", id, body)).Body.String()
		if !strings.Contains(text, test.says) || !strings.Contains(text, "-32603") || strings.Contains(text, "secret-detail") {
			t.Error(text)
		}
	}
}

// What decides what a session sees decides whom it shares it with.
func TestViewsFollowDecisions(t *testing.T) {
	only := func(tool string) *served { return &served{Action: action.Action{Tool: tool}} }
	g := newGate(only("plain"), only("devt1_x"), only("devt2_x"), only("event_x"), only("auto_x"))
	s := newServer(t, g, &hints{}, nil)
	end(t, s)
	everything := "auto_x devt1_x devt2_x event_x plain"
	for round := range 2 {
		for _, test := range []struct {
			token, sees string
			views       int // so far
		}{
			{"token-a", everything, 1},
			{"token-t1", everything, 1}, // a task without a group decides nothing
			{"token-dev1", "devt1_x devt2_x", 2},
			{"token-dev2", "devt1_x devt2_x", 2},
			{"token-dev-t1", "devt1_x", 3},
			{"token-dev-t2", "devt2_x", 4},
			{"token-event", "event_x", 5},
			{"token-auto", "auto_x", 6},
		} {
			id := begin(t, s, test.token)
			text := serve(s, rpc(test.token, id, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)).Body.String()
			var sees []string
			for name := range strings.FieldsSeq(everything) {
				if strings.Contains(text, `"`+name+`"`) {
					sees = append(sees, name)
				}
			}
			if got := strings.Join(sees, " "); got != test.sees {
				t.Errorf("%s sees %s, want %s", test.token, got, test.sees)
			}
			if n := s.Views(); round == 0 && n != test.views {
				t.Errorf("with %s there are %d views, want %d", test.token, n, test.views)
			}
		}
	}
}
