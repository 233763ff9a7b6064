package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestConfigurationReference keeps docs/configuration.md what the command line is.
func TestConfigurationReference(t *testing.T) {
	const file = "../../docs/configuration.md"
	want := reference(t)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the flags are; run: go test ./cmd/sallyport -run TestConfigurationReference -update", file)
	}
}

// What is decided, and which calls are looked at first, is on the command line alone: a
// variable that was left behind neither widens a grant nor hides a call.
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

// reference writes down every command with its flags.
func reference(t *testing.T) string {
	t.Helper()
	app := program(t)
	var b strings.Builder
	b.WriteString(`# Configuration

Every command, what it takes, its flags, and the variables that stand for them. A flag goes before
its variable, and that before the file of ` + "`--config`" + `, a YAML mapping from names of flags to
values. What is not set has the default in its text. Traces alone are set by
OpenTelemetry's own variables ([observability.md](observability.md#traces)). This file
is made from the program: ` + "`go test ./cmd/sallyport -run TestConfigurationReference -update`" + `.
`)
	told := map[string]string{}
	common := func(title, command string, names ...string) {
		fmt.Fprintf(&b, "\n## %s\n", title)
		flags(&b, told, title, find(t, app.Model.Node, command).Flags, names...)
	}
	common("Commands that speak to a server", "pending", "data", "url", "json")
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		if n.Type == kong.CommandNode {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", n.FullPath(), cell(n.Help))
			arguments(&b, n)
			flags(&b, told, "sallyport serve", n.Flags)
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(app.Model.Node)
	return b.String()
}

// program is what the command line is made of.
func program(t *testing.T) *kong.Kong {
	t.Helper()
	app, err := kong.New(&commandLine{}, kong.Name("sallyport"), kong.DefaultEnvars("SALLYPORT"),
		kong.Vars{"data": "~/.local/share/sallyport", "version": "", "event_kinds": "EVENTS"})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// find is a command of the first level.
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

// flags writes the flags that were not told of yet, of the names if there are
// any, and where the others are. Told has where each flag was.
func flags(b *strings.Builder, told map[string]string, here string, list []*kong.Flag, names ...string) {
	var lines, elsewhere []string
	for _, f := range list {
		if f.Hidden || f.Name == "help" || f.Name == "version" || len(names) > 0 && !slices.Contains(names, f.Name) {
			continue
		}
		line := row(f)
		if at := told[line]; at != "" {
			if !slices.Contains(elsewhere, at) {
				elsewhere = append(elsewhere, at)
			}
			continue
		}
		if len(names) > 0 || here == "sallyport serve" && told[here] == "" {
			told[line] = here
		}
		lines = append(lines, line)
	}
	if len(names) == 0 {
		told[here] = "done" // further ones are of one command each
	}
	if len(lines) > 0 {
		b.WriteString("\n| flag | variable | what |\n|---|---|---|\n" + strings.Join(lines, ""))
	}
	for _, at := range elsewhere {
		fmt.Fprintf(b, "\nAnd the flags of: %s.\n", at)
	}
}

// arguments writes what a command takes beside flags.
func arguments(b *strings.Builder, n *kong.Node) {
	if len(n.Positional) == 0 {
		return
	}
	b.WriteString("\n| argument | what |\n|---|---|\n")
	for _, a := range n.Positional {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(a.Summary(), "|", `\|`), cell(a.Help))
	}
}

func row(f *kong.Flag) string {
	variable, name, text := "none", "--"+f.Name, cell(f.Help)
	if len(f.Envs) > 0 && f.Envs[0] != "-" {
		variable = "`" + f.Envs[0] + "`"
	}
	if f.PlaceHolder != "" && !f.IsBool() {
		name += " " + f.PlaceHolder
	}
	if f.Enum != "" {
		text += " One of: " + strings.ReplaceAll(f.Enum, ",", ", ") + "."
	}
	if f.HasDefault && !strings.Contains(text, "default:") {
		text += " Default: `" + f.Default + "`."
	}
	if f.Required {
		text += " Required."
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", strings.ReplaceAll(name, "|", `\|`), variable, text)
}

// cell is text that stands in one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", `\|`)
}
