package conformance_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Who gets through the doors that the API's own table does not have: /mcp is
// for sessions alone, and probes and metrics are for anybody who reaches the
// port. Every route of the API is tried in package dashboard.
func TestDoorsBesideTheAPI(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	s, gone := g.mint(nil), g.mint(nil)
	g.must("DELETE", "/api/v1/sessions/"+gone.ID, nil, nil)
	var member struct {
		Key string `json:"key"`
	}
	g.must("POST", "/api/v1/api-keys", map[string]any{"name": "reader", "role": "member"}, &member)
	if got := g.knock("GET", "/api/v1/capabilities//notes", g.APIKey, ""); got != http.StatusBadRequest {
		t.Errorf("a path that lacks a part: %d", got)
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	credentials := map[string]string{
		"nothing": "", "garbage": "garbage", "a session": s.Token, "a revoked session": gone.Token, "a forged session": s.Token[:len(s.Token)-2] + "AA",
		"an admin's key": g.APIKey, "a member's key": member.Key,
	}
	for _, door := range []struct {
		method, path, body string
		open               map[string]bool // nil: to everybody
		shut               int
	}{
		{"POST", "/mcp", initialize, map[string]bool{"a session": true}, http.StatusUnauthorized},
		{"GET", "/mcp", "", map[string]bool{}, http.StatusUnauthorized},
		{"DELETE", "/mcp", "", map[string]bool{}, http.StatusUnauthorized},
		{"GET", "/metrics", "", nil, 0},
		{"GET", "/healthz", "", nil, 0},
		{"GET", "/readyz", "", nil, 0},
	} {
		for name, credential := range credentials {
			got := g.knock(door.method, door.path, credential, door.body)
			may := door.open == nil || door.open[name]
			if door.path == "/mcp" && door.method != "POST" && name == "a session" {
				may = got != http.StatusUnauthorized && got != http.StatusForbidden // what it may get without a session id is another question
				got = http.StatusOK
			}
			switch {
			case may && got != http.StatusOK:
				t.Errorf("%s %s with %s: %d", door.method, door.path, name, got)
			case !may && got != door.shut:
				t.Errorf("%s %s lets %s through: %d", door.method, door.path, name, got)
			}
		}
	}
}

// knock returns the status of a request.
func (g *gateway) knock(method, path, credential, body string) int {
	g.t.Helper()
	request, err := http.NewRequestWithContext(g.t.Context(), method, g.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Content-Type", "application/json")
	if credential != "" {
		request.Header.Set("Authorization", fmt.Sprintf("Bearer %s", credential))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
