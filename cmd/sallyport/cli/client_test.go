package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

// Text from other parties cannot move the cursor, hide or reorder text.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                 "plain",
		"héllo 🚪":               "héllo 🚪",
		"\x1b[2Jgone":           `\u001b[2Jgone`,
		"two\nlines\tand\r":     `two\u000alines\u0009and\u000d`,
		"admin\u202egnp.exe":    `admin\u202egnp.exe`,
		"zero\u200bwidth\ufeff": `zero\u200bwidth\ufeff`,
		"bad \xff":              "bad \ufffd",
	} {
		if got := command.Printable(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

// --json changes only whitespace in the response.
func TestPrintJSON(t *testing.T) {
	var out bytes.Buffer
	std := &command.Streams{Out: &out}
	if err := std.PrintJSON(json.RawMessage(`{"n":12345678901234567890.10,"b":"<&>","a":[]}`)); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"n\": 12345678901234567890.10,\n  \"b\": \"<&>\",\n  \"a\": []\n}\n"; out.String() != want {
		t.Errorf("printed %q", out.String())
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 89 * time.Second: "1m", 4*time.Minute + 59*time.Second: "5m", 59*time.Minute + 40*time.Second: "1h", 3 * time.Hour: "3h", 47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
}

// Every kind of response leads to a helpful error message.
func TestAPIErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"a problem":            {409, `{"status":409,"code":"already_decided","detail":"ada approved it."}`, "ada approved it."},
		"a problem of a field": {400, `{"code":"invalid_field","detail":"Too long.","field":"/title"}`, "Too long. (title)"},
		"a field in the text":  {400, `{"code":"invalid_field","detail":"title is too long.","field":"/title"}`, "title is too long."},
		"a list elsewhere":     {404, `{"code":"x","detail":"There is none. GET /api/v1/grants lists them."}`, "none. sallyport grant list lists"},
		"a proxy's page":       {502, `<html>Bad Gateway</html>`, "not a Sallyport response"},
		"nothing":              {500, ``, "not a Sallyport response"},
		"control characters":   {400, `{"code":"x","detail":"a\u001b[2Jb"}`, `a\u001b[2Jb`},
		"success of another":   {200, `<html>Hello</html>`, "the same version"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			client, err := NewClient(server.URL, "key")
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = Fetch(t.Context(), client, api.GetMe, api.None{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, which lacks %q", err, c.want)
			}
		})
	}
}

// The key is sent only to the configured server; redirects are not followed.
func TestKeyIsNotRedirected(t *testing.T) {
	var leaked string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = r.Header.Get("Authorization")
	}))
	defer thief.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(thief.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	client, err := NewClient(server.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Fetch(t.Context(), client, api.PutSecret, api.ByKeyWith[api.NewSecret]{Body: api.NewSecret{Value: "secret"}})
	if p := new(problem); err == nil || errors.As(err, &p) {
		t.Errorf("the redirection was followed: %v", err)
	}
	if leaked != "" {
		t.Errorf("the key went elsewhere: %q", leaked)
	}
}

// A server given by URL needs a key of its own: with an agent's environment
// variables, a command does not use the owner's key.
func TestDataFolderKeyIsNotUsedForURL(t *testing.T) {
	data := t.TempDir()
	if err := (command.Endpoint{URL: "http://127.0.0.1:8787", MCPURL: "http://127.0.0.1:8787/mcp", APIKey: "spk_of_the_folder"}).Write(data); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SALLYPORT_API_KEY", "")
	if c, err := (&clientFlags{Data: data}).connect(); err != nil || c.Key != "spk_of_the_folder" {
		t.Errorf("the folder alone: %v", err)
	}
	for at, says := range map[string]string{
		"http://127.0.0.1:8787": "unset SALLYPORT_URL", "http://127.0.0.1:8787/mcp": "without a path", "http://127.0.0.1:8787/x/": "without a path", "127.0.0.1:8787": "is not the URL of a server",
	} {
		if _, err := (&clientFlags{URL: at, Data: data}).connect(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// A user who passes the connector's URL as --url does not send it the key.
func TestConnectorUpdateSendsNoKeyToAConnector(t *testing.T) {
	var leaked []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = append(leaked, r.Header["Authorization"]...)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer upstream.Close()
	t.Setenv("SALLYPORT_API_KEY", "spk_x")
	for at, want := range map[string]int{upstream.URL: command.ExitError, upstream.URL + "/mcp": command.ExitUsage, upstream.URL + "/v1/": command.ExitUsage} {
		var out, said bytes.Buffer
		status := executeClient(t.Context(), []string{"connector", "update", "Dead", "--rename", "Alive", "--url", at}, nil, &out, &said)
		if status != want || !strings.Contains(said.String(), "--endpoint") {
			t.Errorf("%s: status %d, %s", at, status, said.String())
		}
	}
	if leaked != nil {
		t.Errorf("the connector's server got %q", leaked)
	}
}

// A suggested command addresses the same server as the command that printed it.
func TestHintNamesServer(t *testing.T) {
	for want, r := range map[string]clientFlags{
		"sallyport approve ID":                            {},
		"sallyport approve ID --data '/a b'":              {Data: "/a b"},
		"sallyport approve ID --url https://gate.example": {URL: "https://gate.example", Data: "/not/asked"},
	} {
		if got := r.hint("approve", "ID"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

// Errors name the flags and arguments of the command in place of API fields,
// and commands in place of API routes.
func TestErrorsUseFlagNames(t *testing.T) {
	const connectors = "/api/v1/connectors"
	for _, c := range []struct{ command, path, detail, field, want string }{
		{"connector add A", connectors, "The field url is missing, and no preset provides it.", "/url", "The field url is missing, and no preset provides it."},
		{"connector add A", connectors, "url must be an absolute URL.", "/url", "URL must be an absolute URL."},
		{"connector update A", connectors + "/a", "url must have at most 2048 characters.", "/url", "--endpoint must have at most 2048 characters."},
		{"connector update A", connectors + "/a", "name must not be empty.", "/name", "--rename must not be empty."},
		{"connector add A", connectors, "oauth.client_id must have at most 1024 characters.", "/oauth/client_id", "--client-id must have at most 1024 characters."},
		{"connector add A", connectors, "Leave secret_value out, or set oauth.kind to none.", "/oauth", "Leave --secret-stdin out, or set --oauth to none."},
		{"connector add A", connectors, "For oauth.kind client_credentials, give client_id.", "/oauth/client_id", "For --oauth client, give --client-id."},
		{"connector add A", connectors, "This scope is listed twice. List it once.", "/oauth/scopes/3", "This scope is listed twice. List it once. (--scope)"},
		{"connector add A", connectors, "The risk of a tool must be one of read, write, danger.", "/tool_risks/a~1b", "The risk of a tool must be one of read, write, danger. (--tool-risk a/b)"},
		{"connector add A", connectors, "timeout_seconds must be at most 120.", "/timeout_seconds", "--timeout must be at most 120s."},
		{"connector add A", connectors, "The connector A already uses a secret \"a\"; set `secret` to another key.", "/secret", "The connector A already uses a secret \"a\"; set --secret to another key."},
		{"connector review A", connectors + "/a/review", "There is no tool b. GET /api/v1/connectors/a/tools lists them.", "/tools", "There is no tool b. sallyport connector review a lists them."},
		{"integration connect linear", "/api/v1/integrations", "base_url must be an https URL without a query.", "/base_url", "--base-url must be an https URL without a query."},
		{"integration connect linear", "/api/v1/integrations", "There is no field pr_base.", "/settings/pr_base", "There is no field pr_base. (--settings pr_base)"},
		{"integration connect linear", "/api/v1/integrations", "Leave `broker` out.", "/broker", "Leave --nango out."},
		{"integration app set nango", "/api/v1/integrations/apps" + "/nango", "Send the key of the Nango environment as api_key.", "/api_key", "Send the key of the Nango environment as --api-key-stdin."},
		{"session create", "/api/v1/sessions", `There is no integration or provider "x"; GET /api/v1/integrations lists the ids.`, "/connections/0", `There is no integration or provider "x"; sallyport integration list lists the ids. (--connect)`},
		{"trigger create a b", "/api/v1/triggers", "interval_seconds must be at least 30.", "/interval_seconds", "--poll must be at least 30s."},
		{"trigger create a b", "/api/v1/triggers", "actions must be one of opened.", "/config/actions/0", "actions must be one of opened. (--config actions/0)"},
		{"trigger create a b", "/api/v1/triggers", "Set integration_id to the integration; where there is none, connect one first (POST /api/v1/integrations).", "/integration_id", "Set --integration to the integration; where there is none, connect one first (sallyport integration connect PROVIDER)."},
		{"schedule create a *", "/api/v1/schedules", "This is not a valid cron expression: x.", "/cron_expression", "This is not a valid cron expression: x."},
		{"schedule create a *", "/api/v1/schedules", "Move the zone to `timezone`.", "/cron_expression", "Move the zone to --zone."},
		{"event list", "/api/v1/inbound-events", `There is no automation "x". GET /api/v1/automations lists them.`, "/automation", `There is no automation "x". sallyport automation list lists them. (--automation)`},
		{"notify show", "/api/v1/notify", "Nothing. PUT /api/v1/notify/slack sets them up.", "", "Nothing. sallyport notify slack sets them up."},
		{"event show a", "/api/v1/inbound-events", "Gone. GET /api/v1/inbound-events/e-1 has what is left.", "", "Gone. sallyport event show e-1 has what is left."},
		{"pending", "/api/v1/invocations", "GET /api/v1/elsewhere lists them.", "", "GET /api/v1/elsewhere lists them."},
		{"actions calls", "/api/v1/sessions/s/actions/x", "None. GET /api/v1/sessions/s-1/actions/invocations lists them.", "/params/url", "None. sallyport actions calls lists them. (/url)"},
		{"capability set g p --level read", "/api/v1/capabilities/g/x", "There is no source x.", "/provider", "There is no source x."},
		{"capability set g p --level read", "/api/v1/capabilities/g/a", "a has no action x.", "/denied_actions/0", "a has no action x. (--deny)"},
		{"policy quota set k --per session --calls 1 --window 1m", "/api/v1/policy/quotas/a:b", "seconds must be at most 86400.", "/seconds", "--window must be at most 86400s."},
		{"approve a", "/api/v1/invocations/a/approve", "Set `unreviewed` to grant it.", "/grant/unreviewed", "Set --unreviewed to grant it."},
		{"grant create a", "/api/v1/grants", "review must be true; default_risk is not.", "/url", "review must be true; default_risk is not. (/url)"},
	} {
		args := strings.Fields(c.command)
		ran, err := newParser(t).Parse(args)
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		p := &problem{api.Problem{Detail: c.detail, Field: c.field}}
		if p.useFlagNames(flagsByField(ran.Selected()), c.path); p.Error() != c.want {
			t.Errorf("%s\nis   %s\nwant %s", c.command, p.Error(), c.want)
		}
	}
}

// A route maps to one command with its path parameters as arguments.
func TestCommandForRoute(t *testing.T) {
	for route, want := range map[string]string{
		"GET /api/v1/outbox":                             "sallyport run outbox list",
		"PUT /api/v1/run-endpoint":                       "sallyport run endpoint set URL",
		"POST /api/v1/grant-requests/r-1/approve":        "sallyport grant approve r-1",
		"PUT /api/v1/integrations/apps/linear":           "sallyport integration app set linear",
		"PUT /api/v1/notify/webhook":                     "sallyport notify webhook",
		"GET /api/v1/sessions/s-1/actions/available":     "sallyport actions list",
		"GET /api/v1/connectors/presets":                 "sallyport connector presets",
		"GET /api/v1/connectors/notes":                   "GET /api/v1/connectors/notes",
		"GET /api/v1/sessions/s-1/actions/available/all": "GET /api/v1/sessions/s-1/actions/available/all",
	} {
		if got := commandForRoute(route); got != want {
			t.Errorf("%s is %q, want %q", route, got, want)
		}
	}
	commands := map[string]string{}
	for _, node := range newParser(t).Model.Leaves(false) {
		command, ok := node.Target.Addr().Interface().(routedCommand)
		if !ok {
			continue
		}
		op := command.route()
		if other := commands[op.Method+op.Path]; other != "" {
			t.Errorf("%s and %s are both named for %s %s", other, node.FullPath(), op.Method, op.Path)
		}
		commands[op.Method+op.Path] = node.FullPath()
	}
}

func newParser(t *testing.T) *kong.Kong {
	t.Helper()
	app, err := kong.New(New(), kong.Name("sallyport"), Vars(), FlagTypes())
	if err != nil {
		t.Fatal(err)
	}
	return app
}
