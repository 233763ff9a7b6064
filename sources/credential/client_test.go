package credential_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

// host is that of the token endpoint.
func (s *service) host() string { return strings.TrimPrefix(s.auth.URL, "http://") }

func TestWhoTheGatewayIs(t *testing.T) {
	const document = "https://gateway.example/oauth/client.json"
	only := func(methods ...string) func(*service) {
		return func(s *service) { s.meta["token_endpoint_auth_methods_supported"] = methods }
	}
	byHand := func(key string) func(*action.OAuthSettings) {
		return func(s *action.OAuthSettings) { s.ClientID, s.ClientSecret = "by-hand", key }
	}
	for name, test := range map[string]struct {
		service  func(s *service)
		settings func(s *action.OAuthSettings)
		proof    string
	}{
		"registered":                    {proof: "basic client-1 registered-canary"},
		"registered, secret in a form":  {service: only("client_secret_post", "none"), proof: "post client-1 registered-canary"},
		"registered, public":            {service: only("none"), proof: "none client-1"},
		"by hand":                       {settings: byHand("key"), proof: "basic by-hand hand-canary"},
		"by hand, secret in a form":     {service: only("client_secret_post"), settings: byHand("key"), proof: "post by-hand hand-canary"},
		"by hand, public":               {settings: byHand(""), proof: "none by-hand"},
		"by its document":               {service: func(s *service) { s.meta["client_id_metadata_document_supported"] = true }, proof: "none " + document},
		"by hand goes before documents": {service: func(s *service) { s.meta["client_id_metadata_document_supported"] = true }, settings: byHand(""), proof: "none by-hand"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.secrets["key"] = [2]string{"hand-canary", h.service.host()}
			if test.service != nil {
				h.service.with(test.service)
			}
			o, c := h.instance(func(c *credential.Config) { c.MetadataURL = document }), h.connector()
			if test.settings != nil {
				test.settings(c.OAuth)
			}
			h.signIn(o, c)
			h.pass(2 * time.Hour)
			h.token(o, c)
			if got := h.service.proofs; len(got) != 2 || got[0] != test.proof || got[1] != test.proof {
				t.Errorf("the client proved itself by %q", got)
			}
		})
	}
}

func TestARegistrationIsUsedAgain(t *testing.T) {
	h := newHouse(t)
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	h.signIn(o, c)
	if n := len(h.service.registered); n != 1 {
		t.Errorf("registered %d times", n)
	}
	h.signIn(h.instance(func(c *credential.Config) { c.RedirectURL = callback + "/moved" }), c)
	if n := len(h.service.registered); n != 2 {
		t.Errorf("with another redirect URL, registered %d times", n)
	}
	want := map[string]any{
		"client_name": "Sallyport", "redirect_uris": []any{callback}, "application_type": "native", "response_types": []any{"code"},
		"grant_types": []any{"authorization_code", "refresh_token"}, "token_endpoint_auth_method": "client_secret_basic",
	}
	if diff := cmp.Diff(want, h.service.registered[0]); diff != "" {
		t.Error(diff)
	}
}

func TestClientsThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct {
		service  func(s *service)
		settings func(s *action.OAuthSettings)
		kind     error
		says     string
	}{
		"no registration": {service: func(s *service) { s.meta["registration_endpoint"] = nil }, kind: action.ErrInvalid, says: "with the redirect URL " + callback},
		"registration refused": {service: func(s *service) {
			s.register = func(w http.ResponseWriter, _ *http.Request) { refuse(w, "invalid_client_metadata") }
		}, kind: action.ErrInvalid, says: "invalid_client_metadata"},
		"another kind of proof": {
			service:  func(s *service) { s.meta["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt"} },
			settings: func(s *action.OAuthSettings) { s.ClientID, s.ClientSecret = "by-hand", "key" }, kind: action.ErrInvalid, says: "private_key_jwt",
		},
		"nobody signs in": {settings: func(s *action.OAuthSettings) { s.Kind = action.OAuthClient }, kind: action.ErrInvalid, says: "authorization_code"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			if test.service != nil {
				h.service.with(test.service)
			}
			c := h.connector()
			if test.settings != nil {
				test.settings(c.OAuth)
			}
			_, _, err := h.instance().Begin(t.Context(), c, "ann")
			code := "oauth_client"
			if name == "nobody signs in" {
				code = "oauth_flow"
			}
			fails(t, err, test.kind, code, test.says)
		})
	}
}

