package dashboard_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
)

const connectorsPath = "/api/v1/connectors"

// known are presets of every shape.
func known(c *dashboard.Config) {
	c.Presets = []api.Preset{
		{Name: "linear", Title: "Linear", URL: "https://mcp.linear.app/mcp", Auth: []string{"oauth", "secret"}, Prefix: "Bearer ", Variants: []api.PresetVariant{
			{Name: "read-only", Title: "Read-only", URL: "https://mcp.linear.app/mcp/readonly"},
		}},
		{
			Name: "pager", Title: "Pager", URL: "https://mcp.pager.example/mcp", Auth: []string{"secret"}, Header: "X-Key", Prefix: "Token token=", PerAgent: true,
			Headers: map[string]string{"X-A": "1", "X-B": "1"}, Variants: []api.PresetVariant{{Name: "quiet", Headers: map[string]string{"X-B": "2"}}},
		},
		{Name: "custom", Title: "Any other", Auth: []string{"none", "secret", "oauth"}},
	}
}

// A connector and its secret are written together, and the value is seen by
// nobody afterwards.
func TestAConnectorWithItsSecret(t *testing.T) {
	h := newHouse(t)
	said := h.want(201, h.admin, "POST", connectorsPath, `{"name":"My Linear","url":"https://MCP.linear.app/mcp","secret_value":"CANARY-1"}`).body
	secret := func(key string) action.Secret {
		list := must(h.db.ListSecrets(t.Context(), org))
		return list[slices.IndexFunc(list, func(s action.Secret) bool { return s.Key == key })]
	}
	if s := secret("my-linear"); s.Host != "mcp.linear.app" || s.UpdatedBy != "u-ben" || h.secret("my-linear") != "CANARY-1" {
		t.Errorf("secret %+v", s)
	}
	if c := h.connector("my-linear"); c.Secret != "my-linear" || c.Prefix != "Bearer " {
		t.Errorf("connector %+v", c)
	}
	const one = connectorsPath + "/my-linear"
	said += h.want(200, h.admin, "PATCH", one, `{"secret_value":"CANARY-2"}`).body
	if h.secret("my-linear") != "CANARY-2" {
		t.Errorf("sealed %s, connector %+v", h.secret("my-linear"), h.connector("my-linear"))
	}
	said += h.want(200, h.admin, "PATCH", one, `{"secret":"other","secret_value":"CANARY-3"}`).body
	if h.connector("my-linear").Secret != "other" || h.secret("other") != "CANARY-3" {
		t.Errorf("connector %+v", h.connector("my-linear"))
	}
	for _, row := range []struct{ body, field string }{
		{`{"name":"a","url":"https://a.example/","secret_value":"CANARY\nX"}`, "/secret_value"},
		{`{"name":"a","url":"https://a.example/","secret_value":"CANARY","secret":"no key"}`, "/secret"},
		{`{"name":"a","url":"https://a_b.example/","secret_value":"CANARY"}`, "/url"},
		{`{"name":"a","url":"nowhere","secret_value":"CANARY"}`, "/url"},
		{`{"name":"a","url":"https://a.example/","secret_value":"CANARY","oauth":{"kind":"authorization_code"}}`, "/oauth"},
		{`{"name":"a","url":"https://a.example/","secret_value":["CANARY"]}`, "/secret_value"},
	} {
		r := h.want(400, h.admin, "POST", connectorsPath, row.body)
		if said += r.body; r.json(t)["field"] != row.field {
			t.Errorf("%s: %s", row.body, r.body)
		}
	}
	said += h.want(200, h.member, "GET", connectorsPath, "").body + h.want(200, h.member, "GET", "/api/v1/secrets", "").body
	said += h.want(200, h.admin, "POST", connectorsPath+"/validate", `{"url":"https://a.example/","secret_value":"CANARY-4"}`).body
	if h.count("connectors") != 2 || h.count("secrets") != 2 {
		t.Error("a refused or tried connector was kept")
	}
	if diff := cmp.Diff([]string{"Bearer CANARY-4"}, h.out.tried); diff != "" {
		t.Errorf("tried with (-want +got):\n%s", diff)
	}
	if strings.Contains(said+h.log.String(), "CANARY") {
		t.Error("the value of a secret came back, or is in the log")
	}
}

