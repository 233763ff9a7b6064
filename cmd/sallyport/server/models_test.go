package server

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/internal/token"
	"sallyport/store"
)

const modelKey = "sk-canary-0123456789abcdef"

// provider is a provider of models that answers as a test says.
type provider struct {
	*httptest.Server
	mu       sync.Mutex
	answer   http.HandlerFunc
	requests []*http.Request
	bodies   []string
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway gave the request up
	}
	p.mu.Lock()
	p.requests, p.bodies = append(p.requests, r), append(p.bodies, string(body))
	answer := p.answer
	p.mu.Unlock()
	answer(w, r)
}

// says sets the answer.
func (p *provider) says(contentType, text string) {
	p.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
	})
}

func (p *provider) does(answer http.HandlerFunc) { p.mu.Lock(); p.answer = answer; p.mu.Unlock() }

// last returns the last request and its body.
func (p *provider) last() (*http.Request, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[len(p.requests)-1], p.bodies[len(p.bodies)-1]
}

func (p *provider) asked() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.requests) }

// thinker is a session whose models are behind a gateway.
type thinker struct {
	*vaulted
	provider *provider
	gateway  *httptest.Server
	session  action.Session
	token    string
	budget   action.Budget // of the next sessions
}

func newThinker(t *testing.T) *thinker {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	x := &thinker{vaulted: openVaulted(t, Options{Data: t.TempDir()}), provider: p}
	x.gateway = httptest.NewServer(x.handler())
	t.Cleanup(x.gateway.Close)
	sealed, err := x.sealSecret(store.DefaultOrganization, "models", []byte(modelKey))
	x.ok(err)
	host := strings.TrimPrefix(p.URL, "http://")
	x.ok(x.DB.PutSecret(t.Context(), action.Secret{Organization: store.DefaultOrganization, Key: "models", Host: host, UpdatedBy: "me", CreatedAt: x.DB.Now(), UpdatedAt: x.DB.Now()}, sealed))
	x.set(func(m *action.ModelSettings) {
		for _, d := range []action.ModelDialect{action.DialectAnthropic, action.DialectOpenAI, action.DialectGoogle} {
			m.Providers = append(m.Providers, action.ModelProvider{Name: string(d), Dialect: d, URL: p.URL, Secret: "models"})
		}
	})
	x.start()
	return x
}

// start gives the thinker a new session.
func (x *thinker) start() {
	x.t.Helper()
	var err error
	x.session, err = x.DB.CreateSession(x.t.Context(), action.Session{ID: uuid.NewString(), Organization: store.DefaultOrganization, Kind: action.Interactive, Type: action.TypeCoding, CreatedBy: "test", CreatedAt: x.DB.Now(), Budget: x.budget})
	x.ok(err)
	x.token = x.signer.Mint(x.session.ID)
}

func (x *thinker) set(change func(*action.ModelSettings)) {
	x.t.Helper()
	_, err := x.DB.ChangeModelSettings(x.t.Context(), store.DefaultOrganization, "me", func(m *action.ModelSettings) error { change(m); return nil })
	x.ok(err)
}

func (x *thinker) limit(l action.ModelLimit) {
	x.t.Helper()
	l.Scope, l.Per = "organization", action.EachSession
	x.set(func(m *action.ModelSettings) { m.Limits = []action.ModelLimit{l} })
}

func (x *thinker) send(ctx context.Context, path, body string) *http.Response {
	x.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.gateway.URL+"/llm/"+path, strings.NewReader(body))
	x.ok(err)
	r.Header.Set("Content-Type", "application/json")
	header, value := "Authorization", "Bearer "+x.token
	switch name, _, _ := strings.Cut(path, "/"); name {
	case "anthropic":
		header, value = "X-Api-Key", x.token
	case "google":
		header, value = "X-Goog-Api-Key", x.token
	}
	r.Header.Set(header, value)
	resp, err := x.gateway.Client().Do(r)
	x.ok(err)
	return resp
}

// ownerKey returns an API key of an owner.
func (x *thinker) ownerKey() string {
	x.t.Helper()
	x.ok(x.DB.CreateUser(x.t.Context(), action.User{ID: "ada", Organization: store.DefaultOrganization, Name: "Ada", Role: action.RoleOwner, CreatedAt: x.DB.Now()}, "test"))
	id, key, hash := token.NewAPIKey()
	x.ok(x.DB.CreateAPIKey(x.t.Context(), action.APIKey{ID: id, Organization: store.DefaultOrganization, Name: "test", User: "ada", Role: action.RoleOwner, CreatedAt: x.DB.Now()}, hex.EncodeToString(hash)))
	return key
}

