package server

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sallyport/action"
	"sallyport/api"
)

// parrot is a service that repeats the credential of each request, in whatever
// it answers; mood says how it answers.
type parrot struct {
	*service
	mood   atomic.Value // a string
	issued atomic.Int64 // tokens
}

func newParrot(t *testing.T, good func(w http.ResponseWriter, r *asked, echo string)) *parrot {
	t.Helper()
	p := &parrot{}
	p.mood.Store("")
	p.service = newService(t, func(w http.ResponseWriter, r *asked) {
		sent := r.Header.Get("Authorization")
		bare := strings.TrimPrefix(sent, "Bearer ")
		echo := fmt.Sprintf("you sent %s, %s, %s, %s", sent, base64.StdEncoding.EncodeToString([]byte(bare)), hex.EncodeToString([]byte(bare)), url.QueryEscape(bare))
		w.Header().Set("X-Echo", sent)
		switch {
		case r.Method == "POST" && (strings.HasSuffix(r.Path, "/token") || strings.HasSuffix(r.Path, "/access_token")):
			n := p.issued.Add(1)
			reply(w, 200, fmt.Sprintf(`{"access_token":"canary-access-%[1]d-%[2]s","refresh_token":"canary-refresh-%[1]d-%[2]s","token_type":"Bearer","expires_in":30,"scope":"read write"}`, n, rand.Text()))
		case p.mood.Load() == "refuses":
			reply(w, 401, `{"ok":false,"error":"invalid_auth","message":"`+echo+`","detail":"`+echo+`","errors":[{"message":"`+echo+`","extensions":{"code":"`+sent+`"}}]}`)
		case p.mood.Load() == "forbids":
			reply(w, 403, `{"ok":false,"error":"`+sent+`","message":"`+echo+`","detail":"`+echo+`","errors":[{"message":"`+echo+`","extensions":{"code":"FORBIDDEN","userPresentableMessage":"`+echo+`"}}]}`)
		case p.mood.Load() == "fails":
			reply(w, 500, echo)
		case p.mood.Load() == "babbles":
			reply(w, 200, `"`+echo)
		case p.mood.Load() == "leads on":
			w.Header().Set("Location", "http://localhost:1/elsewhere?token="+bare)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case p.mood.Load() == "hangs up":
			panic(http.ErrAbortHandler)
		default:
			good(w, r, echo)
		}
	})
	return p
}

// aviary are parrots of all services.
type aviary struct{ linear, sentry, slack, gitHub, gmail, nango *parrot }

