package credential_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

func TestWhereMetadataIs(t *testing.T) {
	const resourceRoot = "/.well-known/oauth-protected-resource"
	for name, change := range map[string]func(s *service){
		"at the places of the paths": func(*service) {},
		"where the challenge says": func(s *service) {
			s.resourceAt = "/.well-known/mine"
			s.challenge = `resource_metadata="` + s.mcp.URL + s.resourceAt + `"`
		},
		"at the root, for the server":      func(s *service) { s.resourceAt = resourceRoot },
		"at the root, for the whole host":  func(s *service) { s.resourceAt = resourceRoot; s.resource["resource"] = s.mcp.URL },
		"its resource ends in a slash":     func(s *service) { s.resource["resource"] = s.url() + "/" },
		"OpenID Connect":                   func(s *service) { s.metaAt = "/.well-known/openid-configuration" },
		"an issuer with a path":            func(s *service) { s.path = "/tenant" },
		"OpenID Connect, path inserted":    func(s *service) { s.path = "/tenant"; s.metaAt = "/.well-known/openid-configuration/tenant" },
		"OpenID Connect, path appended":    func(s *service) { s.path = "/tenant"; s.metaAt = "/tenant/.well-known/openid-configuration" },
		"a slash at the end of the issuer": func(s *service) { s.resource["authorization_servers"] = []string{s.issuer() + "/"} },
		"the server answers with a page":   func(s *service) { s.page = strings.Repeat("x", 65<<10) },
		"the challenge is of no use":       func(s *service) { s.challenge = `realm="x` },
		"the challenge leads to a 404":     func(s *service) { s.challenge = `resource_metadata="` + s.mcp.URL + `/nothing"` },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.service.with(change)
			want := h.service.url()
			if r, ok := h.service.resource["resource"].(string); ok {
				want = r
				h.service.with(func(s *service) {
					s.token = func(w http.ResponseWriter, _ *http.Request) { s.issue(w, false) }
				})
			}
			o, c := h.instance(), h.connector()
			h.signIn(o, c)
			h.token(o, c)
			if got := h.service.authorized[0].Get("resource"); got != want || h.service.asked[0].Get("resource") != want {
				t.Errorf("the resource is %q", got)
			}
			if got := h.grant().Issuer; got != h.service.issuer() {
				t.Errorf("the issuer is %q", got)
			}
		})
	}
}

// Servers of MCP 2025-03-26 say nothing: their own host is the authorization
// server.
func TestServersWithoutMetadata(t *testing.T) {
	for name, change := range map[string]func(s *service){
		"none at all":                func(s *service) { s.metaAt = "/nowhere" },
		"of an authorization server": func(*service) {},
		"of one with a path":         func(s *service) { s.metaAt, s.path = "/.well-known/oauth-authorization-server", "/oauth" },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			one := h.service.mcp.Config.Handler.(*http.ServeMux)
			one.HandleFunc("GET /.well-known/oauth-authorization-server", h.service.serveMeta)
			one.HandleFunc("GET /authorize", h.service.serveAuthorize)
			one.HandleFunc("POST /token", h.service.serveToken)
			one.HandleFunc("POST /register", h.service.serveRegister)
			h.service.with(change)
			h.service.with(func(s *service) { s.resourceAt = "/nowhere"; s.auth = s.mcp })
			o, c := h.instance(), h.connector()
			for _, want := range []string{"access-canary-1", "access-canary-2"} {
				h.signIn(o, c)
				if got := h.token(o, c); got != want {
					t.Errorf("got %q", got)
				}
			}
			h.service.with(func(s *service) { s.metaAt = ""; s.path = ""; s.meta["issuer"] = "https://elsewhere.example" })
			_, _, err := o.Begin(t.Context(), c, "ann")
			fails(t, err, action.ErrUnavailable, "oauth_discovery", "identifies itself as")
		})
	}
}