// modelReply is a response whose body is read.
type modelReply struct {
	StatusCode int
	Header     http.Header
}

// ask sends a request and returns the answer.
func (x *thinker) ask(path, body string) (*modelReply, string) {
	x.t.Helper()
	resp := x.send(x.t.Context(), path, body)
	defer resp.Body.Close() //nolint:errcheck // read
	raw, err := io.ReadAll(resp.Body)
	x.ok(err)
	for _, secret := range []string{modelKey, x.token} {
		if strings.Contains(string(raw)+fmt.Sprint(resp.Header), secret) {
			x.t.Errorf("the answer contains a credential: %s", raw)
		}
	}
	return &modelReply{resp.StatusCode, resp.Header}, string(raw)
}

// newest returns the newest request of the session, once it has ended.
func (x *thinker) newest() action.ModelRequest {
	x.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		page, err := x.DB.ListModelRequests(x.t.Context(), action.ModelRequestFilter{Organization: store.DefaultOrganization, Session: x.session.ID})
		x.ok(err)
		if len(page.Items) > 0 && page.Items[0].EndedAt != nil {
			return page.Items[0]
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("no request has ended: %+v", page.Items)
		}
	}
}

// refused checks that a request is refused without reaching the provider.
func (x *thinker) refused(path, body string, status int, code, words string) *modelReply {
	x.t.Helper()
	before := x.provider.asked()
	resp, text := x.ask(path, body)
	if resp.StatusCode != status || resp.Header.Get("Sallyport-Code") != code || !strings.Contains(text, words) {
		x.t.Errorf("%s %s: %d %s %s; want %d %s, %q", path, body, resp.StatusCode, resp.Header.Get("Sallyport-Code"), text, status, code, words)
	}
	if x.provider.asked() != before {
		x.t.Errorf("%s %s reached the provider", path, body)
	}
	return resp
}

func dataEvent(data string) string { return "event: x\ndata: " + data + "\n\n" }