// A client's secret goes to the one host that it was set for, whatever the
// MCP server and its authorization server say.
func TestAClientsSecretStaysAtItsHost(t *testing.T) {
	for _, kind := range []action.OAuthKind{action.OAuthCode, action.OAuthClient} {
		h := newHouse(t)
		h.secrets["key"] = [2]string{"hand-canary", "auth.example"}
		o, c := h.instance(), h.connector()
		c.OAuth = &action.OAuthSettings{Kind: kind, ClientID: "by-hand", ClientSecret: "key"}
		var err error
		if kind == action.OAuthClient {
			_, _, err = o.Token(t.Context(), c)
		} else {
			authorize, _, beginErr := o.Begin(t.Context(), c, "ann")
			if beginErr != nil {
				t.Fatal(beginErr)
			}
			_, err = finish(t, o, "ann", h.visit(authorize))
		}
		fails(t, err, action.ErrUnavailable, "oauth_client", "was set for the host auth.example")
		if len(h.service.asked) > 0 {
			t.Errorf("the token endpoint was asked: %q", h.service.asked)
		}
	}
}

func TestClientCredentials(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		h := newHouse(t)
		h.secrets["key"] = [2]string{"hand-canary", h.service.host()}
		h.service.with(func(s *service) {
			s.meta["token_endpoint_auth_methods_supported"] = []string{method}
			s.meta["authorization_endpoint"], s.meta["code_challenge_methods_supported"] = nil, nil
		})
		o, c := h.instance(), h.connector()
		c.OAuth = &action.OAuthSettings{Kind: action.OAuthClient, ClientID: "robot", ClientSecret: "key", Scopes: []string{"read"}}
		if got := h.token(o, c); got != "access-canary-1" {
			t.Errorf("got %q", got)
		}
		if got := h.token(h.instance(), c); got != "access-canary-1" {
			t.Errorf("another instance got %q", got)
		}
		h.pass(time.Hour)
		if got := h.token(o, c); got != "access-canary-2" {
			t.Errorf("after an hour it got %q", got)
		}
		h.pass(time.Minute)
		if again, err := o.Refused(t.Context(), c, "access-canary-2", http.StatusUnauthorized, nil); !again || err != nil {
			t.Errorf("refused: %v, %v", again, err)
		}
		if got := h.token(o, c); got != "access-canary-3" {
			t.Errorf("after a refusal it got %q", got)
		}
		c.OAuth.Scopes = []string{"read", "write"}
		h.token(o, c)
		last := h.service.asked[len(h.service.asked)-1]
		if want := (url.Values{"grant_type": {"client_credentials"}, "scope": {"read write"}, "resource": {h.service.url()}}); method == "client_secret_basic" && !cmp.Equal(want, last) {
			t.Error(cmp.Diff(want, last))
		}
		if p := h.service.proofs[0]; p != strings.TrimPrefix(method, "client_secret_")+" robot hand-canary" {
			t.Errorf("it proved itself by %q", p)
		}
		again, err := o.Refused(t.Context(), c, h.token(o, c), http.StatusForbidden, []string{`Bearer error="insufficient_scope", scope="admin"`})
		fails(t, err, action.ErrUnavailable, sources.FaultAuth, "the scopes admin. Add them")
		if again {
			t.Error("it would be tried again")
		}
	}
}

