package connector_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

// TestDiagnosis has servers that cannot be used: each is told apart, in words
// that say what to do.
func TestDiagnosis(t *testing.T) {
	serve := func(secure bool, h http.HandlerFunc) func(t *testing.T) string {
		return func(t *testing.T) string {
			start := httptest.NewServer
			if secure {
				start = httptest.NewTLSServer
			}
			s := start(h)
			s.Config.ErrorLog = nil
			t.Cleanup(s.Close)
			return s.URL + "/mcp"
		}
	}
	answer := func(status int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
		}
	}
	other := func(from func(*testing.T) string, old, now string) func(*testing.T) string {
		return func(t *testing.T) string { return strings.Replace(from(t), old, now, 1) }
	}
	for _, test := range []struct {
		name   string
		url    func(t *testing.T) string
		secret bool
		code   string
		words  string
	}{
		{"an HTTP+SSE server that takes no messages", serve(false, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\ndata: /messages?id=1\n\n")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's is one
			<-r.Context().Done()
		}), false, sources.FaultTransport, "no MCP server at this URL (405"},
		{"nothing there", serve(false, answer(404)), false, sources.FaultTransport, "often ends in /mcp"},
		{"a page", serve(false, answer(200, "Content-Type", "text/html")), false, sources.FaultTransport, "often ends in /mcp"},
		{"TLS without TLS", other(serve(false, answer(200)), "http:", "https:"), false, sources.FaultTLS, "does not speak TLS"},
		{"a certificate of nobody", serve(true, answer(200)), false, sources.FaultTLS, "unknown authority"},
		{"one who hangs up", hangUp, false, sources.FaultUnreachable, "closed the connection"},
		{"no credential", serve(false, answer(401)), false, sources.FaultAuth, "Set the connector's secret"},
		{"no sign-in", serve(false, answer(401, "WWW-Authenticate", `Bearer resource_metadata="https://x.test/"`)), false, sources.FaultAuth, "sign in"},
		{"a wrong credential", serve(false, answer(401)), true, sources.FaultAuth, "Set the connector's secret again"},
		{"a redirect within", serve(false, answer(302, "Location", "/v2/mcp?key=canary")), false, sources.FaultRefused, "to http://127.0.0.1"},
		{"a redirect elsewhere", serve(false, answer(307, "Location", "https://else.test/mcp")), false, sources.FaultRefused, "else.test"},
		{"too much", serve(false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"x":%q}}`, strings.Repeat("x", 64<<10))
		}), false, sources.FaultTooLarge, "larger than"},
		{"no JSON", serve(false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "hello")
		}), false, sources.FaultProtocol, "does not follow MCP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, test.url(t), func(c *connector.Config) {
				c.MaxAnswer = 32 << 10
				if test.secret {
					host := strings.TrimSuffix(strings.TrimPrefix(c.URL, "http://"), "/mcp")
					c.Secret = func(context.Context) (string, string, error) { return "a-secret", host, nil }
				}
			})
			_, err := s.List(t.Context())
			var e *action.Error
			if !errors.As(err, &e) || e.Code != test.code || !strings.Contains(e.Message, test.words) {
				t.Fatalf("got %v, want %s with %q", err, test.code, test.words)
			}
			if strings.Contains(e.Message, "canary") {
				t.Errorf("it shows a query: %s", e.Message)
			}
		})
	}
}

// hangUp listens and ends every connection at once.
func hangUp(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/mcp"
}