// TestModelsPass: the bytes pass as they are, the key is added, and what was used is
// counted in the words of each dialect.
func TestModelsPass(t *testing.T) {
	t.Parallel()
	x := newThinker(t)
	for name, c := range map[string]struct {
		path, body, contentType, answer, keyHeader, key string
		want                                            action.ModelTokens
		estimated                                       bool
	}{
		"Anthropic, streamed": {
			"anthropic/v1/messages", `{"model":"claude-sonnet-4-5","stream":true}`, "text/event-stream; charset=utf-8",
			dataEvent(`{"type":"message_start","message":{"usage":{"input_tokens":25,"cache_read_input_tokens":5,"cache_creation_input_tokens":7,"output_tokens":1}}}`) +
				dataEvent(`{"type":"content_block_delta","delta":{"text":"{\"usage\":{\"output_tokens\":9000}}"}}`) + dataEvent(`{"type":"message_delta","usage":{"output_tokens":15}}`),
			"X-Api-Key", modelKey,
			action.ModelTokens{Input: 25, Cached: 5, CacheWrite: 7, Output: 15},
			false,
		},
		"Anthropic": {
			"anthropic/v1/messages", `{"messages":[],"model":"claude-sonnet-4-5"}`, "application/json",
			`{"content":[{"type":"tool_use","input":{"usage":{"output_tokens":9}}}],"usage":{"input_tokens":2,"output_tokens":3}}`,
			"X-Api-Key", modelKey,
			action.ModelTokens{Input: 2, Output: 3},
			false,
		},
		"OpenAI's responses": {
			"openai/v1/responses", `{"model":"gpt-5","stream":true}`, "text/event-stream",
			dataEvent(`{"type":"response.created","response":{"usage":null}}`) + dataEvent(`{"type":"response.completed","response":{"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},"output_tokens":20}}}`),
			"Authorization", "Bearer " + modelKey,
			action.ModelTokens{Input: 60, Cached: 40, Output: 20},
			false,
		},
		"chat completions": {
			"openai/v1/chat/completions", `{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true}}`, "text/event-stream",
			"data: {\"choices\":[{}]}\r\n\r\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":8}}\r\n\r\ndata: [DONE]\r\n\r\n",
			"Authorization", "Bearer " + modelKey,
			action.ModelTokens{Input: 7, Output: 8},
			false,
		},
		"chat completions without usage": {
			"openai/v1/chat/completions", `{"model":"gpt-5","stream":true,"x":"aaaa"}`, "text/event-stream",
			"data: {\"choices\":[{}]}\n\ndata: {\"choices\":[{}]}\n\ndata: [DONE]\n\n",
			"Authorization", "Bearer " + modelKey,
			action.ModelTokens{Input: 11, Output: 3},
			true,
		},
		"Google": {
			"google/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&key=none", `{"contents":[]}`, "text/event-stream",
			"data: {\"usageMetadata\":{\"promptTokenCount\":4}}\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":9,\"cachedContentTokenCount\":2,\"candidatesTokenCount\":3,\"thoughtsTokenCount\":5}}\n\n",
			"X-Goog-Api-Key", modelKey,
			action.ModelTokens{Input: 7, Cached: 2, Output: 8},
			false,
		},
	} {
		x.start()
		x.provider.says(c.contentType, c.answer)
		resp, text := x.ask(c.path, c.body)
		if resp.StatusCode != http.StatusOK || text != c.answer || resp.Header.Get("Content-Type") != c.contentType {
			t.Errorf("%s: %d %q", name, resp.StatusCode, text)
		}
		r, body := x.provider.last()
		_, path, _ := strings.Cut(c.path, "/")
		path, _, _ = strings.Cut(path, "&key=")
		if got := strings.TrimPrefix(r.URL.String(), "/"); body != c.body || r.Header.Get(c.keyHeader) != c.key || got != path {
			t.Errorf("%s: the provider got %s %s %s, %s", name, c.keyHeader, r.Header.Get(c.keyHeader), got, body)
		}
		if all := fmt.Sprint(r.Header, r.URL, body); strings.Contains(all, x.token) {
			t.Errorf("%s: the provider got the session's token", name)
		}
		row := x.newest()
		if row.ModelTokens != c.want || row.Estimated != c.estimated || row.Status != http.StatusOK || row.Code != "" || !row.Priced || row.Cost <= 0 {
			t.Errorf("%s: the row is %+v, want %+v", name, row, c.want)
		}
	}
	list, err := x.DB.ModelUsage(t.Context(), action.ModelUsageFilter{Organization: store.DefaultOrganization, By: "provider"})
	x.ok(err)
	if len(list) != 3 || list[0].Requests+list[1].Requests+list[2].Requests != 6 {
		t.Errorf("the usage is %+v", list)
	}
}