func TestClientCredentialsThatAreNotTaken(t *testing.T) {
	h := newHouse(t)
	h.secrets["key"] = [2]string{"hand-canary", h.service.host()}
	o, c := h.instance(), h.connector()
	c.OAuth = &action.OAuthSettings{Kind: action.OAuthClient, ClientID: "robot", ClientSecret: "key"}
	no := func(w http.ResponseWriter, _ *http.Request) { refuse(w, "invalid_client") }
	h.service.with(func(s *service) { s.token = no })
	for range 3 { // before any token was had
		_, _, err := o.Token(t.Context(), c)
		fails(t, err, action.ErrUnavailable, sources.FaultAuth, "invalid_client")
	}
	h.service.with(func(s *service) { s.token = nil })
	h.pass(time.Minute)
	h.token(o, c)
	h.service.with(func(s *service) { s.token = no })
	h.pass(time.Hour)
	for range 3 { // and after
		_, _, err := o.Token(t.Context(), c)
		fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "check the OAuth settings")
	}
	if n := h.service.grants("client_credentials"); n != 3 {
		t.Errorf("the server was asked %d times", n)
	}
	if g := h.grant(); g.Status != action.OAuthReconnect || !strings.Contains(g.Reason, "invalid_client") {
		t.Errorf("the grant is %+v", g)
	}
	h.service.with(func(s *service) { s.token = nil })
	h.pass(time.Minute)
	h.token(o, c) // it mends itself
	if g := h.grant(); g.Status != action.OAuthConnected || g.Reason != "" {
		t.Errorf("the grant is %+v", g)
	}
}

func TestDisconnecting(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *service)
		want   []string
	}{
		"tokens are given back":   {func(*service) {}, []string{"refresh_token refresh-canary-1", "access_token access-canary-1"}},
		"nobody takes them":       {func(s *service) { s.meta["revocation_endpoint"] = nil }, nil},
		"another host takes them": {func(s *service) { s.meta["revocation_endpoint"] = s.mcp.URL + "/revoke" }, nil},
		"nobody answers":          {func(s *service) { s.meta["revocation_endpoint"] = s.auth.URL + "/\x00" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.service.with(test.change)
			o, c := h.instance(), h.connector()
			h.signIn(o, c)
			h.token(o, c)
			if err := o.Disconnect(t.Context(), c, "ann"); err != nil {
				t.Fatal(err)
			}
			_, _, err := o.Token(t.Context(), c)
			fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "has no sign-in yet")
			if diff := cmp.Diff(test.want, h.service.revoked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScopesAreAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(s *service)
		settings []string
		want     string
		prompt   string
	}{
		"none":             {func(*service) {}, nil, "", ""},
		"all there are":    {func(s *service) { s.resource["scopes_supported"] = []string{"a", "b"} }, nil, "a b", ""},
		"of the challenge": {func(s *service) { s.challenge = `scope="c"`; s.resource["scopes_supported"] = []string{"a", "b"} }, nil, "c", ""},
		"of the settings":  {func(s *service) { s.challenge = `scope="c"` }, []string{"d", "e"}, "d e", ""},
		"to stay":          {func(s *service) { s.challenge = `scope="c"`; s.meta["scopes_supported"] = []string{"offline_access"} }, nil, "offline_access c", "consent"},
		"odd ones":         {func(s *service) { s.resource["scopes_supported"] = []string{"a\"", "b c", "", "d", "d"} }, nil, "d", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.service.with(test.change)
			c := h.connector()
			c.OAuth.Scopes = test.settings
			h.signIn(h.instance(), c)
			q := h.service.authorized[0]
			if got := q.Get("scope"); got != test.want || q.Has("scope") != (test.want != "") || q.Get("prompt") != test.prompt {
				t.Errorf("asked for %q, prompt %q", got, q.Get("prompt"))
			}
		})
	}
}

func TestClientMetadata(t *testing.T) {
	h := newHouse(t)
	if got := h.instance().ClientMetadata(); got != nil {
		t.Errorf("without a URL it is %s", got)
	}
	raw := h.instance(func(c *credential.Config) {
		c.MetadataURL, c.RedirectURL, c.ClientName = "https://gateway.example/client.json", "https://gateway.example/callback", "Ours"
	}).ClientMetadata()
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"client_id": "https://gateway.example/client.json", "client_name": "Ours", "redirect_uris": []any{"https://gateway.example/callback"},
		"application_type": "web", "response_types": []any{"code"}, "grant_types": []any{"authorization_code", "refresh_token"},
		"token_endpoint_auth_method": "none",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
