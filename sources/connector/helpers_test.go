package connector_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// read returns the body of a request, and the request with the body in it.
func read(t *testing.T, r *http.Request) (string, *http.Request) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body), r
}

func countNew(n *atomic.Int64) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
}

// post is a JSON-RPC message that a server received.
type post struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name  string
		URI   string
		Level string

		Capabilities json.RawMessage
		Arguments    json.RawMessage
		Cursor       string
		Meta         struct {
			Token json.RawMessage `json:"progressToken"`
			Level string          `json:"io.modelcontextprotocol/logLevel"`
		} `json:"_meta"`
		RequestID json.RawMessage `json:"requestId"`
	}
	Result json.RawMessage
	Error  json.RawMessage
	raw    string
	header http.Header
}

// upstream is a server with sessions that is written by hand: it answers
// handshakes and leaves the rest to tell.
type upstream struct {
	*httptest.Server
	mu     sync.Mutex
	offers string // its capabilities
	posts  []post

	streams bool // it answers initialize with an event
}

// offer sets the capabilities that the next handshakes tell.
func (u *upstream) offer(capabilities string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.offers = capabilities
}

// newUpstream starts a server. With stateless it speaks 2026-07-28.
func newUpstream(t *testing.T, stateless bool, tell func(w http.ResponseWriter, r *http.Request, p *post)) *upstream {
	t.Helper()
	u := &upstream{offers: `{"tools":{}}`}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := post{header: r.Header}
		offers := ""
		if r.Method == http.MethodPost {
			p.raw, _ = read(t, r)
			if err := json.Unmarshal([]byte(p.raw), &p); err != nil {
				t.Errorf("received %q: %v", p.raw, err)
			}
			u.mu.Lock()
			u.posts = append(u.posts, p)
			offers = u.offers
			u.mu.Unlock()
		}
		switch {
		case stateless && p.Method == "server/discover":
			respond(w, &p, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+offers+`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"u","version":"1"}}}`)
		case p.Method == "server/discover":
			http.Error(w, "what?", http.StatusBadRequest)
		case stateless && p.Method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported protocol version"}}`, p.ID)
		case p.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("session-%d", len(u.received("initialize"))))
			answer := `{"protocolVersion":"2025-11-25","capabilities":` + offers + `,"serverInfo":{"name":"u","version":"1"}}`
			if u.streams {
				stream(w)
				say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.ID, answer))
				return
			}
			respond(w, &p, answer)
		case p.Method == "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusOK)
		default:
			tell(w, r, &p)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// received returns the messages of a method.
func (u *upstream) received(method string) (list []post) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range u.posts {
		if p.Method == method {
			list = append(list, p)
		}
	}
	return list
}

// respond answers with a result as JSON.
func respond(w http.ResponseWriter, p *post, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, p.ID, result)
}

// stream begins an answer as events.
func stream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
}

// say sends one event.
func say(w http.ResponseWriter, data string) {
	for line := range strings.SplitSeq(data, "\n") {
		fmt.Fprintf(w, "data: %s\n", line)
	}
	fmt.Fprint(w, "\n")
	w.(http.Flusher).Flush()
}
