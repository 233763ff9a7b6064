package main

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"sallyport/api"
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

// routed is a command that refusals name where the API names a route.
type routed interface{ route() api.Operation }

// commandOf is the command that does what a route of the API does, such as GET
// /api/v1/grants; a route without a command stays.
func commandOf(route string) string {
	app, err := kong.New(new(clientCommands), kong.Name("sallyport"), grammarVars(), flagTypes())
	if err != nil {
		return route
	}
	for _, node := range app.Model.Leaves(false) {
		command, ok := node.Target.Addr().Interface().(routed)
		if !ok {
			continue
		}
		op := command.route()
		pattern := regexp.MustCompile(`\{\w+\}`).ReplaceAllLiteralString(op.Method+" "+op.Path, `([\w-]+)`)
		if values := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(route); values != nil {
			return commandWords(node, values[1:])
		}
	}
	return route
}

// commandWords is a command as it is typed, with the values of its arguments as
// far as they are known.
func commandWords(node *kong.Node, values []string) string {
	var words []string
	for at := node; at != nil; at = at.Parent {
		words = append([]string{at.Name}, words...)
	}
	for i, arg := range node.Positional {
		switch {
		case i < len(values):
			words = append(words, values[i])
		case arg.Required:
			words = append(words, strings.ToUpper(arg.Name))
		}
	}
	return strings.Join(words, " ")
}

// clause is a sentence that another one goes on from.
func clause(text string) string { return strings.TrimSuffix(visible(text), ".") }
