package conformance_test

import (
	"fmt"
	"testing"
)

// TestChanges has a server say that something changed. Agents with an event
// stream hear it, in either era of either side.
func TestChanges(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	for _, upstreamEra := range []string{olderEra, newerEra} {
		at := startReference(t, upstreamEra == newerEra)
		slug := "ch-" + upstreamEra[:4]
		source := g.connector(slug, at)
		g.mode(source+":*", "allow")
		other := newWire(t, at, "", upstreamEra, nothing) // the one who changes things
		for _, era := range []string{olderEra, newerEra} {
			t.Run(fmt.Sprintf("a server of %s, a client of %s", upstreamEra, era), func(t *testing.T) {
				const watched = "test://watched-resource"
				w := newWire(t, g.MCPURL, g.mint(nil).Token, era, nothing)
				if len(names(w, "tools/list", slug+"_")) == 0 || len(names(w, "resources/list", "")) == 0 {
					t.Fatal("nothing is listed")
				}
				w.opened(w.listen(watched))
				if era == olderEra {
					if got := w.request("resources/subscribe", fmt.Sprintf(`{"uri":%q}`, watched)); got.Error != nil {
						t.Fatalf("subscribing: %+v", got.Error)
					}
				}
				for method, tool := range map[string]string{
					"notifications/tools/list_changed":   "test_trigger_tool_change",
					"notifications/prompts/list_changed": "test_trigger_prompt_change",
				} {
					before := w.told(method)
					if got := other.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, tool)); got.Result == nil {
						t.Fatalf("%s: %+v", tool, got.Error)
					}
					await(t, method, func() bool { return w.told(method) > before })
				}
				await(t, "two words of a resource", func() bool { return w.updated(watched) >= 2 })
			})
		}
		// Both reference servers call their resources the same.
		g.must("DELETE", "/api/v1/connectors/"+source[len("connector:"):], nil, nil)
	}
}