func newAviary(t *testing.T) *aviary {
	var nangoTags atomic.Value // of the session that was begun last
	return &aviary{
		linear: newParrot(t, func(w http.ResponseWriter, r *asked, echo string) {
			key := r.Header.Get("Authorization")
			if strings.Contains(key, "brokered") {
				ofWorkspace("o2", key)(w, r)
				return
			}
			var out bytes.Buffer
			inner := &rewritten{ResponseWriter: w, body: &out}
			likeLinear(strings.TrimPrefix(key, "Bearer "))(inner, r)
			reply(w, inner.status, strings.ReplaceAll(out.String(), "Login fails", echo))
		}),
		sentry: newParrot(t, func(w http.ResponseWriter, r *asked, echo string) {
			switch {
			case r.Path == "/api/0/organizations/":
				reply(w, 200, `[{"id":"1","slug":"acme","name":"Acme"}]`)
			case r.Method == "PUT":
				reply(w, 200, `{"id":"4711","shortId":"WEB-1A","title":"`+echo+`","level":"error","status":"resolved"}`)
			case strings.HasSuffix(r.Path, "/issues/"):
				reply(w, 200, `[{"id":"4711","shortId":"WEB-1A","title":"`+echo+`","level":"error","status":"unresolved"}]`)
			default:
				reply(w, 200, `[{"id":"1","slug":"web","name":"`+echo+`"}]`)
			}
		}),
		slack: newParrot(t, func(w http.ResponseWriter, r *asked, _ string) {
			likeSlack(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))(w, r)
		}),
		gitHub: newParrot(t, func(w http.ResponseWriter, r *asked, echo string) {
			switch {
			case r.Path == "/app/installations/42":
				reply(w, 200, `{"id":42,"account":{"id":9,"login":"acme"},"permissions":{"issues":"write"},"note":"`+echo+`"}`)
			case r.Path == "/app/installations/42/access_tokens":
				reply(w, 201, `{"token":"ghs_canary`+rand.Text()+`","expires_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
			case r.Path == "/installation/repositories":
				reply(w, 200, `{"total_count":1,"repositories":[{"full_name":"acme/site","owner":{"login":"acme"},"description":"`+echo+`"}]}`)
			default:
				likeGitHub(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))(w, r)
			}
		}),
		gmail: newParrot(t, func(w http.ResponseWriter, _ *asked, _ string) {
			reply(w, 200, `{"emailAddress":"ada@example.com","messagesTotal":1}`)
		}),
		nango: newParrot(t, func(w http.ResponseWriter, r *asked, echo string) {
			if r.Path == "/connect/sessions" {
				var body struct{ Tags json.RawMessage }
				_ = json.Unmarshal([]byte(r.Body), &body)
				nangoTags.Store(string(body.Tags))
				reply(w, 201, `{"data":{"token":"nango_connect_session_1","connect_link":"https://connect.nango.dev/?s=1","expires_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}}`)
				return
			}
			reply(w, 200, `{"connection_id":"n1","tags":`+nangoTags.Load().(string)+`,"note":"`+echo+`","credentials":{"type":"OAUTH2","access_token":"canary-brokered-access-0123456789"}}`)
		}),
	}
}

// rewritten is an answer that is not sent yet.
type rewritten struct {
	http.ResponseWriter
	status int
	body   *bytes.Buffer
}

func (r *rewritten) WriteHeader(status int) { r.status = status }

func (r *rewritten) Write(p []byte) (int, error) { return r.body.Write(p) }

func (a *aviary) all() []*parrot {
	return []*parrot{a.linear, a.sentry, a.slack, a.gitHub, a.gmail, a.nango}
}

func (a *aviary) feel(mood string) {
	for _, p := range a.all() {
		p.mood.Store(mood)
	}
}

// inBrowser connects in the way that takes one.
func (p *premises) inBrowser(begin, finish map[string]any) api.IntegrationView {
	p.t.Helper()
	var step action.ConnectStep
	p.must("POST", "/integrations/connect", begin, &step)
	finish["state"], finish["provider"] = step.State, begin["provider"]
	var done struct{ Integration api.IntegrationView }
	p.must("POST", "/oauth/finish", finish, &done)
	return done.Integration
}

// TestCredentialsAreNowhere plays with services that repeat each credential,
// and then looks for all of them wherever they must not be.
func TestCredentialsAreNowhere(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		p := serveHouse(t)
		lookForCanaries(t, p, func(places map[string][]byte) {
			p.stop()
			err := filepath.WalkDir(p.Options.Data, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				raw, err := os.ReadFile(path)
				places["the file "+d.Name()] = raw
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		at := postgresTables(t)
		p := serveHouse(t, func(o *Options) { o.DatabaseURL = at })
		lookForCanaries(t, p, func(places map[string][]byte) { dumpTables(t, at, places) })
	})
}

// dumpTables adds the text of every table.
func dumpTables(t *testing.T, at string, places map[string][]byte) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context()) //nolint:errcheck // it was only read
	rows, err := db.Query(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) < 10 {
		t.Fatalf("%d tables, %v", len(names), err)
	}
	for _, name := range names {
		var text string
		if err := db.QueryRow(t.Context(), `SELECT coalesce(string_agg(t::text, ''), '') FROM `+pgx.Identifier{name}.Sanitize()+` t`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		places["the table "+name] = []byte(text)
	}
}

func lookForCanaries(t *testing.T, p *premises, rows func(places map[string][]byte)) {
	birds, canaries := newAviary(t), map[string]string{}
	heard := p.listenToEvents()
	connected := p.connectAll(birds, canaries)
	p.callAll(birds, connected)
	p.askEverything(connected)
	agentSaw := p.useGitAndModels(canaries)

	for i, bird := range birds.all() { // all that was ever sent is one
		for _, a := range bird.requests("") {
			if sent := strings.TrimPrefix(a.Header.Get("Authorization"), "Bearer "); sent != "" {
				canaries[fmt.Sprintf("of service %d: %.24s", i, sent)] = sent
			}
			form, _ := url.ParseQuery(a.Body)
			for _, name := range []string{"client_secret", "refresh_token", "code", "code_verifier"} {
				if form.Get(name) != "" {
					canaries[fmt.Sprintf("%s %.24s", name, form.Get(name))] = form.Get(name)
				}
			}
		}
	}
	names := map[string]string{} // by value: each is looked for once
	for what, canary := range canaries {
		names[canary] = what
	}
	if len(names) < 20 {
		t.Fatalf("the story did not happen: there are %d canaries", len(names))
	}
	places := map[string][]byte{"what git and models answered": agentSaw}
	rows(places)
	p.stop()
	places["the log"], places["what was answered"], places["the live events"] = []byte(p.log.String()), []byte(p.said.String()), []byte(heard.String())
	for canary, what := range names {
		for place, raw := range places {
			for _, form := range disguises(canary) {
				if i := bytes.Index(raw, []byte(form)); i >= 0 {
					t.Errorf("%s is in %s: …%q", what, place, raw[max(0, i-200):min(len(raw), i+len(form)+50)])
					break
				}
			}
		}
	}
	for _, want := range []string{"you sent [redacted]", "refused ("} {
		if !strings.Contains(p.said.String(), want) {
			t.Errorf("no agent was told %q; nothing was proved", want)
		}
	}
	if !strings.Contains(heard.String(), "invocation") {
		t.Error("there were no live events")
	}
}

// useGitAndModels fetches, pushes and sends requests to a model, with credentials that
// are accepted and with ones that are refused and repeated. It returns what the agent saw.
func (p *premises) useGitAndModels(canaries map[string]string) []byte {
	p.t.Helper()
	var saw bytes.Buffer
	f := newGitForge(p.t)
	f.create("octocat/hello")
	model := newService(p.t, func(w http.ResponseWriter, r *asked) {
		if key := r.Header.Get("Authorization"); key != "Bearer "+modelKey {
			reply(w, 401, `{"error":{"message":"Incorrect API key: `+key+`"}}`)
			return
		}
		reply(w, 200, `{"model":"m","usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	})
	session := p.newSession(map[string]any{})
	ask := func() {
		p.t.Helper()
		r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.URL+"/llm/parrot/v1/chat/completions", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+session.Token)
		resp, err := p.http.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := resp.Write(&saw); err != nil {
			p.t.Error(err)
		}
	}
	secret := func(key, value, at string) {
		canaries[key+" "+value] = value
		canaries[key+" as a password "+value] = base64.StdEncoding.EncodeToString([]byte("x-access-token:" + value))
		p.must("PUT", "/secrets/"+key, map[string]any{"value": value, "host": strings.TrimPrefix(at, "http://")}, nil)
	}
	p.mode("git:push", action.ModeAllow)
	secret("git-forge", forgeToken, f.URL)
	secret("parrot", modelKey, model.URL)
	p.must("PUT", "/models/providers/parrot", map[string]any{"url": model.URL, "secret": "parrot"}, nil)
	agent := p.cloneOf(f, session)
	agent.commit("a.txt", "a\n", "A")
	saw.WriteString(agent.must("push", "-v", "origin", "HEAD:main"))
	ask()
	secret("git-forge", "ghp_c4n4ryThatIsRefused0123456789abcdefg", f.URL)
	secret("parrot", "sk-canary-that-is-refused-0123456789", model.URL)
	agent.commit("a.txt", "b\n", "B")
	for _, args := range [][]string{{"fetch", "-v"}, {"push", "-v", "origin", "HEAD:main"}} {
		out, err := agent.run(args...)
		if err == nil {
			p.t.Errorf("git %v succeeded with a credential that is refused", args)
		}
		saw.WriteString(out)
	}
	ask()
	for _, want := range []string{"200 OK", "refused the gateway's API key", "does not permit this"} {
		if !strings.Contains(saw.String(), want) {
			p.t.Errorf("no agent saw %q; nothing was proved:\n%s", want, &saw)
		}
	}
	return saw.Bytes()
}

// disguises are the forms in which a credential can be found.
func disguises(s string) []string {
	all := []string{s, base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)), hex.EncodeToString([]byte(s))}
	if q := url.QueryEscape(s); q != s {
		all = append(all, q)
	}
	return all
}

// listenToEvents keeps what is told live.
func (p *premises) listenToEvents() *tape {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.URL+"/api/v1/events", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.key)
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // below, when the stream ends
	if err != nil {
		p.t.Fatal(err)
	}
	heard := &tape{}
	go func() {
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			fmt.Fprintln(heard, lines.Text())
		}
	}()
	return heard
}

// rsaKey is a private key as GitHub issues them.
func rsaKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// connectAll connects each service in each way that there is.
func (p *premises) connectAll(birds *aviary, canaries map[string]string) map[string]api.IntegrationView {
	p.t.Helper()
	file := rsaKey(p.t)
	canaries["the App's private key"] = strings.Split(file, "\n")[5]
	secret := func(name string) string {
		canaries[name] = "canary-" + strings.ReplaceAll(name, " ", "-") + "+/" + rand.Text()
		return canaries[name]
	}
	p.must("PUT", "/integrations/apps/linear", map[string]any{"client_id": "c1", "client_secret": secret("client secret"), "base_url": birds.linear.URL}, nil)
	p.must("PUT", "/integrations/apps/gmail", map[string]any{"client_id": "c2", "client_secret": secret("secret at google"), "base_url": birds.gmail.URL}, nil)
	p.must("PUT", "/integrations/apps/github", map[string]any{"app_id": "7", "slug": "acme-gate", "private_key": file, "base_url": birds.gitHub.URL}, nil)
	p.must("PUT", "/integrations/apps/nango", map[string]any{"api_key": secret("nango key"), "base_url": birds.nango.URL}, nil)
	canaries["brokered"] = "canary-brokered-access-0123456789"
	made := map[string]api.IntegrationView{
		"linear": p.inBrowser(map[string]any{"provider": "linear", "kind": "oauth2"}, map[string]any{"code": secret("code")}),
		"gmail":  p.inBrowser(map[string]any{"provider": "gmail", "kind": "oauth2"}, map[string]any{"code": secret("other code")}),
		"app":    p.inBrowser(map[string]any{"provider": "github", "kind": "app_installation"}, map[string]any{"installation_id": "42"}),
		"nango":  p.inBrowser(map[string]any{"provider": "linear", "kind": "oauth2", "broker": "nango", "base_url": birds.linear.URL}, map[string]any{"connection_id": "n1"}),
		"sentry": p.connectTo(birds.sentry.service, "sentry", map[string]any{"kind": "api_key", "secret": secret("sentry token")}),
		"slack":  p.connectTo(birds.slack.service, "slack", map[string]any{"kind": "bot_token", "secret": secret("bot token")}),
		"github": p.connectTo(birds.gitHub.service, "github", map[string]any{"kind": "api_key", "secret": secret("personal token")}),
	}
	p.connectTo(birds.linear.service, "linear", map[string]any{"kind": "api_key", "own": true, "secret": secret("own key")})
	// What is refused is not kept either.
	birds.feel("refuses")
	for _, provider := range []string{"linear", "sentry", "slack", "github"} {
		bird := map[string]*parrot{"linear": birds.linear, "sentry": birds.sentry, "slack": birds.slack, "github": birds.gitHub}[provider]
		kind := map[bool]string{true: "bot_token", false: "api_key"}[provider == "slack"]
		if status, answer := p.do("POST", "/integrations", map[string]any{"provider": provider, "kind": kind, "base_url": bird.URL, "secret": secret("refused at " + provider)}); status < 400 {
			p.t.Errorf("%s took it: %d %s", provider, status, answer)
		}
	}
	birds.feel("")
	return made
}

// callAll has agents call while the services are in every mood.
func (p *premises) callAll(birds *aviary, made map[string]api.IntegrationView) {
	p.t.Helper()
	for _, key := range []string{"linear:create_issue", "sentry:update_issue", "slack:send_message", "github:create_issue"} {
		p.mode(key, action.ModeAllow)
	}
	agents := map[string]*visitor{
		"linear": p.agent(made["linear"].ID), "nango": p.agent(made["nango"].ID), "sentry": p.agent("sentry"), "slack": p.agent("slack"),
		"app": p.agent(made["app"].ID), "github": p.agent(made["github"].ID),
	}
	n := 0
	for _, mood := range []string{"", "forbids", "fails", "babbles", "leads on", "hangs up", "refuses", "refuses"} {
		birds.feel(mood)
		var all []<-chan spokenTo
		for name, calls := range map[string][][2]string{
			"linear": {{"linear_list_issues", `{"query":"%d"}`}, {"linear_create_issue", `{"teamId":"4cfb482a-81e3-4154-b5b9-2c805e70a02d","title":"%d"}`}},
			"nango":  {{"linear_list_issues", `{"query":"%d"}`}},
			"sentry": {{"sentry_list_issues", `{"query":"%d"}`}, {"sentry_update_issue", `{"issue_id":"%d","status":"resolved"}`}},
			"slack":  {{"slack_send_message", `{"channel":"C1","text":"%d"}`}},
			"app":    {{"github_list_repos", `{"limit":%d}`}, {"github_create_issue", `{"owner":"octocat","repo":"hello","title":"%d"}`}},
			"github": {{"github_get_repo", `{"owner":"octocat","repo":"hello"}`}, {"github_create_issue", `{"owner":"octocat","repo":"hello","title":"%d"}`}},
		} {
			for _, call := range calls {
				n++
				args := call[1]
				if strings.Contains(args, "%d") {
					args = fmt.Sprintf(args, n)
				}
				all = append(all, agents[name].call(call[0], args))
			}
		}
		for _, done := range all {
			select {
			case got := <-done:
				if got.err != nil || mood == "" && got.isError {
					p.t.Errorf("in the mood %q an agent was answered %q (%v)", mood, got.text, got.err)
				}
			case <-time.After(waitAtMost):
				p.t.Fatalf("in the mood %q an agent was never answered", mood)
			}
		}
		if mood == "hangs up" || mood == "fails" { // reads are tried again, which takes long
			continue
		}
		for _, in := range made {
			p.do("GET", "/integrations/"+in.ID+"/metadata", nil)
			p.do("POST", "/integrations/"+in.ID+"/check", nil)
		}
	}
	birds.feel("")
}

// askEverything asks for all that the API has to say, and disconnects.
func (p *premises) askEverything(made map[string]api.IntegrationView) {
	p.t.Helper()
	var described struct{ Paths map[string]map[string]any }
	p.must("GET", "/openapi.json", nil, &described)
	var calls api.List[action.Invocation]
	p.must("GET", "/invocations?limit=100", nil, &calls)
	for path, methods := range described.Paths {
		path = strings.TrimPrefix(path, "/api/v1")
		if methods["get"] == nil || path == "/events" {
			continue
		}
		for _, inv := range calls.Items {
			p.do("GET", strings.NewReplacer("{session}", inv.Session, "{id}", inv.ID, "{automation}", "nightly", "{group}", "g").Replace(path), nil)
			if !strings.Contains(path, "invocations/{") {
				break // the others say the same of each
			}
		}
	}
	p.do("GET", "/audit/export?what=policy", nil)
	p.do("GET", "/audit/export?what=calls&format=csv", nil)
	response, err := p.http.Get(p.URL + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	raw := new(bytes.Buffer)
	_, _ = raw.ReadFrom(response.Body)
	response.Body.Close()
	for _, in := range made {
		p.do("GET", "/integrations/"+in.ID, nil)
		p.do("DELETE", "/integrations/"+in.ID, nil)
	}
}
