package main

import (
	"net/http"
	"regexp"
	"strings"

	"sallyport/api"
)

// inWords has a refusal say flags and commands where the API says its fields
// and routes. What is a flag depends on what was asked for.
func (p *problem) inWords(method, path string) {
	p.Detail = reworded(p.Detail, routeWords())
	if method == http.MethodGet {
		p.Detail = strings.Replace(p.Detail, "make it first: sallyport automation create", "sallyport automation list lists them", 1)
	}
	flags, words := map[string]string(nil), []wording(nil)
	switch {
	case strings.Contains(path, "/actions/"): // params have names of their own
		p.Field = strings.TrimPrefix(p.Field, "/params")
		return
	case strings.Contains(path, "/api/v1/connectors"):
		flags, words = connectorFlags(method), connectorWords()
	case strings.HasPrefix(path, appsPath):
		flags, words = appFlags(), appWords()
	case strings.HasPrefix(path, integrationsPath):
		flags, words = integrationFlags(), integrationWords()
	case strings.HasPrefix(path, "/api/v1/sessions"):
		flags = map[string]string{"connections": "--connect", "idle_timeout": "--idle-timeout", "idempotency_key": "--idempotency-key", "prompt": "--prompt-file", "model": "--model"}
	case strings.HasPrefix(path, "/api/v1/automations"):
		flags = automationFlags(method)
	case strings.HasPrefix(path, "/api/v1/capabilities/"):
		flags = map[string]string{
			"group": "GROUP", "provider": "PROVIDER", "level": "--level", "allowed_actions": "--allow", "denied_actions": "--deny",
			"required_gate": "--gate", "rate": "--rate", "expires_in": "--expires", "expires_at": "--expires",
		}
	case strings.HasPrefix(path, "/api/v1/gates"):
		flags = map[string]string{"gate": "GATE", "group": "--group", "task": "--task", "actions": "--action", "expires_in": "--expires", "expires_at": "--expires"}
	case strings.HasPrefix(path, "/api/v1/policy/"):
		flags = policyFlags()
	case strings.HasPrefix(path, api.ListTriggers.Path), strings.HasPrefix(path, api.ListSchedules.Path), strings.HasPrefix(path, runsPath):
		flags, words = inboundFlags(), inboundWords()
	default:
		return
	}
	p.Detail = regexp.MustCompile(fieldForm).ReplaceAllStringFunc(reworded(p.Detail, words), func(field string) string {
		return flagOf(flags, field, ".")
	})
	pointer := strings.TrimPrefix(p.Field, "/")
	switch flag := flagOf(flags, pointer, "/"); {
	case flag != pointer && flag == strings.ToUpper(flag):
		p.Field = "" // an argument, of which the sentence tells
	case flag != pointer:
		p.Field = flag
	case strings.HasPrefix(pointer, "tools"):
		p.Field = "" // the sentence names the tool
	}
}

// fieldForm is how a sentence names a field: at its beginning, or anywhere
// where it is no English word.
const fieldForm = `^[\w.]+(?:\[\d+\])?|\w+_\w+(?:\[\d+\])?`

// flagOf is the flag of a field, with what it is of when it has several; a
// field that has none stays. What stands within OAuth has a flag of its own.
func flagOf(flags map[string]string, field, separator string) string {
	name, of, _ := strings.Cut(strings.TrimPrefix(field, "oauth"+separator), separator)
	name, _, _ = strings.Cut(name, "[")
	flag, ok := flags[name]
	switch {
	case !ok:
		return field
	case strings.Trim(of, "0123456789") == "": // nothing, or a place in a list
		return flag
	}
	return flag + " " + strings.NewReplacer("~1", "/", "~0", "~").Replace(of)
}

// connectorFlags are what the fields of a connector are here.
func connectorFlags(method string) map[string]string {
	flags := map[string]string{
		"name": "NAME", "url": "the URL", "slug": "--slug", "preset": "--preset", "variant": "--variant",
		"header": "--header", "prefix": "--prefix", "secret": "--secret", "secret_value": "--secret-stdin", "headers": "--with-header",
		"may_ask": "--may-ask", "per_agent": "--per-agent", "default_risk": "--risk", "tool_risks": "--tool-risk", "review": "--review",
		"timeout_seconds": "--timeout", "oauth": "--oauth", "kind": "--oauth", "client_id": "--client-id", "client_secret": "--client-secret", "scopes": "--scope", "issuer": "--issuer",
	}
	if method == http.MethodPatch {
		flags["name"], flags["url"] = "--rename", "--endpoint"
	}
	return flags
}

