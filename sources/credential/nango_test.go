package credential_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

// broker is Nango with one connection, "c-1".
type broker struct {
	b *bank

	mu     sync.Mutex // the fields below
	tags   map[string]string
	issued int
	status int // of a connection; zero: 200
	lives  time.Duration
}

func (b *bank) startBroker() (*broker, *credential.Tokens) {
	n := &broker{b: b, lives: time.Hour}
	b.mux.HandleFunc("POST /connect/sessions", n.open(n.session))
	b.mux.HandleFunc("GET /connections/{id}", n.open(n.show))
	b.mux.HandleFunc("DELETE /connections/{id}", n.open(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"success":true}`) }))
	tokens := b.instance(b.module())
	b.register(tokens, action.ProviderApp{Provider: "nango", BaseURL: b.url, Keys: map[string]string{"acme": "acme-prod"}}, map[string]string{action.AppAPIKey: "env-canary"})
	return n, tokens
}

func (n *broker) open(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer env-canary" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":"unknown_account","message":"There is no account for this key"}}`)
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		next(w, r)
	}
}

func (n *broker) session(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Tags    map[string]string `json:"tags"`
		Allowed []string          `json:"allowed_integrations"`
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	if len(asked.Allowed) != 1 || asked.Allowed[0] != "acme-prod" {
		n.b.t.Errorf("the session is for %v", asked.Allowed)
	}
	n.tags = asked.Tags
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"data":{"token":"nango_connect_session_1","connect_link":"https://connect.nango.dev/?session_token=1","expires_at":%q}}`,
		n.b.clock().Add(30*time.Minute).Format(time.RFC3339))
}

func (n *broker) show(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case n.status == http.StatusFailedDependency:
		w.WriteHeader(n.status)
		fmt.Fprint(w, `{"error":{"code":"refresh_token_external_error","message":"The external API returned an error when trying to refresh the access token"}}`)
		return
	case n.status != 0 || r.PathValue("id") != "c-1" || q.Get("provider_config_key") != "acme-prod":
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"code":"not_found","message":"No connection"}}`)
		return
	case n.issued == 0 || q.Get("force_refresh") == "true":
		n.issued++
	}
	tags, _ := json.Marshal(n.tags)
	fmt.Fprintf(w, `{"id":1,"connection_id":"c-1","provider_config_key":"acme-prod","provider":"linear","errors":[],"metadata":null,"connection_config":{},"tags":%s,`+
		`"created_at":"2026-11-01T00:00:00Z","updated_at":"2026-11-01T00:00:00Z","last_fetched_at":"2026-11-01T00:00:00Z",`+
		`"credentials":{"type":"OAUTH2","access_token":"nango-canary-%d","expires_at":%q,"raw":{}}}`, tags, n.issued, n.b.clock().Add(n.lives).Format(time.RFC3339))
}

func (n *broker) with(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func brokered() action.ConnectRequest {
	w := oauth()
	w.Broker = action.BrokerNango
	return w
}

func throughNango(t *testing.T, tokens *credential.Tokens) action.Integration {
	t.Helper()
	step := begin(t, tokens, brokered())
	in, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: step.State, Connection: "c-1"})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestNangoConnectionIsTheFlowsOwn(t *testing.T) {
	b := newBank(t)
	n, tokens := b.startBroker()
	step := begin(t, tokens, brokered())
	if step.Token != "nango_connect_session_1" || !strings.HasPrefix(step.URL, "https://connect.nango.dev/") || !step.ExpiresAt.Equal(b.clock().Add(5*time.Minute)) {
		t.Errorf("got %+v", step)
	}
	if n.tags["end_user_id"] != "ann" || n.tags["organization_id"] != "org" {
		t.Errorf("the tags are %v", n.tags)
	}
	other := begin(t, tokens, brokered()) // its connection has other tags
	_, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: step.State, Connection: "c-1"})
	fails(t, err, action.ErrInvalid, "oauth_flow", "no matching connection that was created here")
	_, err = tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: other.State, Connection: "c-2"})
	fails(t, err, action.ErrInvalid, "oauth_flow", "no matching connection")
	if len(b.rows) > 0 {
		t.Fatal("it was saved")
	}
	in := throughNango(t, tokens)
	if in.Broker != action.BrokerNango || in.Account != "acme-1" {
		t.Errorf("got %+v", in)
	}
}

func TestNangosTokens(t *testing.T) {
	b := newBank(t)
	n, tokens := b.startBroker()
	in := throughNango(t, tokens)
	before := b.requests("GET /connections/")
	if got := fifty(t, in, tokens); got["nango-canary-1"] != 50 || b.requests("GET /connections/") != before+1 {
		t.Errorf("fifty callers got %v by %d requests", got, b.requests("GET /connections/")-before)
	}
	n.with(func() { n.lives = time.Minute })
	b.pass(5*time.Minute + time.Second)
	_, _ = tokens.Token(t.Context(), in)
	b.pass(time.Minute + time.Second) // it has ended
	_, _ = tokens.Token(t.Context(), in)
	if got := b.requests("GET /connections/") - before; got != 3 {
		t.Errorf("it was asked %d times; after five minutes and after the end of the token was due", got)
	}
	b.pass(30 * time.Second)
	if again, err := tokens.Refused(t.Context(), in, "nango-canary-1", ""); !again || err != nil {
		t.Errorf("got %v, %v", again, err)
	}
	if got, err := tokens.Token(t.Context(), in); got != "nango-canary-2" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if b.requests("GET /connections/c-1?force_refresh=true&provider_config_key=acme-prod") != 1 {
		t.Error("it was not told to renew")
	}
}

func TestNangoConnectionsThatEnd(t *testing.T) {
	for status, want := range map[int]struct {
		status action.IntegrationStatus
		says   string
	}{
		http.StatusFailedDependency: {action.IntegrationExpired, "can no longer renew"},
		http.StatusNotFound:         {action.IntegrationRevoked, "no longer has this connection"},
	} {
		b := newBank(t)
		n, tokens := b.startBroker()
		in := throughNango(t, tokens)
		n.with(func() { n.status = status })
		_, err := tokens.Token(t.Context(), in)
		fails(t, err, action.ErrUnavailable, sources.FaultReconnect, want.says)
		if row := b.row(in.ID); row.Status != want.status {
			t.Errorf("after %d it is %s", status, row.Status)
		}
	}
	b := newBank(t)
	_, tokens := b.startBroker()
	in := throughNango(t, tokens)
	b.register(tokens, action.ProviderApp{Provider: "nango", BaseURL: b.url}, map[string]string{action.AppAPIKey: "old-canary"})
	_, err := tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultAuth, "API key")
	if row := b.row(in.ID); row.Status != action.IntegrationActive {
		t.Errorf("it is %s", row.Status)
	}
	b.register(tokens, action.ProviderApp{Provider: "nango", BaseURL: b.url}, map[string]string{action.AppAPIKey: "env-canary"})
	revoked, err := tokens.Disconnect(t.Context(), in, "ann")
	if err != nil || !revoked || b.requests("DELETE /connections/c-1?"+url.Values{"provider_config_key": {"acme-prod"}}.Encode()) != 1 {
		t.Errorf("got %v, %v", revoked, err)
	}
}