// TestModelsRefused: what policy does not allow never reaches the provider, is said in the
// form of the dialect, and leaves a row.
func TestModelsRefused(t *testing.T) {
	t.Parallel()
	x := newThinker(t)
	x.provider.says("application/json", `{"usage":{"input_tokens":30,"output_tokens":30}}`)
	x.limit(action.ModelLimit{Models: []string{"anthropic/claude-haiku-*", "openai/*"}})
	x.refused("anthropic/v1/messages", `{"model":"claude-opus-4-5"}`, 403, "model_not_allowed", `"type":"permission_error"`)
	if row := x.newest(); row.Code != "model_not_allowed" || row.Status != 403 || row.Model != "claude-opus-4-5" {
		t.Errorf("the row is %+v", row)
	}
	x.refused("google/v1beta/models/gemini-2.5-pro:generateContent", `{}`, 403, "model_not_allowed", `"status":"PERMISSION_DENIED"`)
	long := strings.Repeat("y", 100<<10)
	for body, code := range map[string]string{
		`{"model":"claude-haiku-4-5","model":"claude-opus-4-5"}`:                         "model_twice",
		`{"model":"claude-haiku-4-5","x":"` + long + `","MODEL":"claude-opus-4-5"}`:      "model_twice",
		`{"model":"claude-haiku-4-5","x":"` + long + `","mod\u0065l":"claude-opus-4-5"}`: "model_twice",
		`{"model":"claude-haiku-4-5","x":"` + long + `","models":["claude-opus-4-5"]}`:   "model_fallbacks",
		`{"model":"claude-haiku-4-5","background":true}`:                                 "model_background",
		`{"model":7}`: "model_missing",
		`{"x":"` + strings.Repeat("z", 2<<20) + `","model":"claude-haiku-4-5"}`: "model_missing",
		`{"model":"claude-haiku-4-5",`:                                          "model_bad_json",
		`{"model":"claude-haiku-4-5"} {"model":"claude-opus-4-5"}`:              "model_bad_json",
	} {
		x.refused("anthropic/v1/messages", body, 400, code, `"invalid_request_error"`)
	}
	x.refused("anthropic/v1/files", `{}`, 404, "model_path", "does not pass on POST /v1/files")
	x.refused("anthropic/v1/messages/batches", `{}`, 404, "model_path", "does not pass on")
	x.refused("nobody/v1/messages", `{"model":"x"}`, 403, "model_provider_not_found", "not configured")
	x.ok(x.Gateway.gate.Drain(t.Context()))
	counted := map[action.RefusalKind]int64{}
	page, err := x.DB.Refusals(t.Context(), action.RefusalFilter{Organization: store.DefaultOrganization, Session: x.session.ID})
	x.ok(err)
	for _, r := range page.Items {
		counted[r.Kind] += r.Count
	}
	if d := cmp.Diff(map[action.RefusalKind]int64{action.RefusedParams: 6, action.RefusedUnknown: 3}, counted); d != "" {
		t.Errorf("refusals that are counted (-want +got):\n%s", d)
	}

	x.limit(action.ModelLimit{Tokens: 60})
	if resp, text := x.ask("openai/v1/responses", `{"model":"gpt-5"}`); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	x.newest()
	x.refused("openai/v1/responses", `{"model":"gpt-5"}`, 403, "model_budget", "60 tokens per session")
	x.start() // has a budget of its own
	if resp, text := x.ask("openai/v1/responses", `{"model":"gpt-5"}`); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	x.budget = action.Budget{MaxTokens: 60}
	x.set(func(m *action.ModelSettings) { m.Limits = nil })
	x.start()
	if resp, text := x.ask("openai/v1/responses", `{"model":"gpt-5"}`); resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	x.newest()
	x.refused("openai/v1/responses", `{"model":"gpt-5"}`, 403, "model_budget", "The budget for models of this session is used up")
	x.budget = action.Budget{}
	x.start()
	x.ask("openai/v1/responses", `{"model":"gpt-5"}`)
	x.newest()
	x.limit(action.ModelLimit{USD: .0001})
	x.refused("openai/v1/responses", `{"model":"somebodys"}`, 403, "model_price_unknown", "price of model openai/somebodys is unknown")
	x.refused("openai/v1/responses", `{"model":"gpt-5"}`, 403, "model_budget", "$0.00 per session")
	x.limit(action.ModelLimit{Rate: 1})
	x.start()
	x.ask("openai/v1/responses", `{"model":"gpt-5"}`)
	resp := x.refused("openai/v1/responses", `{"model":"gpt-5"}`, 429, "model_rate", "1 requests to models a minute")
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || s < 1 || s > 20 {
		t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
	}

	x.set(func(m *action.ModelSettings) { m.Limits = nil })
	_, err = x.DB.PauseSession(t.Context(), store.DefaultOrganization, x.session.ID)
	x.ok(err)
	x.Gateway.sessions.invalidate(x.session.ID)
	x.refused("openai/v1/responses", `{"model":"gpt-5"}`, 403, "session_paused", "paused this session")
	x.token = "sps_none"
	x.refused("openai/v1/responses", `{"model":"gpt-5"}`, 401, "invalid_token", "")
}

// TestModelSecretHost: a key is sent only to the host and port that it was set for.
func TestModelSecretHost(t *testing.T) {
	t.Parallel()
	x := newThinker(t)
	sealed, err := x.sealSecret(store.DefaultOrganization, "models", []byte(modelKey))
	x.ok(err)
	x.ok(x.DB.PutSecret(t.Context(), action.Secret{Organization: store.DefaultOrganization, Key: "models", Host: "127.0.0.1", UpdatedBy: "me", CreatedAt: x.DB.Now(), UpdatedAt: x.DB.Now()}, sealed))
	x.refused("openai/v1/responses", `{"model":"gpt-5"}`, 403, "model_secret_host", "may not be sent to "+strings.TrimPrefix(x.provider.URL, "http://"))
}