// A value is for the host that it was entered for.
func TestASecretIsAskedForAgain(t *testing.T) {
	h := newHouse(t)
	h.want(201, h.admin, "POST", connectorsPath, `{"name":"a","url":"https://a.example/mcp","secret_value":"v1"}`)
	const one = connectorsPath + "/a"
	if c := h.want(200, h.admin, "PATCH", one, `{"url":"https://a.example:443/v2"}`).json(t); c["review_reset"] != true {
		t.Errorf("a new path: %v", c)
	}
	if c := h.want(200, h.admin, "PATCH", one, `{"name":"a"}`).json(t); c["review_reset"] != nil {
		t.Errorf("the same: %v", c)
	}
	before := h.rows(org)
	p := h.problem(400, "secret_host", h.admin, "PATCH", one, `{"url":"https://evil.example/mcp"}`)
	if p["field"] != "/secret_value" || !strings.Contains(p["detail"].(string), "enter it again") {
		t.Errorf("problem %v", p)
	}
	if diff := cmp.Diff(before, h.rows(org)); diff != "" {
		t.Errorf("a refused change was made:\n%s", diff)
	}
	h.want(200, h.admin, "PATCH", one, `{"url":"https://evil.example/mcp","secret_value":"v2"}`)
	if s := must(h.db.ListSecrets(t.Context(), org))[0]; s.Host != "evil.example" || h.secret("a") != "v2" {
		t.Errorf("secret %+v", s)
	}
	h.want(200, h.admin, "PATCH", one, `{"url":"https://third.example/mcp","secret":""}`)
}

// A key that nobody named is not taken from another connector.
func TestAMadeKeyIsNobodyElses(t *testing.T) {
	h := newHouse(t)
	h.want(201, h.admin, "POST", connectorsPath, `{"name":"a","url":"https://a.example/mcp","secret":"b","secret_value":"v1"}`)
	p := h.problem(409, "secret_in_use", h.admin, "POST", connectorsPath, `{"name":"b","url":"https://a.example/mcp","secret_value":"v2"}`)
	if p["field"] != "/secret" || h.secret("b") != "v1" {
		t.Errorf("problem %v, sealed %s", p, h.secret("b"))
	}
	h.want(201, h.admin, "POST", connectorsPath, `{"name":"b","url":"https://a.example/mcp","secret":"b2","secret_value":"v2"}`)
}

