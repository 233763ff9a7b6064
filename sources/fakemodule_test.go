package sources_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// desk is a catalog with one small module, and the service that it speaks to.
type desk struct {
	*sources.Catalog
	t    *testing.T
	base *url.URL
	pool *outbound.Pool

	mu         sync.Mutex
	connectors []action.Connector
	all        []action.Integration
	sessions   map[string]action.Session
	tokens     map[string]string // by integration
	next       map[string]string // what a refused token is renewed to
	lost       error             // what renewing ends with
	away       error             // of sessions and integrations
	reads      int               // of integrations
	heard      []string          // at the service: token and body
	refused    []string          // integration, token and why
	hints      int
	last       *sources.Conn // that the module had
	left       time.Duration // that it had, about
}

// newDesk opens the catalog; change may alter the module.
func newDesk(t *testing.T, change func(m *sources.Module)) *desk {
	t.Helper()
	d := &desk{t: t, sessions: map[string]action.Session{}, tokens: map[string]string{}, next: map[string]string{}, pool: outbound.New(outbound.Config{})}
	server := httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(server.Close)
	t.Cleanup(d.pool.Close)
	d.base, _ = url.Parse(server.URL)
	m := d.module()
	if change != nil {
		change(m)
	}
	cat, err := sources.New(d.config(m))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cat.Close() })
	d.Catalog = cat
	return d
}

func (d *desk) config(modules ...*sources.Module) sources.Config {
	return sources.Config{
		Connectors: func(context.Context, string) ([]action.Connector, error) { return d.connectors, nil },
		Open: func(c action.Connector) (sources.Source, error) {
			return &origin{con: c, tools: []string{plain("add")}}, nil
		},
		Modules: modules, Integrations: d.integrations, Session: d.session, Connect: d.connect, CredentialRefused: d.renew,
		Hints: d, Log: slog.New(slog.DiscardHandler),
	}
}

// module keeps notes. Its service takes a note for whoever the token is of.
func (d *desk) module() *sources.Module {
	return &sources.Module{
		ID: "notes", Title: "Notes", BaseURL: "https://notes.example",
		Needs: []sources.Need{{Kind: action.KindAPIKey}}, Settings: json.RawMessage(`{"type":"object","properties":{"wide":{"type":"boolean"}},"additionalProperties":false}`),
		Actions: []sources.ModuleAction{{
			Name: "add", Title: "Add a note", Description: "Adds a note <b>.", Risk: action.RiskWrite, AsUser: true,
			Input:     json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
			Summarize: func(params json.RawMessage) string { return "Add " + string(params) },
			Examples:  []sources.Example{{Note: "A note", Params: json.RawMessage(`{"text":"x"}`)}},
			Run:       d.run,
		}, {
			Name: "list", Description: "Lists notes.", Risk: action.RiskRead, Idempotent: true, Input: json.RawMessage(`{"type":"object"}`), Run: d.run,
		}},
	}
}

func (d *desk) run(ctx context.Context, c *sources.Conn, params json.RawMessage) (json.RawMessage, error) {
	d.mu.Lock()
	d.last = c
	if end, ok := ctx.Deadline(); ok {
		d.left = time.Until(end)
	}
	d.mu.Unlock()
	path := "/notes"
	if bytes.Contains(params, []byte("upwards")) {
		path += "/.."
	}
	resp, err := c.HTTP.Do(ctx, &outbound.Request{Method: "POST", Path: path, Header: http.Header{"Authorization": {"Bearer " + c.Token}}, Body: params})
	if err != nil {
		return nil, err
	}
	switch resp.Status {
	case 200:
		return resp.Body, nil
	case 401:
		return nil, &sources.Refusal{Code: "bad_token", Status: 401, Message: "The token is bad.", Credential: true, Detail: "no " + c.Token}
	}
	return nil, &sources.Refusal{Status: resp.Status, Message: "There is no note \u202e" + string(resp.Body) + "; list them."}
}

// serve refuses tokens that begin with "old", and repeats what it was told.
func (d *desk) serve(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	body := make([]byte, 200)
	n, _ := r.Body.Read(body)
	d.mu.Lock()
	d.heard = append(d.heard, token+" "+string(body[:n]))
	d.mu.Unlock()
	switch {
	case strings.HasPrefix(token, "old"):
		w.WriteHeader(401)
	case strings.Contains(string(body[:n]), "missing"):
		w.WriteHeader(404)
		_, _ = w.Write([]byte(strings.Repeat(token+" ", bytes.Count(body, []byte("missing")))))
	case strings.Contains(string(body[:n]), "broken"):
		_, _ = w.Write([]byte(`[1]`))
	default:
		answer, _ := json.Marshal(map[string]string{
			"plain": token, "base64": base64.StdEncoding.EncodeToString([]byte(token)), "url": url.QueryEscape(token), "did": string(body[:n]),
		})
		_, _ = w.Write(answer)
	}
}

