package dashboard_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/internal/token"
)

const (
	org    = "org1"
	public = "http://gate.test:8787"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// house is a server with an owner, an admin, a member, and a session of each
// kind of credential.
type house struct {
	t      *testing.T
	srv    *dashboard.Server
	m      *memory
	gate   *gate
	hints  *hints
	clock  *clock
	log    *bytes.Buffer
	signer *token.Signer
	owner  string // API keys
	admin  string
	member string
	agent  string // session token
	other  string // of another session
}

func newHouse(t *testing.T, change ...func(*dashboard.Config)) *house {
	t.Helper()
	h := &house{t: t, clock: &clock{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, log: &bytes.Buffer{}, hints: &hints{subs: map[int]func(action.Hint){}}}
	h.m = newMemory(h.clock.now)
	h.m.document = []byte("{}")
	h.signer, _ = token.NewSigner(make([]byte, token.KeySize))
	h.gate = &gate{m: h.m, hints: h.hints, params: map[string]string{}}
	c := dashboard.Config{
		Gate: h.gate, Decider: decider{}, Hints: h.hints, Sessions: h.m, SessionLife: h.m, Withdrew: h.withdrew, Secrets: h.m, Connectors: h.m, Prober: h.m, SignIns: signIns{h.m}, Integrations: rows{h.m}, Connections: services{h.m}, Providers: providers(), Reviews: h.m,
		Overrides: h.m, Capabilities: h.m, Gates: h.m, Quotas: h.m, Settings: h.m, History: h.m, Grants: h.m, Requests: h.m,
		Invocations: h.m, Statistics: h.m, Desk: desk{h.m}, Audit: h.m, Users: h.m, APIKeys: h.m, Logins: h.m, Tokens: h.signer, Snapshot: h.m.snapshot, RequestGrant: h.requestGrant,
		Setups: h.m, Automations: inbound{h.m}, Triggers: inbound{h.m}, Deliveries: inbound{h.m}, Runs: inbound{h.m}, Notify: notices{h.m}, TestNotify: notices{h.m}.test, Vault: safe{}, JSON: redact.JSON{},
		Env: h.m, Uploads: h.m, Files: h.m,
		EventProviders: eventProviders(), Times: hourly,
		SealSecret: func(_, _ string, v []byte) ([]byte, error) { return append([]byte("sealed:"), v...), nil },
		Revealed:   h.m.reveal,
		Rotate:     h.m.rotate,
		Events:     h.m.events,
		Hash:       func(v []byte) string { return hexOf(token.HashSecret(string(v))) },
		PublicURL:  public, Now: h.clock.now, Log: slog.New(slog.NewTextHandler(h.log, nil)),
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	if h.srv, err = dashboard.New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.srv.Close)
	h.owner, h.admin, h.member = h.key("ada", action.RoleOwner), h.key("ben", action.RoleAdmin), h.key("cyd", action.RoleMember)
	h.agent, h.other = h.session("s1"), h.session("s2")
	_ = h.m.CreateConnector(t.Context(), action.Connector{ID: "c1", Organization: org, Name: "GitHub", Slug: "github", URL: "https://mcp.example.com/mcp", Enabled: true, Revision: 1}, nil, "u-ada")
	h.m.automations = append(h.m.automations, event.Automation{ID: "nightly", Organization: org, Name: "nightly-triage", Enabled: true, Instructions: "Sort the inbox.", CreatedBy: "u-ada"})
	return h
}

// run adds a queued run of the automation, with its event, and returns its id.
func (h *house) run(id string) string {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.m.contexts == nil {
		h.m.contexts = map[string][]byte{}
	}
	h.m.records = append(h.m.records, event.Record{
		ID: "event-" + id, Organization: org, Trigger: "trigger-1", Automation: "nightly", Provider: "github", Type: "issue", Key: id,
		Title: "Bug", Run: id, RunStatus: event.RunQueued, CreatedAt: h.clock.now(), Shown: []byte(`{"token":"[redacted]"}`),
	})
	h.m.contexts["event-"+id] = []byte(org + "/events/event-" + id + `/sealed:{"token":"whole","n":9007199254740993}`)
	h.m.runs = append(h.m.runs, event.Run{ID: id, Organization: org, Automation: "nightly", Event: "event-" + id, Trigger: "trigger-1", Status: event.RunQueued, Title: "Bug", CreatedAt: h.clock.now()})
	return id
}

// key adds a person and returns an API key of theirs.
func (h *house) key(name string, role action.Role) string {
	_ = h.m.CreateUser(context.Background(), action.User{ID: "u-" + name, Organization: org, Name: name, Role: role, CreatedAt: h.clock.now()}, "u-ada")
	id, key, hash := token.NewAPIKey()
	_ = h.m.CreateAPIKey(context.Background(), action.APIKey{ID: id, Organization: org, Name: name, User: "u-" + name, Role: role}, hexOf(hash))
	return key
}

// workerKey returns a key for workers of somebody who is there.
func (h *house) workerKey(user string) string {
	id, key, hash := token.NewAPIKey()
	_ = h.m.CreateAPIKey(context.Background(), action.APIKey{ID: id, Organization: org, Name: "worker", User: user, Role: action.RoleMember, Scope: action.ScopeRuns}, hexOf(hash))
	return key
}

// lesserKey returns a key of somebody who is there, of a role of its own.
func (h *house) lesserKey(user string, role action.Role) string {
	id, key, hash := token.NewAPIKey()
	_ = h.m.CreateAPIKey(context.Background(), action.APIKey{ID: id, Organization: org, Name: "lesser", User: user, Role: role}, hexOf(hash))
	return key
}

func (h *house) session(id string) string {
	_, _ = h.m.CreateSession(context.Background(), action.Session{
		ID: id, Organization: org, Kind: action.Interactive, Type: action.TypeCoding, Title: "Work on " + id, CreatedAt: h.clock.now(),
	})
	return h.signer.Mint(id)
}

// pending adds a held call of a session and returns its id.
func (h *house) pending(session string) string { return h.held(session, "create") }

// heldDrifted is a held call of a tool that is not as it was reviewed.
func (h *house) heldDrifted() string { return h.held("s1", "drifted") }

func (h *house) held(session, name string) string {
	out, err := h.gate.Call(context.Background(), &action.Call{
		Session: action.Session{ID: session, Organization: org}, Source: "connector:c1", Action: name,
		Params: json.RawMessage(`{"title":"Bug","n":9007199254740993,"password":"hunter2"}`),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out.Invocation.ID
}

// reply is an answer that was read.
type reply struct {
	*http.Response
	body string
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(r.body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("answer %d is no JSON object: %v\n%s", r.StatusCode, err, r.body)
	}
	return v
}

// do sends a request with a bearer credential, if any.
func (h *house) do(credential, method, path, body string, headers ...string) reply {
	h.t.Helper()
	return h.doFor(5*time.Second, credential, method, path, body, headers...)
}

// doFor is do, which gives up after a while: a stream would go on.
func (h *house) doFor(patience time.Duration, credential, method, path, body string, headers ...string) reply {
	h.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, path, reader)
	r.Host = "gate.test:8787"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.srv.Handler().ServeHTTP(w, r)
	res := w.Result()
	return reply{res, w.Body.String()}
}

// want sends a request and fails unless it is answered with the status.
func (h *house) want(status int, credential, method, path, body string, headers ...string) reply {
	h.t.Helper()
	r := h.do(credential, method, path, body, headers...)
	if r.StatusCode != status {
		h.t.Fatalf("%s %s answered %d, want %d\n%s", method, path, r.StatusCode, status, r.body)
	}
	return r
}

// problem is want, of an error with the code.
func (h *house) problem(status int, code, credential, method, path, body string, headers ...string) map[string]any {
	h.t.Helper()
	r := h.want(status, credential, method, path, body, headers...)
	if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
		h.t.Errorf("%s %s: an error has Content-Type %q", method, path, ct)
	}
	p := r.json(h.t)
	if p["code"] != code || p["detail"] == "" || p["status"] != json.Number(fmt.Sprint(status)) {
		h.t.Errorf("%s %s: problem %v, want code %s", method, path, p, code)
	}
	return p
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func (h *house) withdrew(calls []action.Invocation) {
	for _, inv := range calls {
		h.hints.Publish(action.Hint{Kind: action.HintInvocation, Organization: inv.Organization, Session: inv.Session, Invocation: inv.ID, Status: inv.Status})
	}
}