func TestWhatIsSaidOfAServer(t *testing.T) {
	h := newHouse(t)
	h.want(200, h.admin, "PUT", "/api/v1/secrets/client", `{"value":"v","host":"auth.example"}`)
	c := h.want(201, h.admin, "POST", connectorsPath, `{"name":"a","url":"https://a.example/","headers":{"X-Team":"7"},"may_ask":["roots","elicitation","roots"],"per_agent":true,
		"oauth":{"kind":"authorization_code","client_id":"c","client_secret":"client","scopes":["read","write"],"issuer":"https://auth.example"}}`).json(t)
	want := map[string]any{
		"headers": map[string]any{"X-Team": "7"}, "may_ask": []any{"elicitation", "roots"}, "per_agent": true,
		"oauth": map[string]any{
			"kind": "authorization_code", "client_id": "c", "client_secret": "client", "scopes": []any{"read", "write"}, "issuer": "https://auth.example",
		},
		"oauth_status": map[string]any{"status": "not_connected"},
	}
	for name, v := range want {
		if diff := cmp.Diff(v, c[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, body := range []string{
		`{"headers":{"X-Team":"8"}}`, `{"may_ask":[]}`, `{"per_agent":false}`, `{"oauth":{"kind":"authorization_code"}}`, `{"oauth":{"kind":"none"}}`,
	} {
		got := h.want(200, h.admin, "PATCH", connectorsPath+"/a", body).json(t)["revision"]
		if want := json.Number(strconv.FormatInt(h.connector("a").Revision, 10)); got != want {
			t.Errorf("%s: answered revision %v, and the row has %v", body, got, want)
		}
	}
	if c := h.connector("a"); c.OAuth != nil || len(c.MayAsk) > 0 {
		t.Errorf("connector %+v", c)
	}
	for body, field := range map[string]string{
		`"headers":{"Host":"x"}`:                    "/headers/Host",
		`"headers":{"Mcp-Session-Id":"x"}`:          "/headers/Mcp-Session-Id",
		`"headers":{"authorization":"x"}`:           "/headers/authorization",
		`"header":"X-Key","headers":{"x-key":"x"}`:  "/headers/x-key",
		`"headers":{"a/b":"x"}`:                     "/headers/a~1b",
		`"headers":{"X":"a\nb"}`:                    "/headers/X",
		`"headers":{"X":""}`:                        "/headers/X",
		`"headers":{"X":" a"}`:                      "/headers/X",
		`"headers":{"X-a":"1","x-A":"2"}`:           "/headers/x-A",
		`"headers":{"Idempotency-Key":"x"}`:         "/headers/Idempotency-Key",
		`"headers":{"accept-encoding":"x"}`:         "/headers/accept-encoding",
		`"headers":{"Keep-Alive":"x"}`:              "/headers/Keep-Alive",
		`"headers":{"Content-Encoding":"x"}`:        "/headers/Content-Encoding",
		`"headers":{"User-Agent":"x"}`:              "/headers/User-Agent",
		`"header":"User-Agent"`:                     "/header",
		`"headers":{"` + long("x", 101) + `":"x"}`:  "/headers/" + long("x", 101),
		`"headers":{"X":"` + long("x", 1025) + `"}`: "/headers/X",
		`"headers":{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","11":""}`: "/headers",
		`"may_ask":["everything"]`:              "/may_ask/0",
		`"oauth":{"kind":"password"}`:           "/oauth/kind",
		`"oauth":{"kind":"client_credentials"}`: "/oauth/client_id",
		`"oauth":{"kind":"authorization_code","client_id":"c","client_secret":"none"}`: "/oauth/client_secret",
		`"oauth":{"kind":"authorization_code","scopes":["a b"]}`:                       "/oauth/scopes/0",
		`"oauth":{"kind":"authorization_code","scopes":["a","a"]}`:                     "/oauth/scopes/1",
		`"oauth":{"kind":"authorization_code","scopes":["` + long("s", 201) + `"]}`:    "/oauth/scopes/0",
		`"oauth":{"kind":"authorization_code","scopes":[` + long(`"s",`, 50) + `"s"]}`: "/oauth/scopes",
		`"oauth":{"kind":"authorization_code","client_id":"a\u0007"}`:                  "/oauth/client_id",
		`"oauth":{"kind":"authorization_code","client_id":"` + long("c", 1025) + `"}`:  "/oauth/client_id",
		`"oauth":{"kind":"authorization_code","client_secret":"client"}`:               "/oauth/client_id",
		`"oauth":{"kind":"authorization_code","issuer":"http://auth.example"}`:         "/oauth/issuer",
		`"oauth":{"kind":"authorization_code","issuer":"https://a.example/?"}`:         "/oauth/issuer",
		`"oauth":{"kind":"authorization_code","issuer":"https://a.example/?x=1"}`:      "/oauth/issuer",
		`"secret":"client","oauth":{"kind":"authorization_code"}`:                      "/oauth",
	} {
		for path, body := range map[string]string{connectorsPath: `{"name":"n","url":"https://auth.example/",` + body + `}`, connectorsPath + "/validate": `{"url":"https://auth.example/",` + body + `}`} {
			if r := h.want(400, h.admin, "POST", path, body); r.json(t)["field"] != field {
				t.Errorf("%s %s: %s, want %s", path, body, r.body, field)
			}
		}
	}
}

func long(part string, n int) string { return strings.Repeat(part, n) }

// What the rows take is taken here, to the last character.
func TestAsMuchAsCanBeSaidOfAServer(t *testing.T) {
	h := newHouse(t)
	scopes := []string{long("s", 200)}
	for i := range 49 {
		scopes = append(scopes, "s"+strconv.Itoa(i))
	}
	body, err := json.Marshal(map[string]any{
		"name": "a", "url": "https://a.example/", "headers": map[string]string{long("x", 100): long("y ", 511) + "yy"},
		"oauth": map[string]any{"kind": "authorization_code", "client_id": long("c", 1024), "scopes": scopes},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.want(201, h.admin, "POST", connectorsPath, string(body))
}

func TestPresets(t *testing.T) {
	h := newHouse(t, known)
	if list := h.want(200, h.member, "GET", connectorsPath+"/presets", "").list(t); len(list) != 3 || list[0]["name"] != "linear" {
		t.Errorf("presets %v", list)
	}
	for _, row := range []struct {
		body string
		want action.Connector
	}{
		{`{"name":"a","preset":"linear","secret_value":"v"}`, action.Connector{URL: "https://mcp.linear.app/mcp", Prefix: "Bearer ", Secret: "a", Preset: "linear"}},
		{`{"name":"b","preset":"linear","variant":"read-only"}`, action.Connector{URL: "https://mcp.linear.app/mcp/readonly", Prefix: "Bearer ", Preset: "linear"}},
		{`{"name":"c","preset":"pager","variant":"quiet"}`, action.Connector{
			URL: "https://mcp.pager.example/mcp", Header: "X-Key", Prefix: "Token token=", Headers: map[string]string{"X-A": "1", "X-B": "2"}, PerAgent: true, Preset: "pager",
		}},
		{`{"name":"d","preset":"pager","url":"https://own.example/","header":"X-Own","headers":{},"per_agent":false}`, action.Connector{URL: "https://own.example/", Header: "X-Own", Preset: "pager"}},
		{`{"name":"e","preset":"custom","url":"https://own.example/","secret_value":"v"}`, action.Connector{URL: "https://own.example/", Prefix: "Bearer ", Secret: "e", Preset: "custom"}},
	} {
		c := h.connector(h.want(201, h.admin, "POST", connectorsPath, row.body).json(t)["id"].(string))
		got := action.Connector{URL: c.URL, Header: c.Header, Prefix: c.Prefix, Secret: c.Secret, Headers: c.Headers, PerAgent: c.PerAgent, Preset: c.Preset}
		if len(got.Headers) == 0 {
			got.Headers = nil
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.body, diff)
		}
	}
	for body, field := range map[string]string{
		`{"name":"x","preset":"linaer"}`:                            "/preset",
		`{"name":"x","preset":"linear","variant":"quiet"}`:          "/variant",
		`{"name":"x","url":"https://x.example/","variant":"quiet"}`: "/variant",
		`{"name":"x","preset":"custom"}`:                            "/url",
	} {
		if r := h.want(400, h.admin, "POST", connectorsPath, body); r.json(t)["field"] != field {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}

// A check says what is there, how long each step took, and what is wrong.
func TestValidation(t *testing.T) {
	h := newHouse(t)
	h.want(201, h.admin, "POST", connectorsPath, `{"name":"down","url":"http://down.example/mcp"}`)
	good := h.want(200, h.admin, "POST", connectorsPath+"/github/validate", "").json(t)
	num := func(text string) any { return json.Number(text) }
	want := map[string]any{
		"tool_count": num("5"), "resource_count": num("3"), "template_count": num("1"), "prompt_count": num("2"), "protocol_version": "2025-11-25",
		"steps":     []any{map[string]any{"name": "tls", "took_ms": num("1.5"), "detail": "TLS 1.3"}, map[string]any{"name": "tools", "took_ms": num("40")}},
		"diagnosis": nil, "retry_at": nil,
	}
	for name, v := range want {
		if diff := cmp.Diff(v, good[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, path := range []string{"/down/validate", "/validate"} {
		bad := h.want(200, h.admin, "POST", connectorsPath+path, map[string]string{"/validate": `{"url":"http://down.example/mcp"}`}[path]).json(t)
		if d := bad["diagnosis"].(map[string]any); d["code"] != "upstream_unreachable" || d["message"] != "The server did not answer." || (bad["retry_at"] == "2026-03-01T12:01:00Z") != (path == "/down/validate") {
			t.Errorf("%s: %v", path, bad)
		}
	}
}

// What reads resources and gets prompts is under policy like tools, and apart
// from them.
func TestActionsThatAreNoTools(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{action.ActionRead, action.ActionPrompt} {
		m := h.want(200, h.admin, "PUT", "/api/v1/policy/modes/github:"+strings.ReplaceAll(name, "/", "%2F"), `{"mode":"deny"}`).json(t)
		if m["key"] != "connector:c1:"+name {
			t.Errorf("mode %v", m)
		}
	}
	p := h.problem(400, "unknown_action", h.admin, "PUT", "/api/v1/policy/modes/github:resources%2Fraed", `{"mode":"deny"}`)
	if strings.Contains(p["detail"].(string), "/read") {
		t.Errorf("problem %v", p)
	}
	h.want(200, h.admin, "PUT", "/api/v1/capabilities/g/github", `{"level":2,"allowed_actions":["resources/read"]}`)
	v := h.want(200, h.member, "GET", connectorsPath+"/github", "").json(t)
	var names []string
	for _, b := range v["beside"].([]any) {
		b := b.(map[string]any)
		if b["tool"] != nil || b["mode"] != "allow" {
			t.Errorf("beside tools %v", b)
		}
		names = append(names, b["name"].(string))
	}
	if diff := cmp.Diff([]string{action.ActionPrompt, action.ActionRead}, names); diff != "" || len(v["tools"].([]any)) != 5 {
		t.Errorf("tools %v\n%s", v["tools"], diff)
	}
}