// integrationFlags are what the fields of an integration are here.
func integrationFlags() map[string]string {
	return map[string]string{
		"provider": "PROVIDER", "kind": "--kind", "broker": "--nango", "name": "--name", "own": "--own", "visibility": "--private",
		"base_url": "--base-url", "settings": "--settings", "timeout_seconds": "--timeout", "secret": "standard input",
	}
}

// automationFlags are what the fields of an automation are here.
func automationFlags(method string) map[string]string {
	flags := map[string]string{"name": "NAME", "instructions": "--instructions", "connections": "INTEGRATION"}
	if method == http.MethodPatch {
		flags["name"] = "--rename"
	}
	return flags
}

// policyFlags are what the fields of modes, quotas, settings and explanations
// are here.
func policyFlags() map[string]string {
	return map[string]string{
		"key": "KEY", "mode": "MODE", "automation": "--automation", "session": "--session", "group": "--group", "task": "--task", "action": "--action", "params": "--params",
		"per": "--per", "calls": "--calls", "seconds": "--window",
		"self_approval": "--self-approval", "denial_limit": "--denial-limit", "unverified_events": "--unverified-events",
	}
}

// inboundFlags are what the fields of triggers, schedules and runs are here.
func inboundFlags() map[string]string {
	return map[string]string{
		"automation": "AUTOMATION", "provider": "PROVIDER", "event_type": "TYPE", "trigger_type": "--kind", "interval_seconds": "--poll",
		"integration_id": "--integration", "config": "--config", "secret": "--secret-stdin", "keep": "--keep", "cron_expression": "CRON",
		"timezone": "--zone", "missed": "--missed", "lease": "--lease", "claim_id": "--claim", "code": "--code", "message": "--message", "result": "--result",
	}
}

// inboundWords are sentences about those fields that are others here.
func inboundWords() []wording {
	return []wording{
		{regexp.MustCompile(`^interval_seconds must be at (least|most) (\d+)`), "interval_seconds must be at $1 ${2}s"},
		{regexp.MustCompile(`^Say in message\b`), "Say with --message"},
		{regexp.MustCompile(`\bSend it as secret\b`), "Pass it with --secret-stdin"},
		{regexp.MustCompile(`, as integration_id;`), ", with --integration;"},
		{regexp.MustCompile(`\bzone into timezone\b`), "zone into --zone"},
	}
}

// integrationWords are sentences about those fields that are others here.
func integrationWords() []wording {
	return []wording{
		{regexp.MustCompile(`\bsend own as true`), "use --own"},
		{regexp.MustCompile(`\bleave own out`), "leave --own out"},
		{regexp.MustCompile(`\bleave visibility out`), "leave --private out"},
		{regexp.MustCompile(`\bleave broker out`), "leave --nango out"},
		{regexp.MustCompile(`^Give name as`), "Give --name as"},
		{regexp.MustCompile(`^Send the key or token as secret\.`), "Pass the key or token on standard input."},
	}
}

// appFlags are what the fields of the gateway's registration at a service are
// here.
func appFlags() map[string]string {
	return map[string]string{
		"provider": "PROVIDER", "client_id": "--client-id", "client_secret": "--client-secret-stdin", "app_id": "--app-id", "slug": "--slug",
		"private_key": "--private-key", "api_key": "--api-key-stdin", "base_url": "--base-url", "keys": "--key",
	}
}

// appWords are sentences about those fields that are others here.
func appWords() []wording {
	return []wording{
		{regexp.MustCompile(`^Send the key of the Nango environment as api_key\.`), "Pass the key of the Nango environment with --api-key-stdin."},
		{regexp.MustCompile(`^(Of Nango, )?[Ss]end (the client_id|api_key)`), "${1}give $2"},
		{regexp.MustCompile(`\bsend client_id too`), "give --client-id too"},
		{regexp.MustCompile(`\bsend all three`), "give all three"},
		{regexp.MustCompile(`\bapp_id, slug and private_key\b`), "--app-id, --slug and --private-key"},
		{regexp.MustCompile(`\bbase_url and keys alone`), "--base-url and --key alone"},
		{regexp.MustCompile(`\bapi_key and keys are`), "--api-key-stdin and --key are"},
	}
}

