package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sallyport/api"
)

// A refusal names the flags and arguments of the command that ran where the API
// names fields, and commands where the API names routes.
func TestRefusalsInWords(t *testing.T) {
	const connectors = "/api/v1/connectors"
	for _, c := range []struct{ command, path, detail, field, want string }{
		{"connector add A", connectors, "The body lacks the field url, and no preset says it.", "/url", "The body lacks the field url, and no preset says it."},
		{"connector add A", connectors, "url must be an absolute URL.", "/url", "URL must be an absolute URL."},
		{"connector update A", connectors + "/a", "url must have at most 2048 characters.", "/url", "--endpoint must have at most 2048 characters."},
		{"connector update A", connectors + "/a", "name must not be empty.", "/name", "--rename must not be empty."},
		{"connector add A", connectors, "oauth.client_id must have at most 1024 characters.", "/oauth/client_id", "--client-id must have at most 1024 characters."},
		{"connector add A", connectors, "Leave secret_value out, or set oauth.kind to none.", "/oauth", "Leave --secret-stdin out, or set --oauth to none."},
		{"connector add A", connectors, "For oauth.kind client_credentials, give client_id.", "/oauth/client_id", "For --oauth client, give --client-id."},
		{"connector add A", connectors, "This scope is in the list already; name each once.", "/oauth/scopes/3", "This scope is in the list already; name each once. (--scope)"},
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
		{"schedule create a *", "/api/v1/schedules", "This is no cron expression: x.", "/cron_expression", "This is no cron expression: x."},
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
		ran, err := wordsParser(t, grammar(args)).Parse(args)
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		p := &problem{api.Problem{Detail: c.detail, Field: c.field}}
		if p.inWords(fieldsOf(ran.Selected()), c.path); p.Error() != c.want {
			t.Errorf("%s\nis   %s\nwant %s", c.command, p.Error(), c.want)
		}
	}
}

// A route is one command, which is typed with what the route is about.
func TestCommandOfRoute(t *testing.T) {
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
		if got := commandOf(route); got != want {
			t.Errorf("%s is %q, want %q", route, got, want)
		}
	}
	commands := map[string]string{}
	for _, node := range wordsParser(t, &commandLine{}).Model.Leaves(false) {
		command, ok := node.Target.Addr().Interface().(routed)
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

func wordsParser(t *testing.T, grammar any) *kong.Kong {
	t.Helper()
	app, err := kong.New(grammar, kong.Name("sallyport"), grammarVars(), flagTypes())
	if err != nil {
		t.Fatal(err)
	}
	return app
}
