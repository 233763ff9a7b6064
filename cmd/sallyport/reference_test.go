package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sallyport/cmd/sallyport/cli"

	"github.com/alecthomas/kong"
)

// TestConfigurationReference compares docs/configuration.md with the flags.
func TestConfigurationReference(t *testing.T) {
	const file = "../../docs/configuration.md"
	want := reference(t)
	if len(want) > 32_000 {
		t.Errorf("%s has %d bytes; shorten help texts to stay within 32,000", file, len(want))
	}
	if *updateReference {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from the flags; run: go test ./cmd/sallyport -run TestConfigurationReference -update", file)
	}
}

// TestDecisionsHaveNoVariables holds that decisions read no variables: a variable left
// in a shell must not widen a grant or hide a call.
func TestDecisionsHaveNoVariables(t *testing.T) {
	app := program(t)
	var look func(n *kong.Node)
	look = func(n *kong.Node) {
		for _, f := range n.Flags {
			if len(f.Envs) > 0 && f.Envs[0] != "-" && !slices.Contains([]string{"data", "url", "json"}, f.Name) {
				t.Errorf("%s --%s has the variable %s", n.FullPath(), f.Name, f.Envs[0])
			}
		}
		for _, child := range n.Children {
			look(child)
		}
	}
	for _, command := range []string{"approve", "deny", "grant", "pending", "calls"} {
		look(find(t, app.Model.Node, command))
	}
}

// reference prints the flags: those of the server by group, then those of all other
// commands, each with the commands that take it.
func reference(t *testing.T) string {
	t.Helper()
	app := program(t)
	var b strings.Builder
	b.WriteString(`# Configuration

Settings of the server and of commands. ` + "`sallyport COMMAND --help`" + ` prints the flags and
arguments of one command. This page is generated from the flags:
` + "`go test ./cmd/sallyport -run TestConfigurationReference -update`" + `.

A flag overrides its environment variable, and the variable overrides the file of
` + "`--config`" + `, a YAML file with flag names as keys (` + "`rate-limit: 120`" + `). Pass secrets as
variables or in the file: every user of a machine can read its command lines. Repeat a
flag that takes a list, or separate the values by commas. Durations are ` + "`90s`, `15m` or `8h`" + `.
Traces use the variables of OpenTelemetry instead of flags
([observability.md](observability.md#traces)).

## Server

` + "`serve`, `gateway`, `ingest` and `doctor`" + ` take the same flags.
`)
	serve := find(t, app.Model.Node, "serve")
	server, texts := map[string]bool{}, map[string]bool{}
	for _, group := range []string{"", "Signing in", "Intervals"} {
		title := group
		if group == "" {
			title = "General"
		}
		fmt.Fprintf(&b, "\n### %s\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n", title)
		for _, f := range listed(serve) {
			if (f.Group == nil && group == "") || (f.Group != nil && f.Group.Title == group) {
				meaning, value := split(f)
				fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", cell(label(f)), f.Envs[0], value, meaning)
				server[f.Name], texts[label(f)+f.Help] = true, true
			}
		}
	}
	for _, f := range listed(serve) {
		if !server[f.Name] {
			t.Errorf("--%s is in a group that the reference does not print", f.Name)
		}
	}
	b.WriteString(`
## Other commands

The flags that have a variable: ` + "`SALLYPORT_` and the name of the flag, as above" + `.
` + "`--help`" + ` of a command prints the others.

| flag | commands | default | meaning |
|---|---|---|---|
`)
	for _, r := range commandFlags(app.Model.Node, texts) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", cell(label(r.flag)), strings.Join(r.commands, ", "), r.value, r.meaning)
	}
	return b.String()
}

// commandFlag is a flag with the commands that take it with the same meaning.
type commandFlag struct {
	flag           *kong.Flag
	value, meaning string
	commands       []string
}

// commandFlags returns the flags of all commands that have a variable, by name, without
// those of the server.
func commandFlags(root *kong.Node, server map[string]bool) []*commandFlag {
	var rows []*commandFlag
	byText := map[string]*commandFlag{}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range listed(n) {
			meaning, value := split(f)
			if server[label(f)+f.Help] || len(f.Envs) == 0 || f.Envs[0] == "-" {
				continue
			}
			key := strings.Join([]string{label(f), meaning, value}, "\n")
			r := byText[key]
			if r == nil {
				r = &commandFlag{flag: f, value: value, meaning: meaning}
				byText[key] = r
				rows = append(rows, r)
			}
			r.commands = append(r.commands, strings.TrimPrefix(commandName(n), "sallyport "))
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	for _, child := range root.Children {
		if !slices.Contains([]string{"serve", "gateway", "ingest"}, child.Name) {
			walk(child)
		}
	}
	slices.SortStableFunc(rows, func(a, b *commandFlag) int { return strings.Compare(a.flag.Name, b.flag.Name) })
	for _, r := range rows {
		if len(r.commands) > 8 {
			r.commands = []string{"all clients"}
		}
	}
	return rows
}

// commandName is the path of a command without its aliases.
func commandName(n *kong.Node) string {
	name, _, _ := strings.Cut(n.FullPath(), " (")
	return name
}

// program is the model of the command line.
func program(t *testing.T) *kong.Kong {
	t.Helper()
	app, err := kong.New(&commandLine{}, kong.Name("sallyport"), kong.DefaultEnvars("SALLYPORT"),
		kong.Vars{"data": "~/.local/share/sallyport", "version": "", "event_kinds": "EVENTS", "clients": cli.ClientNames()})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// find returns a top-level command.
func find(t *testing.T, in *kong.Node, name string) *kong.Node {
	t.Helper()
	for _, n := range in.Children {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("there is no command %s", name)
	return nil
}

// listed are the flags of a command that the reference prints.
func listed(n *kong.Node) []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(n.Flags), func(f *kong.Flag) bool {
		return f.Hidden || f.Name == "help" || f.Name == "version"
	})
}

// label is a flag with its placeholder.
func label(f *kong.Flag) string {
	name := "--" + f.Name
	if f.PlaceHolder != "" && !f.IsBool() {
		name += " " + f.PlaceHolder
	}
	return name
}

// split returns the meaning of a flag and its default, which ends the help text as
// "(default: VALUE)".
func split(f *kong.Flag) (meaning, value string) {
	meaning, value = cell(f.Help), f.Default
	if before, after, ok := strings.Cut(meaning, " (default: "); ok {
		meaning, value = before+".", strings.TrimSuffix(strings.TrimSpace(after), ").")
	}
	if f.Required {
		value = "required"
	}
	return meaning, value
}

// cell is text for one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", `\|`)
}

var updateReference = flag.Bool("update", false, "write docs/configuration.md anew")
