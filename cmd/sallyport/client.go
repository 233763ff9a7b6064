package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"sallyport/api"
	apiclient "sallyport/client"
	"sallyport/internal/agent"
)

// client calls a server's HTTP API, and explains its refusals.
type client struct {
	apiclient.Client

	start  string            // what to do where nobody answers, if that is known
	fields map[string]string // what refusals call the fields of the API
}

// connect finds the server: by URL and key, or by the data folder in which a
// server on this machine tells both.
func (r *remote) connect() (*client, error) {
	at, key := r.URL, os.Getenv("SALLYPORT_API_KEY")
	if at == "" {
		e, err := readEndpoint(r.folder())
		if err != nil {
			return nil, err
		}
		at = e.URL
		if key == "" {
			key = e.APIKey
		}
	} else if gatewayOf(at) != strings.TrimRight(at, "/") { // of an agent; a person may mean another's
		return nil, notOrigin(at)
	}
	server, err := newClient(at, key)
	if err == nil {
		server.fields = r.fields
	}
	if err == nil && r.URL == "" {
		server.start = "start it with: " + r.hint("serve")
	}
	if err == nil && key == "" { // an agent's variables are no reason to act as a person
		if os.Getenv(agent.TokenVariable) != "" {
			return nil, fmt.Errorf("no API key for %s: people do this, and the session of %s may not; tell the user what waits", at, agent.TokenVariable)
		}
		return nil, fmt.Errorf("no API key for %s: set SALLYPORT_API_KEY to a key from `sallyport api-key create NAME` on its machine, or unset SALLYPORT_URL to reach the server of the data folder", at)
	}
	return server, err
}

// folder is the data folder of a server on this machine.
func (r *remote) folder() string { return cmp.Or(r.Data, dataFolder()) }

func newClient(at, key string) (*client, error) {
	// The URL of MCP clients is the one that people have at hand.
	base, err := url.Parse(strings.TrimSuffix(gatewayOf(at), "/"))
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("%q is no URL of a server; want something like http://127.0.0.1:8787", at)
	}
	if base.Path != "" {
		return nil, notOrigin(at)
	}
	return &client{Client: apiclient.Client{Base: base, Key: key, HTTP: &http.Client{
		Timeout: 2 * time.Minute,
		// The API never redirects, and what is sent may be a secret.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}, nil
}

// notOrigin refuses a URL with a path before a key is sent there: it is
// another's, or a connector's.
func notOrigin(at string) error {
	return wrongUse("--url (SALLYPORT_URL) is the gateway's address without a path, such as http://127.0.0.1:8787; %s has one", visible(at))
}

// isGateway asks without the key whether a gateway is at the URL.
func (c *client) isGateway(ctx context.Context) error {
	_, _, err := fetch(ctx, &client{Client: apiclient.Client{Base: c.Base, HTTP: c.HTTP}}, api.GetMe, api.None{})
	if p := new(problem); errors.As(err, &p) && p.Status == http.StatusUnauthorized && p.Code != "" {
		return nil
	}
	if none := new(nobody); errors.As(err, none) {
		return err
	}
	return fmt.Errorf("%s does not answer as a gateway does, so it is not sent the key; --url is the gateway's address, the connector's is --endpoint", c.Base)
}

// problem is a refusal in the words of the command line.
type problem struct{ api.Problem }

func (p *problem) Error() string {
	text := visible(p.Detail)
	if p.Field != "" && !strings.Contains(p.Detail, strings.TrimPrefix(p.Field, "/")) {
		text += " (" + visible(p.Field) + ")"
	}
	return text
}

// dispatch sends a request and returns an answer that is no refusal. Its body is
// the caller's to close.
func (c *client) dispatch(request *http.Request) (*http.Response, error) {
	response, err := c.Send(request)
	return response, c.explain(err)
}

// nobody is that nothing listens at the URL, so that nothing arrived.
type nobody struct{ error }

// explain has an error say what a person can do about it.
func (c *client) explain(err error) error {
	var refused *apiclient.Error
	switch {
	case errors.As(err, &refused):
		return c.refusal(refused)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nobody{fmt.Errorf("no server runs at %s any more; %s", c.Base, cmp.Or(c.start, "start it, or see that the URL is right"))}
	case errors.As(err, new(*url.Error)):
		return fmt.Errorf("the server does not answer; is it running? %w", err)
	}
	return err
}

// refusal is one in the words of the command line.
func (c *client) refusal(refused *apiclient.Error) error {
	p, path := &problem{refused.Problem}, refused.Request.URL.Path
	p.inWords(c.fields, path)
	if p.Code == "role_required" {
		p.Detail += " With a server of your own, start it with --local-admin or use an admin's API key in SALLYPORT_API_KEY."
	}
	if p.Code == "session_ended" && (strings.HasSuffix(path, "/stop") || strings.HasSuffix(path, "/fail")) {
		p.Detail = strings.Replace(p.Detail, ", and does not live again; mint a new one.", " already.", 1)
	}
	if id := strings.Split(path, "/"); p.Code == "invocation_not_found" && len(id) > 4 && len(id[4]) < 36 {
		p.Detail += " The whole id is needed."
	}
	if !strings.Contains(path, "/actions/") { // a place in params says which
		p.Field = strings.TrimPrefix(strings.TrimRight(p.Field, "/0123456789"), "/")
	}
	return p
}

func decode(raw json.RawMessage, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the server's answer is not understood; are server and command of one version? %w", err)
	}
	return nil
}
