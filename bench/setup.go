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

// connect makes the upstream a connector, allows its tools and mints the
// sessions.
func (g *gateway) connect(ctx context.Context, upstream string, sessions int) (target, error) {
	var connector struct {
		ID string `json:"id"`
	}
	err := g.api(ctx, "POST", "/api/v1/connectors", map[string]any{"name": "bench", "slug": "bench", "url": upstream}, &connector)
	if err != nil {
		return target{}, err
	}
	key := url.PathEscape("connector:" + connector.ID + ":*")
	if err := g.api(ctx, "PUT", "/api/v1/policy/modes/"+key, map[string]any{"mode": "allow"}, nil); err != nil {
		return target{}, err
	}
	at, err := url.Parse(g.MCPURL)
	if err != nil {
		return target{}, err
	}
	to := target{name: "gateway", addr: at.Host, path: at.Path, prefix: "bench_", pid: g.PID}
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
	response, err := http.DefaultClient.Do(request)
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
