package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"sallyport/api"
	"sallyport/internal/agent"
)

// client speaks to a server's HTTP API.
type client struct {
	base *url.URL
	key  string
	http *http.Client

	start  string            // what to do where nobody answers, if that is known
	fields map[string]string // what refusals call the fields of the API
}

// answerLimit bounds what the client reads of one answer.
const answerLimit = 64 << 20

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
	return &client{base: base, key: key, http: &http.Client{
		Timeout: 2 * time.Minute,
		// The API never redirects, and what is sent may be a secret.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// notOrigin refuses a URL with a path before a key is sent there: it is
// another's, or a connector's.
func notOrigin(at string) error {
	return wrongUse("--url (SALLYPORT_URL) is the gateway's address without a path, such as http://127.0.0.1:8787; %s has one", visible(at))
}

// isGateway asks without the key whether a gateway is at the URL.
func (c *client) isGateway(ctx context.Context) error {
	_, err := (&client{base: c.base, http: c.http}).do(ctx, http.MethodGet, "/api/v1/me", nil, nil)
	if p := new(problem); errors.As(err, &p) && p.Status == http.StatusUnauthorized && p.Code != "" {
		return nil
	}
	if none := new(nobody); errors.As(err, none) {
		return err
	}
	return fmt.Errorf("%s does not answer as a gateway does, so it is not sent the key; --url is the gateway's address, the connector's is --endpoint", c.base)
}

// problem is an error as the API tells it.
type problem struct {
	Status     int    `json:"status"`
	Code       string `json:"code"`
	Detail     string `json:"detail"`
	Field      string `json:"field"`
	Invocation string `json:"invocation"`
}

func (p *problem) Error() string {
	text := visible(p.Detail)
	if p.Field != "" && !strings.Contains(p.Detail, strings.TrimPrefix(p.Field, "/")) {
		text += " (" + visible(p.Field) + ")"
	}
	return text
}

// do sends in, unless it is nil, and returns the body of the answer.
func (c *client) do(ctx context.Context, method, path string, query url.Values, in any) (json.RawMessage, error) {
	_, raw, err := c.ask(ctx, method, path, query, in)
	return raw, err
}

// ask is do with the status of the answer.
func (c *client) ask(ctx context.Context, method, path string, query url.Values, in any) (status int, raw json.RawMessage, err error) {
	response, err := c.send(ctx, method, path, query, in)
	if err != nil {
		return 0, nil, err
	}
	return whole(response)
}

// whole is an answer's status and body.
func whole(response *http.Response) (status int, raw json.RawMessage, err error) {
	defer response.Body.Close()
	if raw, err = io.ReadAll(io.LimitReader(response.Body, answerLimit)); err != nil {
		return 0, nil, fmt.Errorf("reading the server's answer: %w", err)
	}
	return response.StatusCode, raw, nil
}

// send sends in, unless it is nil, and returns an answer that is no refusal.
// Its body is the caller's to close.
func (c *client) send(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	request, err := c.request(ctx, method, path, query, in)
	if err != nil {
		return nil, err
	}
	return c.dispatch(request)
}

// dispatch sends a request that was made by request.
func (c *client) dispatch(request *http.Request) (*http.Response, error) {
	response, err := c.http.Do(request)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil, nobody{fmt.Errorf("no server runs at %s any more; %s", c.base, cmp.Or(c.start, "start it, or see that the URL is right"))}
		}
		return nil, fmt.Errorf("the server does not answer; is it running? %w", err)
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return nil, fmt.Errorf("reading the server's answer: %w", err)
	}
	return nil, c.refusal(request, response, raw)
}

// nobody is that nothing listens at the URL, so that nothing arrived.
type nobody struct{ error }

// request is a request with in as its body, unless it is nil.
func (c *client) request(ctx context.Context, method, path string, query url.Values, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, body)
	if err != nil {
		return nil, err
	}
	if len(query) > 0 {
		request.URL.RawQuery = query.Encode()
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

func (c *client) refusal(request *http.Request, response *http.Response, raw []byte) error {
	p := new(problem)
	if json.Unmarshal(raw, p) != nil || p.Detail == "" {
		return fmt.Errorf("the server answered %s, which is no answer of Sallyport; check the URL", response.Status)
	}
	p.inWords(c.fields, request.URL.Path)
	if p.Code == "role_required" {
		p.Detail += " With a server of your own, start it with --local-admin or use an admin's API key in SALLYPORT_API_KEY."
	}
	if what := request.URL.Path; p.Code == "session_ended" && (strings.HasSuffix(what, "/stop") || strings.HasSuffix(what, "/fail")) {
		p.Detail = strings.Replace(p.Detail, ", and does not live again; mint a new one.", " already.", 1)
	}
	if id := strings.Split(request.URL.Path, "/"); p.Code == "invocation_not_found" && len(id) > 4 && len(id[4]) < 36 {
		p.Detail += " The whole id is needed."
	}
	if !strings.Contains(request.URL.Path, "/actions/") { // a place in params says which
		p.Field = strings.TrimPrefix(strings.TrimRight(p.Field, "/0123456789"), "/")
	}
	return p
}

// read gets path into out.
func (c *client) read(ctx context.Context, path string, query url.Values, out any) (json.RawMessage, error) {
	raw, err := c.do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	return raw, decode(raw, out)
}

// change sends in with the method and reads the answer, if any, into out.
func (c *client) change(ctx context.Context, method, path string, in, out any) (json.RawMessage, error) {
	raw, err := c.do(ctx, method, path, nil, in)
	if err != nil || len(raw) == 0 || out == nil {
		return raw, err
	}
	return raw, decode(raw, out)
}

func decode(raw json.RawMessage, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the server's answer is not understood; are server and command of one version? %w", err)
	}
	return nil
}

// list is how the API answers lists.
type list[T any] = api.List[T]