func (d *desk) Publish(action.Hint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hints++
}

func (d *desk) Subscribe(func(action.Hint)) func() { return func() {} }

func (d *desk) integrations(_ context.Context, organization string) ([]action.Integration, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if organization != "o" {
		return nil, d.away
	}
	return slices.Clone(d.all), d.away
}

func (d *desk) session(_ context.Context, id string) (*action.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return new(d.sessions[id]), d.away
}

func (d *desk) connect(_ context.Context, in action.Integration) (*sources.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	token, ok := d.tokens[in.ID]
	if !ok {
		return nil, action.Errorf(action.ErrInvalid, "credential_lost", "Connect %s again.", in.Name)
	}
	return &sources.Conn{Kind: in.Kind, Token: token, HTTP: d.pool.Client(in.ID, d.base, token), Settings: in.Settings, Account: in.Account}, nil
}

func (d *desk) renew(_ context.Context, in action.Integration, token, why string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = append(d.refused, fmt.Sprintf("%s %s: %s", in.ID, token, why))
	next, ok := d.next[token]
	if ok {
		d.tokens[in.ID] = next
	}
	return ok, d.lost
}

// add connects the organization to the service; the token says whose it is.
func (d *desk) add(id string, age int, changes ...func(in *action.Integration)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := action.Integration{
		ID: id, Organization: "o", Provider: "notes", Kind: action.KindAPIKey, Name: "Name of " + id, AccountName: "Account of " + id,
		Visibility: action.VisibleOrganization, Status: action.IntegrationActive, Revision: 1, CreatedBy: "admin", CreatedAt: day(-age),
	}
	for _, change := range changes {
		change(&in)
	}
	d.all, d.tokens[id] = append(d.all, in), "token-of-"+id
}

// change alters one integration, and has it read again.
func (d *desk) change(id string, f func(in *action.Integration)) {
	d.mu.Lock()
	for i := range d.all {
		if d.all[i].ID == id {
			f(&d.all[i])
		}
	}
	d.mu.Unlock()
	d.Invalidate("o")
}

func (d *desk) connector(id, slug string, age int) {
	d.connectors = append(d.connectors, action.Connector{ID: id, Organization: "o", Name: id, Slug: slug, Enabled: true, Revision: 1, CreatedAt: day(-age)})
}

// names are those that agents see, by source and action.
func (d *desk) names() map[string]string {
	d.t.Helper()
	d.Invalidate("o")
	list, _, err := d.List(d.t.Context(), "o")
	if err != nil {
		d.t.Fatal(err)
	}
	names := map[string]string{}
	for _, a := range list {
		names[a.Key().String()] = a.Tool
	}
	return names
}

func (d *desk) find(name string) *action.Action {
	d.t.Helper()
	a, err := d.Find(d.t.Context(), "o", "notes", name, true)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// agent is the caller of a session.
type agent struct {
	action.Caller
	session  string
	approved string // integration

	production bool // the call was decided as one that changes production
}

func (a agent) Session() string { return a.session }

func (a agent) Integration() string { return a.approved }

func (a agent) Production() bool { return a.production }

// call has a session with the connections call the action.
func (d *desk) call(name, params string, connections ...string) (action.Result, error) {
	d.t.Helper()
	return d.callAs(action.Session{Kind: action.Unattended, Connections: connections}, name, params)
}

func (d *desk) callAs(s action.Session, name, params string) (action.Result, error) {
	d.t.Helper()
	d.mu.Lock()
	s.ID, s.Organization = "s1", "o"
	d.sessions["s1"] = s
	d.heard, d.refused = nil, nil
	d.mu.Unlock()
	return d.find(name).Run(d.t.Context(), json.RawMessage(params), agent{session: "s1"})
}

// said is the text of a result.
func said(t *testing.T, res action.Result) string {
	t.Helper()
	var body struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if err := json.Unmarshal(res.Body, &body); err != nil || len(body.Content) != 1 || body.Content[0].Type != "text" || body.IsError != res.IsError {
		t.Fatalf("the result is %s: %v", res.Body, err)
	}
	return body.Content[0].Text
}
