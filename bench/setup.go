package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// connect makes the upstream a connector and mints the sessions. Its reads are
// allowed, its writes wait for a person.
func (g *gateway) connect(ctx context.Context, upstream string, sessions int) (target, error) {
	var connector struct {
		ID string `json:"id"`
	}
	err := g.api(ctx, "POST", "/api/v1/connectors", map[string]any{"name": "bench", "slug": "bench", "url": upstream}, &connector)
	if err != nil {
		return target{}, err
	}
	at, err := url.Parse(g.MCPURL)
	if err != nil {
		return target{}, err
	}
	to := target{name: "gateway", addr: at.Host, path: at.Path, prefix: "bench_", source: "connector:" + connector.ID, pid: g.PID}
	for range sessions {
		var session struct {
			Token string `json:"token"`
		}
		if err := g.api(ctx, "POST", "/api/v1/sessions", map[string]any{"kind": "interactive"}, &session); err != nil {
			return target{}, err
		}
		to.tokens = append(to.tokens, session.Token)
	}
	return to, nil
}

// allow lets all tools of the target run without being held.
func (g *gateway) allow(ctx context.Context, to target) error {
	return g.api(ctx, "PUT", "/api/v1/policy/modes/"+url.PathEscape(to.source+":*"), map[string]any{"mode": "allow"}, nil)
}

// approve approves a held call.
func (g *gateway) approve(ctx context.Context, invocation string) error {
	return g.api(ctx, "POST", "/api/v1/invocations/"+invocation+"/approve", map[string]any{}, nil)
}

func (g *gateway) api(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, g.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+g.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := g.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
