package main

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// inWords has a refusal say flags and commands where the API says its fields
// and routes. fields are those of the command that ran; see fieldsOf.
func (p *problem) inWords(fields map[string]string, path string) {
	p.Detail = regexp.MustCompile(`\b(GET|POST|PUT) /api/v1/[\w/-]+`).ReplaceAllStringFunc(p.Detail, commandOf)
	if strings.Contains(path, "/actions/") { // params have names of their own
		p.Field = strings.TrimPrefix(p.Field, "/params")
		return
	}
	p.Detail = regexp.MustCompile(fieldForm).ReplaceAllStringFunc(p.Detail, func(field string) string {
		return flagOf(fields, field, ".")
	})
	if fields["kind"] == "--oauth" { // its values have shorter words, too
		p.Detail = strings.NewReplacer("--oauth client_credentials", "--oauth client", "--oauth authorization_code", "--oauth code").Replace(p.Detail)
	}
	pointer := strings.TrimPrefix(p.Field, "/")
	flag := flagOf(fields, pointer, "/")
	if strings.HasPrefix(pointer, "tools") {
		p.Field = "" // the sentence names the tool
	}
	if flag == pointer {
		return
	}
	if p.Field = flag; flag == strings.ToUpper(flag) {
		p.Field = "" // an argument, which the sentence names
	}
	if strings.HasSuffix(pointer, "seconds") { // the flag is a duration
		p.Detail = regexp.MustCompile(`must be at (least|most) (\d+)`).ReplaceAllString(p.Detail, "must be at $1 ${2}s")
	}
}

// fieldForm is how a sentence names a field: at its beginning, in backticks, or
// anywhere where it cannot be an English word.
const fieldForm = "^[\\w.]+(?:\\[\\d+\\])?|`\\w+`|\\boauth\\.\\w+|\\w+_\\w+(?:\\[\\d+\\])?"

// flagOf is the flag of a field, with the key or place within it; a field
// without a flag stays. The fields of OAuth and of a grant have
// flags of their own.
func flagOf(flags map[string]string, field, separator string) string {
	inner := strings.TrimPrefix(strings.TrimPrefix(strings.Trim(field, "`"), "oauth"+separator), "grant"+separator)
	name, of, _ := strings.Cut(inner, separator)
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

// fieldsOf are the fields of the API that a command sets, and the flags and
// arguments that set them. They have the same name unless a tag says another:
// field:"timeout_seconds".
func fieldsOf(command *kong.Node) map[string]string {
	fields := map[string]string{}
	add := func(v *kong.Value, written string) {
		declared, _, _ := strings.Cut(v.Tag.Get("json"), ",") // where the API's own type holds the flags
		names := strings.Split(cmp.Or(v.Tag.Get("field"), declared, v.Tag.Get("query"), v.Tag.Get("path")), ",")
		if names[0] == "" {
			names = []string{strings.ReplaceAll(strings.TrimSuffix(v.Name, "-stdin"), "-", "_")}
		}
		for _, name := range names {
			fields[name] = written
		}
	}
	if command == nil {
		return nil
	}
	for _, arg := range command.Positional {
		add(arg, strings.ToUpper(arg.Name))
	}
	for _, flag := range command.Flags {
		if flag.Name != "url" && flag.Name != "data" { // say where the server is
			add(flag.Value, "--"+flag.Name)
		}
	}
	return fields
}

// commandOf is the command that does what a route of the API does; a route
// without a command stays.
func commandOf(route string) string {
	for _, row := range commandsOfRoutes() {
		pattern := regexp.MustCompile("^" + strings.NewReplacer(" ", " /api/v1/", "*", "([\\w-]+)").Replace(row[0]) + "$")
		if pattern.MatchString(route) {
			return pattern.ReplaceAllString(route, "sallyport "+strings.Replace(row[1], "*", "$1", 1))
		}
	}
	return route
}

func commandsOfRoutes() [][2]string {
	return [][2]string{
		{"GET sessions/*/actions/invocations", "actions calls"},
		{"GET sessions/*/actions/available", "actions list"},
		{"GET invocations", "calls"},
		{"GET grants", "grant list"},
		{"GET grant-requests", "grant requests"},
		{"POST grant-requests/*/approve", "grant approve *"},
		{"GET policy/modes", "policy show"},
		{"GET policy/quotas", "policy quota list"},
		{"GET capabilities", "capability list"},
		{"GET gates", "gate list"},
		{"GET sessions", "session list"},
		{"GET users", "user list"},
		{"GET api-keys", "api-key list"},
		{"GET secrets", "secret list"},
		{"GET connectors", "connector list"},
		{"GET connectors/presets", "connector presets"},
		{"GET connectors/*/tools", "connector review *"},
		{"GET integrations", "integration list"},
		{"POST integrations", "integration connect PROVIDER"},
		{"GET integrations/apps", "integration app list"},
		{"PUT integrations/apps/*", "integration app set *"},
		{"GET automations", "automation list"},
		{"GET triggers", "trigger list"},
		{"GET schedules", "schedule list"},
		{"GET inbound-events", "event list"},
		{"GET inbound-events/*", "event show *"},
		{"GET deliveries", "delivery list"},
		{"GET runs", "run list"},
		{"GET outbox", "run outbox list"},
		{"PUT run-endpoint", "run endpoint set URL"},
		{"PUT notify/*", "notify *"},
		{"GET env-requests", "env requests"},
		{"GET setups", "setup list"},
	}
}

// clause is a sentence that another one goes on from.
func clause(text string) string { return strings.TrimSuffix(visible(text), ".") }
