package main

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// inBrowser says where a person goes on: he signs in at the service, and only
// the browser that began it can end it.
func (c *integrationConnect) inBrowser(ctx context.Context, std *stdio, server *client, p *api.Provider, kind action.IntegrationKind) error {
	if std.given() {
		return wrongUse("%s is connected with %s in the browser, and no value is read for it; leave out what comes on standard input, or say another --kind of: %s", p.ID, kind, providerKinds(p))
	}
	at, err := c.public()
	if err != nil {
		return err
	}
	page := at + "/integrations/" + url.PathEscape(p.ID)
	raw, err := json.Marshal(map[string]any{"provider": p.ID, "kind": kind, "page": page})
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		if first := c.first(ctx, server, p.ID, kind); first != "" {
			said("the gateway is not registered there yet; first: " + first)(w)
		}
		said(p.ID + " is connected with " + string(kind) + " in a browser, by somebody who is signed in to Sallyport there. Open:")(w)
		said(page)(w)
	})
}

// first is the command that registers the gateway where this takes it. Empty: it
// is registered, or whoever asks may not know.
func (c *integrationConnect) first(ctx context.Context, server *client, provider string, kind action.IntegrationKind) string {
	apps, _, err := fetch(ctx, server, api.ListApps, api.None{})
	if err != nil {
		return ""
	}
	has := func(id string, with func(a *action.ProviderApp) bool) bool {
		return slices.ContainsFunc(apps.Items, func(a action.ProviderApp) bool { return a.Provider == id && with(&a) })
	}
	nango := string(action.BrokerNango)
	switch {
	case c.Nango && !has(nango, func(*action.ProviderApp) bool { return true }):
		return c.hint("integration", "app", "set", nango, "--api-key-stdin")
	case !c.Nango && kind == action.KindApp && !has(provider, func(a *action.ProviderApp) bool { return a.AppID != "" }):
		return c.hint("integration", "app", "set", provider, "--app-id", "N", "--slug", "NAME", "--private-key", "FILE")
	case !c.Nango && kind == action.KindOAuth2 && !has(provider, func(a *action.ProviderApp) bool { return a.ClientID != "" }):
		return c.hint("integration", "app", "set", provider, "--client-id", "ID", "--client-secret-stdin")
	}
	return ""
}

// pipePatience is how long a pipe is waited for in which nothing may ever come.
const pipePatience = 200 * time.Millisecond

// given reports whether somebody passes a value on standard input. A terminal
// is not asked.
func (s *stdio) given() bool {
	if s.In == nil {
		return false
	}
	if f, ok := s.In.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return false
		}
	}
	got := make(chan bool, 1)
	go func() {
		n, _ := io.ReadFull(s.In, make([]byte, 1)) // nothing more is asked than whether there is something
		got <- n > 0
	}()
	select {
	case any := <-got:
		return any
	case <-time.After(pipePatience):
		return false
	}
}

// public is where browsers reach the server.
func (r *remote) public() (string, error) {
	if r.URL != "" {
		return strings.TrimSuffix(r.URL, "/"), nil
	}
	e, err := readEndpoint(r.folder())
	return strings.TrimSuffix(e.MCPURL, "/mcp"), err
}
