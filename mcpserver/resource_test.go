package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
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
