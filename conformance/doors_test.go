package conformance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Who gets through the doors that the API's own table does not have: /mcp is
// for sessions alone, that of a run too, and probes, metrics and webhooks are for
// anybody who reaches the port; no credential makes up for a signature. Every
// route of the API is tried in package dashboard, and here those of workers.
func TestDoorsBesideTheAPI(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	s, gone := g.mint(nil), g.mint(nil)
	g.must("DELETE", "/api/v1/sessions/"+gone.ID, nil, nil)
	var member, worker struct {
		Key string `json:"key"`
	}
	g.must("POST", "/api/v1/api-keys", map[string]any{"name": "reader", "role": "member"}, &member)
	g.must("POST", "/api/v1/api-keys", map[string]any{"name": "worker", "scope": "runs"}, &worker)
	r := g.gitHub("triage")
	working, over := g.claimed(r, 1), g.claimed(r, 2)
	g.as(over.Session.Token).must("POST", runsPath+"/"+over.Run.ID+"/finish", map[string]any{"status": "succeeded"}, nil)
	if got := g.knock("GET", "/api/v1/capabilities//notes", g.APIKey, ""); got != http.StatusBadRequest {
		t.Errorf("a path that lacks a part: %d", got)
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	credentials := map[string]string{
		"nothing": "", "garbage": "garbage", "a session": s.Token, "a revoked session": gone.Token, "a forged session": s.Token[:len(s.Token)-2] + "AA",
		"an admin's key": g.APIKey, "a member's key": member.Key, "a worker's key": worker.Key,
		"a run's session": working.Session.Token, "the session of a run that ended": over.Session.Token,
	}
	sessions, nobody := map[string]bool{"a session": true, "a run's session": true}, map[string]bool{}
	workers := map[string]bool{"a worker's key": true, "an admin's key": true}
	holders := map[string]bool{"a worker's key": true, "an admin's key": true, "a run's session": true}
	known := map[string]bool{"a session": true, "a run's session": true, "a worker's key": true, "an admin's key": true, "a member's key": true}
	forbidden := func(name string) int {
		if known[name] {
			return http.StatusForbidden
		}
		return http.StatusUnauthorized
	}
	renewal := fmt.Sprintf(`{"claim_id":%q}`, working.Claim)
	for _, door := range []struct {
		path, body string
		open       map[string]bool
		answer     int
	}{
		{runsPath + "/claim", `{"automation":"triage"}`, workers, http.StatusNoContent},
		{runsPath + "/" + working.Run.ID + "/renew", renewal, holders, http.StatusOK},
		{runsPath + "/" + working.Run.ID + "/cancel", `{"reason":`, map[string]bool{"an admin's key": true}, http.StatusBadRequest},
		{outboxPath + "/none/redrive", "", map[string]bool{"an admin's key": true}, http.StatusNotFound},
	} {
		for name, credential := range credentials {
			got, want := g.knock("POST", door.path, credential, door.body), forbidden(name)
			if door.open[name] {
				want = door.answer
			}
			if got != want {
				t.Errorf("POST %s with %s: %d, not %d", door.path, name, got, want)
			}
		}
	}
	for _, door := range []struct {
		method, path, body string
		open               map[string]bool // nil: to everybody
		shut               int
	}{
		{"POST", "/mcp", initialize, sessions, http.StatusUnauthorized},
		{"GET", "/mcp", "", nobody, http.StatusUnauthorized},
		{"DELETE", "/mcp", "", nobody, http.StatusUnauthorized},
		{"GET", "/webhooks/direct/github", "", nobody, http.StatusNotFound}, // no secret was given for it
		{"GET", "/webhooks/direct/github/" + r.ID, "", nil, 0},
		{"POST", "/webhooks/direct/github", "{}", nobody, http.StatusUnauthorized},
		{"POST", "/webhooks/direct/github/" + r.ID, "{}", nobody, http.StatusUnauthorized},
		{"POST", "/webhooks/nango", "{}", nobody, http.StatusUnauthorized},
		{"POST", "/webhooks/custom/none", "{}", nobody, http.StatusNotFound},
		{"GET", "/webhooks/automation/none", "", nobody, http.StatusNotFound},
		{"GET", "/metrics", "", nil, 0},
		{"GET", "/healthz", "", nil, 0},
		{"GET", "/readyz", "", nil, 0},
	} {
		for name, credential := range credentials {
			got := g.knock(door.method, door.path, credential, door.body)
			may := door.open == nil || door.open[name]
			if door.path == "/mcp" && door.method != "POST" && sessions[name] {
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

// claimedRun is a run as its worker gets it.
type claimedRun struct {
	Claim   string `json:"claim_id"`
	Run     runRow
	Event   struct{ Context json.RawMessage }
	Session struct{ ID, Token string }
}

// claimed has the nth issue start a run, and claims it.
func (g *gateway) claimed(r trigger, n int) (c claimedRun) {
	g.t.Helper()
	d, _ := r.issue(n)
	d.taken(g.t, r.at(g))
	g.await("a run to claim", func() bool {
		got := g.do("POST", runsPath+"/claim", nil)
		return got.Status == http.StatusOK && json.Unmarshal(got.Body, &c) == nil
	})
	return c
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
