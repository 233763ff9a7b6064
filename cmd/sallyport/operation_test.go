package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
)

// Each command that lists prints an item of which nothing is known: its columns
// are fields of the API's answer.
func TestListsPrint(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_, _ = io.WriteString(w, `{"items":[{}],"total":1,"session_id":"s-1"}`)
	}))
	defer server.Close()
	t.Setenv("SALLYPORT_API_KEY", "key")
	t.Setenv(agent.TokenVariable, "token")
	lists := 0
	for _, node := range program(t).Model.Leaves(false) {
		words := strings.Fields(node.FullPath())[1:]
		if !slices.Contains([]string{"list", "requests", "grants", "calls", "providers", "polls", "log", "removed", "pending"}, node.Name) ||
			slices.ContainsFunc(node.Positional, func(arg *kong.Positional) bool { return arg.Required }) {
			continue
		}
		lists++
		var out, said bytes.Buffer
		if status := execute(t.Context(), append(words, "--url", server.URL), nil, &out, &said); status != command.ExitOK {
			t.Errorf("%s ends with %d: %s", node.FullPath(), status, said.String())
		}
		if strings.TrimSpace(out.String()) == "" || strings.HasPrefix(out.String(), "none\n") {
			t.Errorf("%s prints %q", node.FullPath(), out.String())
		}
	}
	if lists < 30 {
		t.Errorf("there are %d lists", lists)
	}
}