// TestModelAlias: another model takes the place of the requested one, and nothing else
// of the body changes.
func TestModelAlias(t *testing.T) {
	t.Parallel()
	x := newThinker(t)
	x.set(func(m *action.ModelSettings) {
		m.Providers = append(m.Providers, action.ModelProvider{Name: "local", Dialect: action.DialectOpenAI, URL: x.provider.URL + "/base", Secret: "models"})
		m.Aliases = map[string]string{"small": "local/qwen/coder", "gemini-2.5-pro": "google/gemini-2.5-flash", "claude-haiku-4-5": "openai/gpt-5"}
	})
	x.provider.says("application/json", `{}`)
	x.ask("openai/v1/chat/completions", ` { "a" : [1.0e3,"é\u00e9"], "model" : "sm\u0061ll", "z":null } `)
	if r, body := x.provider.last(); body != ` { "a" : [1.0e3,"é\u00e9"], "model" : "qwen/coder", "z":null } ` || r.URL.Path != "/base/v1/chat/completions" || r.ContentLength != int64(len(body)) {
		t.Errorf("the provider got %s %s", r.URL, body)
	}
	if row := x.newest(); row.Provider != "local" || row.Model != "qwen/coder" || row.Requested != "small" {
		t.Errorf("the row is %+v", row)
	}
	x.ask("google/v1beta/models/gemini-2.5-pro:generateContent", `{}`)
	if r, _ := x.provider.last(); r.URL.Path != "/v1beta/models/gemini-2.5-flash:generateContent" {
		t.Errorf("the provider got %s", r.URL)
	}
	x.refused("anthropic/v1/messages", `{"model":"claude-haiku-4-5"}`, 403, "model_alias", "another dialect")
}

