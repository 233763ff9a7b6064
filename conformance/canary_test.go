package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestCanary plays the whole story with credentials that can be found again,
// and then looks for them wherever they must not be: in the log, in the data
// folder, in what the API and the live events said, and in what agents were
// told. Neither as they are nor encoded in a usual way.
func TestCanary(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--log-level", "debug", "--hold-every", "200ms", "--call-timeout", "2s")
	u := startUpstream(t)
	at, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	const secret, param = "canary-secret-9f8e7d6c5b4a", "canary-param-1a2b3c4d5e6f"
	g.must("PUT", "/api/v1/secrets/upstream", map[string]any{"host": at.Host, "value": secret}, nil)
	source := g.connector("up", u.URL, func(c map[string]any) { c["secret"] = "upstream" })
	s := g.mint(map[string]any{"title": "canary"})
	var key struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	g.must("POST", "/api/v1/api-keys", map[string]any{"name": "program", "role": "admin"}, &key)
	link := g.loginLink()
	g.forgetSeen() // the token, the key and the link are shown once, right here
	live := g.listen(t)

	// An upstream that hands the credential back, in every way it can.
	u.misbehave(func(w http.ResponseWriter, r *http.Request, c *toolCall) bool {
		got := r.Header.Get("Authorization")
		bare := strings.TrimPrefix(got, "Bearer ")
		if !strings.Contains(got, secret) {
			t.Errorf("the upstream received %q", got)
		}
		u.did(c)
		switch c.effect() {
		case "fail 2":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"bad token %s","data":{"token":%q}}}`, c.ID, bare, got)
		case "fail 3":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "your token %s is no good", got)
		case "fail 4":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}],"isError":true}}`, c.ID, "no: "+got)
		case "fail 5":
			http.Redirect(w, r, "/elsewhere?token="+bare, http.StatusTemporaryRedirect)
		default:
			respond(w, c, fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"structuredContent":{"authorization":%q,"base64":%q,"url":%q}}`,
				"you sent "+got, got, base64.StdEncoding.EncodeToString([]byte(bare)), url.QueryEscape(bare)))
		}
		return true
	})

	var told bytes.Buffer
	a := newAgent(t, g.MCPURL, s.Token)
	hear := func(got answer) { fmt.Fprintf(&told, "%s %+v\n", got.Raw, got) }
	hear(a.start(t, "up_read", `{"n":1}`).wait())
	call := a.start(t, "up_write", fmt.Sprintf(`{"n":1,"text":"%s"}`, "ghp_"+strings.Repeat("c4n4ry", 6)))
	held := g.held()
	g.do("POST", "/api/v1/invocations/"+held.ID+"/approve", nil)
	hear(call.wait())
	call = a.start(t, "up_write", `{"n":2}`)
	held = g.held()
	g.do("POST", "/api/v1/invocations/"+held.ID+"/deny", map[string]any{"reason": "no"})
	hear(call.wait())
	for n := range 6 {
		hear(a.start(t, "up_fail", fmt.Sprintf(`{"n":%d}`, n)).wait())
	}
	hear(a.start(t, "up_destroy", `{"n":1}`).wait())
	u.Close()
	hear(a.start(t, "up_read", `{"n":9}`).wait())
	g.as("spk_"+param).do("GET", "/api/v1/me", nil)
	g.do("PUT", "/api/v1/secrets/bad", map[string]any{"host": "not a host", "value": param})
	g.do("POST", "/api/v1/connectors", map[string]any{"name": "x", "url": "ftp://user:" + param + "@127.0.0.1/mcp"})
	g.redeem(link)
	for _, path := range []string{"/api/v1/invocations", "/api/v1/secrets", "/api/v1/connectors", "/api/v1/sessions", "/api/v1/api-keys", "/api/v1/policy/modes"} {
		g.do("GET", path, nil)
	}
	for _, i := range g.invocations("") {
		g.do("GET", "/api/v1/invocations/"+i.ID, nil)
	}
	g.mode(source+":write", "deny")
	g.do("DELETE", "/api/v1/api-keys/"+key.ID, nil)
	g.stop()

	code, page, _ := strings.Cut(link[strings.IndexByte(link, '#')+1:], ".")
	master, signing := g.keyFile("master.key"), g.keyFile("token.key")
	canaries := map[string]string{
		"the connector's secret": secret, "the session's token": s.Token, "the API key": key.Key, "the endpoint's API key": g.APIKey,
		"the login code": code, "the page's key": page, "a rejected credential": param,
		"a token in params": "ghp_" + strings.Repeat("c4n4ry", 6), "the master key": master, "the token key": signing,
	}
	places := map[string][]byte{
		"the log": g.loggedWithoutLink(), "what the API said": g.seenBytes(), "the live events": live(), "what the agent was told": told.Bytes(),
	}
	g.files(func(name string, raw []byte) { places["the file "+name] = raw })
	for what, canary := range canaries {
		for place, raw := range places {
			if what == "a token in params" && place == "what the agent was told" {
				continue // the agent's own
			}
			for _, form := range encodings(canary) {
				if bytes.Contains(raw, []byte(form)) {
					t.Errorf("%s is in %s, as %q", what, place, form)
				}
			}
		}
	}
	if !bytes.Contains(told.Bytes(), []byte("you sent")) {
		t.Errorf("the story did not happen; nothing was proved: %s", told.Bytes())
	}
}

func encodings(s string) []string {
	forms := []string{
		s, base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
		base64.StdEncoding.EncodeToString([]byte("Bearer " + s)), hex.EncodeToString([]byte(s)),
	}
	if q := url.QueryEscape(s); q != s {
		forms = append(forms, q)
	}
	if raw, err := hex.DecodeString(s); err == nil && len(raw) >= 16 {
		forms = append(forms, string(raw)) // a key, as bytes
	}
	return forms
}

// loginLink returns a link for the local owner.
func (g *gateway) loginLink() string {
	g.t.Helper()
	var me struct {
		User string `json:"user_id"`
	}
	g.must("GET", "/api/v1/me", nil, &me)
	var link struct {
		URL string `json:"url"`
	}
	g.must("POST", "/api/v1/users/"+me.User+"/login-link", nil, &link)
	if !strings.Contains(link.URL, "#") {
		g.t.Fatalf("a strange login link: %q", link.URL)
	}
	return link.URL
}

// redeem signs in as the page would.
func (g *gateway) redeem(link string) {
	g.t.Helper()
	code, _, _ := strings.Cut(link[strings.IndexByte(link, '#')+1:], ".")
	request, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, g.URL+"/login", strings.NewReader(fmt.Sprintf(`{"code":%q}`, code)))
	if err != nil {
		g.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Origin", g.URL)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		g.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode >= 300 || len(response.Cookies()) == 0 {
		g.t.Errorf("signing in answered %s", response.Status)
	}
}

func (a *api) forgetSeen() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen.Reset()
}

func (a *api) seenBytes() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return bytes.Clone(a.seen.Bytes())
}

// listen collects live events until the returned func is called.
func (g *gateway) listen(t *testing.T) (events func() []byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+g.APIKey)
	var all bytes.Buffer
	ready, done := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(ready) })
	go func() {
		defer close(done)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return
		}
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			all.Write(lines.Bytes())
			if bytes.HasSuffix(lines.Bytes(), []byte("ready")) {
				begun()
			}
		}
	}()
	select {
	case <-ready:
	case <-done:
		t.Fatal("the live events did not begin")
	}
	end := sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(end)
	return func() []byte {
		end()
		if !bytes.Contains(all.Bytes(), []byte("pending")) {
			t.Errorf("the live events told nothing of a held call: %s", all.Bytes())
		}
		return all.Bytes()
	}
}

// loggedWithoutLink is the log but for the sign-in link that serve prints for
// the person who started it.
func (g *gateway) loggedWithoutLink() []byte {
	var kept [][]byte
	for line := range bytes.Lines(g.logged()) {
		if !bytes.Contains(line, []byte("/login#")) {
			kept = append(kept, line)
		}
	}
	return bytes.Join(kept, nil)
}

// keyFile returns a key of the data folder as it is written there.
func (g *gateway) keyFile(name string) string {
	g.t.Helper()
	path := filepath.Join(g.data, name)
	info, err := os.Stat(path)
	if err != nil {
		g.t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		g.t.Errorf("%s has mode %v", name, mode)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// files reads the data folder, but for the keys themselves.
func (g *gateway) files(f func(name string, raw []byte)) {
	g.t.Helper()
	found := false
	err := filepath.WalkDir(g.data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) == ".key" || entry.Name() == "endpoint.json" {
			return err
		}
		raw, err := os.ReadFile(path)
		f(entry.Name(), raw)
		found = found || strings.HasSuffix(path, ".db")
		return err
	})
	if err != nil || !found {
		g.t.Fatalf("no database was read: %v", err)
	}
}
