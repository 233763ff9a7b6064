package connector_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/sources/connector"
)

// TestProtocol has servers of one era or of both, and connectors that need
// sessions, do not, or are pinned to a version.
func TestProtocol(t *testing.T) {
	list := func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, `{"tools":[]}`) }
	newer, older := newUpstream(t, true, list), newUpstream(t, false, list)
	both := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
			newer.Config.Handler.ServeHTTP(w, r)
			return
		}
		older.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(both.Close)
	pin := func(version string) func(*connector.Config) {
		return func(c *connector.Config) { c.Protocol = version }
	}
	perAgent := func(c *connector.Config) { c.PerAgent = true }
	for _, test := range []struct {
		name, url string
		change    func(*connector.Config)
		want      string // version; empty: an error
	}{
		{"both", both.URL, nil, "2026-07-28"},
		{"both, may ask", both.URL, mayAsk(action.AskElicitation), "2025-11-25"},
		{"both, a session for each agent", both.URL, perAgent, "2025-11-25"},
		{"both, pinned to sessions", both.URL, pin("2025-11-25"), "2025-11-25"},
		{"both, pinned to none, may ask", both.URL, func(c *connector.Config) { pin("2026-07-28")(c); mayAsk(action.AskRoots)(c) }, "2026-07-28"},
		{"no sessions, may ask", newer.URL, mayAsk(action.AskSampling), "2026-07-28"},
		{"no sessions, a session for each agent", newer.URL, perAgent, "2026-07-28"},
		{"no sessions, pinned to them", newer.URL, pin("2025-06-18"), ""},
		{"sessions", older.URL, nil, "2025-11-25"},
		{"sessions, pinned to none", older.URL, pin("2026-07-28"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, test.url, test.change)
			for range 2 { // the second handshake, too
				l, err := s.List(t.Context())
				if test.want == "" {
					if err == nil || !strings.HasPrefix(action.Public(err).Code, "upstream_") {
						t.Fatalf("got %+v, %v", l, err)
					}
					continue
				}
				if err != nil || l.Protocol != test.want || l.Server != "u" {
					t.Fatalf("got version %q of %q, %v", l.Protocol, l.Server, err)
				}
			}
		})
	}
}
