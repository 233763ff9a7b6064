package main

import (
	"testing"

	"sallyport/api"
)

// A refusal speaks of flags where the API speaks of a connector's fields, and
// of nothing else otherwise.
func TestRefusalsInWords(t *testing.T) {
	const connectors = "/api/v1/connectors"
	for _, c := range []struct{ method, path, detail, field, want string }{
		{"POST", connectors, "The body lacks the field url, and no preset says it.", "/url", "the URL is missing, and no preset says it."},
		{"PATCH", connectors + "/a", "url must have at most 2048 characters.", "/url", "--endpoint must have at most 2048 characters."},
		{"PATCH", connectors + "/a", "name must not be empty.", "/name", "--rename must not be empty."},
		{"POST", connectors, "oauth.client_id must have at most 1024 characters.", "/oauth/client_id", "--client-id must have at most 1024 characters."},
		{"POST", connectors, "This scope is in the list already; name each once.", "/oauth/scopes/3", "This scope is in the list already; name each once. (--scope)"},
		{"POST", connectors, "The risk of a tool must be one of read, write, danger.", "/tool_risks/a~1b", "The risk of a tool must be one of read, write, danger. (--tool-risk a/b)"},
		{"PATCH", connectors + "/a", `The secret "a" was entered for b; enter it again, as secret_value, if c may have it.`, "/secret_value", `The secret "a" was entered for b; enter it again, with --secret-stdin, if c may have it.`},
		{"POST", connectors, "The connector A uses a secret \"a\" already; name another key for this value with secret.", "/secret", "The connector A uses a secret \"a\" already; name another key for this value with --secret."},
		{"POST", connectors + "/a/review", "There is no tool b. GET /api/v1/connectors/a/tools is that list.", "/tools", "There is no tool b. sallyport connector review a shows that list."},
		{"POST", integrationsPath, "A member connects in his own name alone: send own as true, or ask an owner or admin to connect it for the organization.", "/own", "A member connects in his own name alone: use --own, or ask an owner or admin to connect it for the organization."},
		{"POST", integrationsPath, "base_url must be an https URL without a query.", "/base_url", "--base-url must be an https URL without a query."},
		{"POST", integrationsPath, "There is no field pr_base.", "/settings/pr_base", "There is no field pr_base. (--settings pr_base)"},
		{"POST", integrationsPath, "Linear did not take the credential (AUTHENTICATION_ERROR).", "/secret", "Linear did not take the credential (AUTHENTICATION_ERROR). (standard input)"},
		{"PUT", appsPath + "/nango", "Send the key of the Nango environment as api_key.", "/api_key", "Pass the key of the Nango environment with --api-key-stdin."},
		{"PUT", appsPath + "/github", "An app that is installed takes app_id, slug and private_key; send all three.", "/slug", "An app that is installed takes --app-id, --slug and --private-key; give all three."},
		{"PUT", appsPath + "/github", "private_key must be an RSA private key of at least 2048 bits in PEM.", "/private_key", "--private-key must be an RSA private key of at least 2048 bits in PEM."},
		{"POST", "/api/v1/sessions", `There is no integration or provider "x"; GET /api/v1/integrations lists the ids.`, "/connections/0", `There is no integration or provider "x"; sallyport integration list lists the ids. (--connect)`},
		{"POST", api.ListTriggers.Path, "interval_seconds must be at least 30.", "/interval_seconds", "--poll must be at least 30s."},
		{"POST", api.ListTriggers.Path, "actions must be one of opened.", "/config/actions/0", "actions must be one of opened. (--config actions/0)"},
		{"POST", api.ListTriggers.Path, "Name the integration of Linear whose credential looks for events, as integration_id; where there is none, connect one first (at the command line: sallyport integration connect linear).", "/integration_id", "Name the integration of Linear whose credential looks for events, with --integration; where there is none, connect one first with sallyport integration connect linear."},
		{"POST", api.ListSchedules.Path, "This is no cron expression: x.", "/cron_expression", "This is no cron expression: x."},
		{"POST", api.ListSchedules.Path, "The expression names a time zone. Write the zone into timezone, and only the fields here.", "/cron_expression", "The expression names a time zone. Write the zone into --zone, and only the fields here."},
		{"POST", runsPath + "/r/finish", "Say in message what a person is to do.", "/message", "Say with --message what a person is to do."},
		{"PUT", "/api/v1/automations/a/connections", "There is no active integration of linear; connect one first (at the command line: sallyport integration connect linear), or name one by its id.", "/connections/0", "There is no active integration of linear; connect one first with sallyport integration connect linear, or name one by its id."},
		{"GET", eventsPath, "There is no automation \"x\"; make it first (at the command line: sallyport automation create).", "/automation", "There is no automation \"x\"; sallyport automation list lists them."},
		{"PUT", "/api/v1/capabilities/g/x", "There is no source x.", "/provider", "There is no source x."},
		{"PUT", "/api/v1/capabilities/g/a", "a has no action x.", "/denied_actions/0", "a has no action x. (--deny)"},
		{"PUT", "/api/v1/policy/modes/a", "A policy key is source:action, source:* or *.", "/key", "A policy key is source:action, source:* or *."},
		{"PUT", "/api/v1/policy/modes/a:b", "There is no such automation.", "/automation", "There is no such automation. (--automation)"},
		{"PUT", "/api/v1/policy/quotas/a:b", "seconds must be at most 86400.", "/seconds", "--window must be at most 86400."},
		{"POST", "/api/v1/grants", "review must be true; default_risk is not.", "/url", "review must be true; default_risk is not. (/url)"},
	} {
		p := &problem{Detail: c.detail, Field: c.field}
		if p.inWords(c.method, c.path); p.Error() != c.want {
			t.Errorf("%s %s\nis   %s\nwant %s", c.method, c.path, p.Error(), c.want)
		}
	}
}
