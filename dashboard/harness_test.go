package dashboard_test

import (
	"bytes"
	"context"
	"database/sql"
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
	"sallyport/dashboard/page"
	"sallyport/dashboard/routes"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
	"sallyport/internal/token"
	"sallyport/internal/vault"
	"sallyport/store"
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

// house is a server over a real store, with an owner, an admin, a member, and a
// session of each kind of credential. What lies outside of the gateway (the
// servers of connectors, services and their sign-ins) is played.
type house struct {
	t      *testing.T
	srv    *dashboard.Server
	db     *store.DB
	sql    *sql.DB // the same rows, see exec
	vault  *vault.Vault
	gate   *gate
	out    *outside
	files  files
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
	return newHouseOf(t, 8*time.Hour, change...)
}

// newHouseOf is newHouse, in which logins end that are unused for so long.
func newHouseOf(t *testing.T, loginIdle time.Duration, change ...func(*dashboard.Config)) *house {
	t.Helper()
	h := &house{t: t, clock: &clock{t: start}, log: &bytes.Buffer{}, hints: &hints{subs: map[int]func(action.Hint){}}, files: newFiles()}
	f := h.openRows(loginIdle)
	h.owner, h.admin, h.member = f.owner, f.admin, f.member
	h.signer = must(token.NewSigner(make([]byte, token.KeySize)))
	h.agent, h.other = h.signer.Mint("s1"), h.signer.Mint("s2")
	h.vault = must(vault.New(make([]byte, vault.KeySize)))
	h.out = &outside{db: h.db, document: []byte("{}")}
	h.openGate()
	db := h.db
	c := dashboard.Config{
		Gate: h.gate, Decide: decider{db}.Decide, Hints: h.hints, Snapshot: h.snapshot, RequestGrant: h.requestGrant,
		People: db, Sessions: db, Calls: db, Policy: db, Sources: db, Inbound: db, Models: db, Workspaces: db, Repositories: noRepositories{},
		Withdrew: h.withdrew, TestNotify: h.testNotify, Connectors: signIns{h.out}, Connections: services{h.out}, Providers: providers(),
		Files: h.files, Tokens: h.signer, Vault: h.vault, JSON: &redact.JSON{},
		EventProviders: eventProviders(), Times: hourly,
		SealSecret: h.sealSecret, VerifyAudit: h.verifyAudit, Rotate: rotate,
		LoginIdle: loginIdle, PublicURL: public, Now: h.clock.now, Log: slog.New(slog.NewTextHandler(h.log, nil)),
	}
	for _, f := range change {
		f(&c)
	}
	h.srv = must(dashboard.New(c, routes.Mount, page.Mount))
	t.Cleanup(h.srv.Close)
	return h
}

// noRepositories reads no repository.
type noRepositories struct{}

func (noRepositories) ReadRepository(context.Context, *action.Repository) (string, error) {
	return "main", nil
}

func (noRepositories) RepositoriesOf(_ context.Context, in action.Integration) ([]action.Repository, error) {
	return nil, action.NewError("repository_unlisted", in.Name)
}

func (noRepositories) RepositoryHost(*action.Integration) string { return "" }

// key adds a person and returns an API key of theirs.
func (h *house) key(name string, role action.Role) string {
	h.t.Helper()
	return must(addPerson(h.t.Context(), h.db, name, role))
}

// addKey adds an API key and returns it.
func (h *house) addKey(k action.APIKey) string {
	h.t.Helper()
	id, key, hash := token.NewAPIKey()
	k.ID, k.Organization = id, org
	if err := h.db.CreateAPIKey(h.t.Context(), k, hexOf(hash)); err != nil {
		h.t.Fatal(err)
	}
	return key
}

// workerKey returns a key for workers of somebody who is there.
func (h *house) workerKey(user string) string {
	h.t.Helper()
	return h.addKey(action.APIKey{Name: "worker", User: user, Role: action.RoleMember, Scope: action.ScopeRuns})
}

// lesserKey returns a key of somebody who is there, of a role of its own.
func (h *house) lesserKey(user string, role action.Role) string {
	h.t.Helper()
	return h.addKey(action.APIKey{Name: "lesser", User: user, Role: role})
}

func (h *house) session(id string) string {
	h.t.Helper()
	h.mint(coding(id))
	return h.signer.Mint(id)
}

// mint adds a session.
func (h *house) mint(s action.Session) {
	h.t.Helper()
	if s.CreatedBy == "" {
		s.CreatedBy = "u-ada"
	}
	if _, err := h.db.CreateSession(h.t.Context(), s); err != nil {
		h.t.Fatal(err)
	}
}

// pending adds a held call of a session and returns its id.
func (h *house) pending(session string) string { return h.held(session, "create") }

// heldDrifted is a held call of a tool that is not as it was reviewed.
func (h *house) heldDrifted() string { return h.held("s1", "drifted") }

func (h *house) held(session, name string) string {
	h.t.Helper()
	h.gate.asked++
	return h.holds(session, name, fmt.Sprintf(`{"title":"Bug","n":9007199254740993,"password":"hunter2","ref":%d}`, h.gate.asked))
}

// holds adds a held call with params.
func (h *house) holds(session, name, params string) string {
	h.t.Helper()
	out, err := h.gate.Gate.Call(h.t.Context(), &action.Call{
		Session: must(h.db.Session(h.t.Context(), session)), Source: "connector:c1", Action: name, Params: json.RawMessage(params),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return out.Invocation.ID
}

// run adds a queued run of the automation, with its event, and returns its id.
func (h *house) run(id string) string {
	h.t.Helper()
	record := "event-" + id
	h.insert("events", "id", record, "organization_id", org, "trigger_id", "trigger-1", "automation_id", "nightly", "provider", "github", "type", "issue", "dedup_key", id,
		"title", "Bug", "created_at", h.clock.now(), "shown", `{"token":"[redacted]"}`, "sealed", h.sealed("events", record, "sealed", `{"token":"whole","n":9007199254740993}`))
	h.insert("runs", "id", id, "organization_id", org, "automation_id", "nightly", "event_id", record, "trigger_id", "trigger-1", "status", event.RunQueued, "attempt", 0, "created_at", h.clock.now())
	return id
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
		t.Fatalf("answer %d is not a JSON object: %v\n%s", r.StatusCode, err, r.body)
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
