package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The client reads answers of a fixed length and chunked ones, keeps the
// session that it was given, and takes nothing but a result for success.
func TestConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		w.Header().Set("Mcp-Session-Id", "s1")
		switch {
		case strings.Contains(string(body), "initialize"):
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":0,"result":{}}`)
		case r.Header.Get("Mcp-Session-Id") != "s1":
			w.WriteHeader(http.StatusBadRequest)
		case strings.Contains(string(body), `"n":7`):
			fmt.Fprint(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",")
			_ = http.NewResponseController(w).Flush()
			fmt.Fprint(w, "\"id\":7,\"result\":{}}\n\n")
		case strings.Contains(string(body), `"n":8`):
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":8,"result":{"isError":true}}`)
		default:
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":9,"error":{}}`)
		}
	}))
	defer server.Close()
	c, err := open(t.Context(), target{addr: server.Listener.Addr().String(), path: "/"}, "token")
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	for n, ok := range map[int64]bool{7: true, 8: false, 9: false} {
		if err := c.call("read", n); (err == nil) != ok {
			t.Errorf("call %d: %v", n, err)
		}
	}
}