// TestModelsOverloaded: a wait is short, and the refusal that follows others is final.
func TestModelsOverloaded(t *testing.T) {
	t.Parallel()
	x := newThinker(t)
	x.provider.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(529)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	})
	for n := range 3 {
		resp, text := x.ask("anthropic/v1/messages", `{"model":"claude-haiku-4-5"}`)
		if resp.StatusCode != 529 || resp.Header.Get("Retry-After") != "20" || !strings.Contains(text, "Overloaded") {
			t.Errorf("refusal %d: %d %v %s", n, resp.StatusCode, resp.Header, text)
		}
	}
	resp, text := x.ask("anthropic/v1/messages", `{"model":"claude-haiku-4-5"}`)
	if resp.StatusCode != 403 || !strings.Contains(text, "anthropic refused 4 requests in a row") {
		t.Errorf("the last refusal: %d %s", resp.StatusCode, text)
	}
	x.refused("anthropic/v1/messages", `{"model":"claude-haiku-4-5"}`, 403, "model_refused_often", "sends it no requests")
	x.provider.says("application/json", `{}`)
	if resp, text := x.ask("openai/v1/responses", `{"model":"gpt-5"}`); resp.StatusCode != 200 { // another provider
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	x.start() // another session
	if resp, text := x.ask("anthropic/v1/messages", `{"model":"claude-haiku-4-5"}`); resp.StatusCode != 200 {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	x.provider.does(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"Incorrect API key provided: `+modelKey+`"}`)
	})
	if resp, text := x.ask("openai/v1/responses", `{"model":"gpt-5"}`); resp.StatusCode != 403 || !strings.Contains(text, "store a new one in the secret models") {
		t.Errorf("a refused key: %d %s", resp.StatusCode, text)
	}
	x.provider.CloseClientConnections()
	x.provider.Close()
	if resp, text := x.ask("openai/v1/responses", `{"model":"gpt-5"}`); resp.StatusCode != 502 || !strings.Contains(text, "cannot reach openai") {
		t.Errorf("a provider that is gone: %d %s", resp.StatusCode, text)
	}
}

// TestModelStream: each piece reaches the client at once; a client that leaves ends the
// request at the provider, and what was sent until then counts.
func TestModelStream(t *testing.T) {
	t.Parallel()
	x := newThinker(t)
	next, gone := make(chan bool), make(chan bool)
	x.provider.does(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, dataEvent(`{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}`))
		for {
			_, _ = io.WriteString(w, dataEvent(`{"type":"content_block_delta"}`))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				close(gone)
				return
			}
		}
	})
	ctx, leave := context.WithCancel(t.Context())
	resp := x.send(ctx, "anthropic/v1/messages", `{"model":"claude-haiku-4-5","stream":true}`)
	defer resp.Body.Close() //nolint:errcheck // given up
	buf := make([]byte, 4096)
	for n := range 3 {
		if n > 0 {
			next <- true
		}
		for all := []byte{}; bytes.Count(all, []byte("content_block_delta")) == 0; {
			got, err := resp.Body.Read(buf)
			x.ok(err)
			all = append(all, buf[:got]...)
		}
	}
	leave()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the provider still answers")
	}
	if row := x.newest(); row.Code != "model_interrupted" || !row.Estimated || row.ModelTokens != (action.ModelTokens{Input: 25, Output: 4}) {
		t.Errorf("the row is %+v", row)
	}
}

// TestModelRoutes: settings are changed by the API, one way each, and a wrong one is
// refused.
func TestModelRoutes(t *testing.T) {
	t.Parallel()
	x := newThinker(t)
	key := x.ownerKey()
	do := func(method, path, body string, status int) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, x.gateway.URL+"/api/v1/models"+path, strings.NewReader(body))
		x.ok(err)
		r.Host = strings.TrimPrefix(x.loopbackURL, "http://")
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		resp, err := x.gateway.Client().Do(r)
		x.ok(err)
		defer resp.Body.Close() //nolint:errcheck // read
		raw, err := io.ReadAll(resp.Body)
		x.ok(err)
		if resp.StatusCode != status {
			t.Errorf("%s %s %s: %d %s", method, path, body, resp.StatusCode, raw)
		}
		return string(raw)
	}
	do("PUT", "/providers/together", `{"url":"https://api.together.xyz","secret":"models"}`, 400) // it is for another host
	x.ok(x.DB.PutSecret(t.Context(), action.Secret{Organization: store.DefaultOrganization, Key: "together", Host: "api.together.xyz", UpdatedBy: "me", CreatedAt: x.DB.Now(), UpdatedAt: x.DB.Now()}, []byte("sealed")))
	do("PUT", "/providers/together", `{"url":"https://api.together.xyz","secret":"together"}`, 200)
	do("PUT", "/providers/other", `{"url":"https://x.example","secret":"none"}`, 404)
	do("PUT", "/providers/Bad", `{"secret":"models"}`, 400)
	do("PUT", "", `{"default":"together/x","small":"anthropic/claude-haiku-4-5"}`, 200)
	do("PUT", "", `{"default":"nobody/x"}`, 404)
	do("DELETE", "/providers/together", ``, 409)
	do("PUT", "/aliases/small", `{"model":"together/llama"}`, 200)
	do("PUT", "/prices", `{"model":"together/*","input":1,"output":2}`, 200)
	do("PUT", "/limits", `{"scope":"group:dev","per":"day","usd":5,"models":["together/*"]}`, 200)
	do("PUT", "/limits", `{"scope":"group:dev"}`, 400)
	do("PUT", "/limits", `{"scope":"somebody","tokens":5}`, 400)
	var got struct {
		Default string
		Aliases map[string]string
		Prices  []action.ModelPrice
		Limits  []action.ModelLimit
		Known   []string
	}
	x.ok(json.Unmarshal([]byte(do("GET", "", "", 200)), &got))
	if got.Default != "together/x" || got.Aliases["small"] != "together/llama" || len(got.Prices) != 1 || got.Prices[0].Cached != 1 || len(got.Limits) != 1 || len(got.Known) == 0 {
		t.Errorf("the settings are %+v", got)
	}
	do("DELETE", "/limits?scope=group:dev&per=day", "", 204)
	do("DELETE", "/limits?scope=group:dev&per=day", "", 404)
	do("DELETE", "/prices?model=together/*", "", 204)
	do("DELETE", "/aliases/small", "", 204)
	do("PUT", "", `{"default":""}`, 200)
	do("DELETE", "/providers/together", ``, 204)
	do("GET", "/usage?by=day&since=yesterday", "", 400)
	page, err := x.DB.PolicyEvents(t.Context(), action.PolicyEventFilter{Organization: store.DefaultOrganization})
	x.ok(err)
	if n := len(slices.DeleteFunc(page.Items, func(e action.PolicyEvent) bool { return e.Subject != "models" })); n != 11 { // with that of newThinker
		t.Errorf("%d changes are recorded", n)
	}
}