func TestWhatServersSayThatCannotBeUsed(t *testing.T) {
	elsewhere := 0
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer target.Close()
	for name, test := range map[string]struct {
		change func(s *service)
		code   string
		says   string
	}{
		"a resource elsewhere":    {func(s *service) { s.resource["resource"] = "https://elsewhere.example/mcp" }, "oauth_discovery", "not for the connector's URL"},
		"a resource beside":       {func(s *service) { s.resource["resource"] = s.mcp.URL + "/mcp2" }, "oauth_discovery", "not for the connector's URL"},
		"the host of a tenant":    {func(s *service) { s.resource["resource"] = s.mcp.URL }, "oauth_discovery", "not for the connector's URL"},
		"no resource":             {func(s *service) { s.resource["resource"] = nil }, "oauth_discovery", "not for the connector's URL"},
		"no authorization server": {func(s *service) { s.resource["authorization_servers"] = nil }, "oauth_discovery", "names no authorization server"},
		"another issuer":          {func(s *service) { s.meta["issuer"] = "https://elsewhere.example" }, "oauth_discovery", "identifies itself as"},
		"no PKCE":                 {func(s *service) { s.meta["code_challenge_methods_supported"] = nil }, "oauth_discovery", "PKCE"},
		"plain PKCE":              {func(s *service) { s.meta["code_challenge_methods_supported"] = []string{"plain"} }, "oauth_discovery", "PKCE"},
		"a script":                {func(s *service) { s.meta["authorization_endpoint"] = "javascript:alert(1)" }, "oauth_discovery", "authorization endpoint"},
		"a fragment":              {func(s *service) { s.meta["authorization_endpoint"] = "https://elsewhere.example/#x" }, "oauth_discovery", "fragment"},
		"no token endpoint":       {func(s *service) { s.meta["token_endpoint"] = nil }, "oauth_discovery", "token endpoint"},
		"plain http":              {func(s *service) { s.meta["token_endpoint"] = "http://elsewhere.example/token" }, "oauth_discovery", "does not use https"},
		"no metadata":             {func(s *service) { s.metaAt = "/nowhere" }, "oauth_discovery", "Check the issuer"},
		"too much metadata":       {func(s *service) { s.meta["x"] = strings.Repeat("x", 65<<10) }, "oauth_discovery", "larger than"},
		"a private issuer":        {func(s *service) { s.resource["authorization_servers"] = []string{"https://10.1.2.3"} }, sources.FaultBlocked, `"private"`},
		"a cloud's metadata":      {func(s *service) { s.challenge = `resource_metadata="https://169.254.169.254/latest"` }, sources.FaultBlocked, `"cloud metadata"`},
		"a private registration":  {func(s *service) { s.meta["registration_endpoint"] = "https://192.168.0.1/register" }, sources.FaultBlocked, `"private"`},
		"a redirect elsewhere":    {func(s *service) { s.challenge = `resource_metadata="` + s.auth.URL + `/redirect"` }, "oauth_discovery", "another host or port"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.service.with(test.change)
			h.service.auth.Config.Handler.(*http.ServeMux).Handle("GET /redirect", http.RedirectHandler(target.URL, http.StatusFound))
			authorize, _, err := h.instance().Begin(t.Context(), h.connector(), "ann")
			fails(t, err, action.ErrUnavailable, test.code, test.says)
			if authorize != "" || len(h.flows) > 0 || elsewhere > 0 {
				t.Errorf("it went on to %q", authorize)
			}
		})
	}
}

// A server on the open network must not lead the gateway to itself.
func TestURLsThatServersName(t *testing.T) {
	for _, test := range []struct {
		server, named string
		good          bool
	}{
		{"https://mcp.example/mcp", "https://auth.example/token", true},
		{"https://mcp.example/mcp", "http://auth.example/token", false},
		{"https://mcp.example/mcp", "http://mcp.example/token", false},
		{"https://mcp.example/mcp", "http://127.0.0.1/token", false},
		{"https://mcp.example/mcp", "https://127.0.0.1/token", false},
		{"https://mcp.example/mcp", "https://localhost:8443/token", false},
		{"https://mcp.example/mcp", "https://[::1]/token", false},
		{"https://mcp.example/mcp", "file:///etc/passwd", false},
		{"https://mcp.example/mcp", "https://user@auth.example/", false},
		{"http://mcp.example/mcp", "http://mcp.example/token", true},
		{"http://mcp.example/mcp", "http://auth.example/token", false},
		{"http://mcp.example/mcp", "http://127.0.0.1/token", false},
		{"http://127.0.0.1:1/mcp", "http://localhost:2/token", true},
		{"http://127.0.0.1:1/mcp", "https://auth.example/token", true},
	} {
		err := credential.Check(newHouse(t).instance(), test.server, test.named)
		if (err == nil) != test.good {
			t.Errorf("%s names %s: %v", test.server, test.named, err)
		}
	}
}

func TestAnIssuerIsKept(t *testing.T) {
	h := newHouse(t)
	o, c := h.instance(), h.connector()
	h.signIn(o, c)
	second := startService(t)
	h.service.with(func(s *service) { s.resource["authorization_servers"] = []string{second.issuer()} })
	_, _, err := o.Begin(t.Context(), c, "ann")
	fails(t, err, action.ErrConflict, "oauth_issuer_moved", second.issuer())

	// Where an admin says so, the gateway is registered anew.
	second.with(func(s *service) { s.token = func(w http.ResponseWriter, _ *http.Request) { s.issue(w, false) } })
	c.OAuth.Issuer = second.issuer()
	h.signIn(o, c)
	if len(second.registered) != 1 || second.sees("canary") && !second.sees("registered-canary") || second.sees("refresh-canary") {
		t.Errorf("the second server was asked %q", second.asked)
	}
	if got := h.grant().Issuer; got != second.issuer() {
		t.Errorf("the issuer is %q", got)
	}

	// Among several, the one that was used is used.
	h.service.with(func(s *service) { s.resource["authorization_servers"] = []string{s.issuer(), second.issuer()} })
	c.OAuth.Issuer = ""
	authorize, _, err := o.Begin(t.Context(), c, "ann")
	if err != nil || !strings.HasPrefix(authorize, second.issuer()) {
		t.Errorf("%q, %v", authorize, err)
	}
}