// wording is an expression for something of the API's, and what stands for it.
type wording struct {
	*regexp.Regexp
	says string
}

func reworded(text string, all []wording) string {
	for _, w := range all {
		text = w.ReplaceAllString(text, w.says)
	}
	return text
}

// routeWords are the lists that refusals point to.
func routeWords() []wording {
	return []wording{
		{regexp.MustCompile(`GET /api/v1/connectors/presets\b`), "sallyport connector presets"},
		{regexp.MustCompile(`GET /api/v1/connectors/([\w-]+)/tools is\b`), "sallyport connector review $1 shows"},
		{regexp.MustCompile(`GET /api/v1/sessions/[\w-]+/actions/invocations\b`), "sallyport actions calls"},
		{regexp.MustCompile(`GET /api/v1/sessions/[\w-]+/actions/available\b`), "sallyport actions list"},
		{regexp.MustCompile(`GET /api/v1/sessions/[\w-]+/evidence lists those that there are\.`), "Leave --upload out for a new one."},
		{regexp.MustCompile(`GET /api/v1/env-requests\b`), "sallyport env requests"},
		{regexp.MustCompile(`GET /api/v1/grant-requests\b`), "sallyport grant requests"},
		{regexp.MustCompile(`GET /api/v1/grants\b`), "sallyport grant list"},
		{regexp.MustCompile(`GET /api/v1/policy/modes\b`), "sallyport policy show"},
		{regexp.MustCompile(`GET /api/v1/gates\b`), "sallyport gate list"},
		{regexp.MustCompile(`GET /api/v1/integrations( lists)`), "sallyport integration list$1"},
		{regexp.MustCompile(`GET /api/v1/sessions( lists)`), "sallyport session list$1"},
		{regexp.MustCompile(`GET /api/v1/invocations( lists)`), "sallyport pending$1"},
		{regexp.MustCompile(`make it first \(.*: (sallyport automation create)\)`), "make it first: $1"},
		{regexp.MustCompile(`set an endpoint with PUT /api/v1/run-endpoint\b`), "set an endpoint with: sallyport run endpoint set URL"},
		{regexp.MustCompile(`POST /api/v1/run-endpoint/rotate\b`), "sallyport run endpoint rotate"},
		{regexp.MustCompile(`\bsend trigger_type (webhook|polling)\b`), "use --kind $1"},
		{regexp.MustCompile(`\bof trigger_type polling\b`), "with --kind polling"},
		{regexp.MustCompile(`\bleave interval_seconds out\b`), "leave --poll out"},
		{regexp.MustCompile(`\bleave integration_id out\b`), "leave --integration out"},
		{regexp.MustCompile(`^event_type must\b`), "The type must"},
		{regexp.MustCompile(`\bgive cron_expression\b`), "give the expression"},
		{regexp.MustCompile(`connect one first \(.*: (sallyport integration connect \w+)\)`), "connect one first with $1"},
	}
}

// connectorWords are sentences about the fields of connectors that are others
// here. The rest is a name in place of a name.
func connectorWords() []wording {
	return []wording{
		{regexp.MustCompile(`^The body lacks the field (\w+)`), "$1 is missing"},
		{regexp.MustCompile(`^Give (url|name) as`), "Give the $1 as"},
		{regexp.MustCompile(`^Give the url`), "Give the URL"},
		{regexp.MustCompile(`\bsend secret as "", or oauth with kind none`), "use --secret= or --oauth none"},
		{regexp.MustCompile(`\bsend oauth with kind none`), "use --oauth none"},
		{regexp.MustCompile(`\boauth with kind authorization_code`), "--oauth code"},
		{regexp.MustCompile(`^For client_credentials`), "For --oauth client"},
		{regexp.MustCompile(`\bas secret_value`), "with --secret-stdin"},
		{regexp.MustCompile(`\bwith secret\.$`), "with --secret."},
		{regexp.MustCompile(`"slug" \(at the command line: --slug\)`), "--slug"},
	}
}

// clause is a sentence that another one goes on from.
func clause(text string) string { return strings.TrimSuffix(visible(text), ".") }
