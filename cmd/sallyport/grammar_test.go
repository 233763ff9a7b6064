package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sallyport/cmd/sallyport/cli"
)

// Each command is known by itself as it is among all, and unknown ones see all,
// for what was meant.
func TestGrammar(t *testing.T) {
	commands := func(args ...string) map[string]*kong.Node {
		t.Helper()
		app, err := kong.New(grammar(args), kong.Name("sallyport"), cli.Vars(), kong.Vars{"version": "dev"}, cli.FlagTypes())
		if err != nil {
			t.Fatal(args, err)
		}
		found := map[string]*kong.Node{}
		for _, n := range app.Model.Children {
			found[n.Name] = n
		}
		return found
	}
	summary := func(n *kong.Node) string {
		var b strings.Builder
		_ = kong.Visit(n, func(v kong.Visitable, next kong.Next) error {
			switch v := v.(type) {
			case *kong.Flag:
				b.WriteString(v.String() + "\n")
			case *kong.Command:
				b.WriteString(v.Summary() + v.Help + "\n")
			}
			return next(nil)
		})
		return b.String()
	}
	all := commands()
	for name, want := range all {
		alone := commands(name, "--help")
		if alone[name] == nil || summary(alone[name]) != summary(want) {
			t.Errorf("%s by itself is not what it is among all", name)
		}
		if len(alone) > 8 {
			t.Errorf("%s comes with %d others", name, len(alone)-1)
		}
	}
	for _, args := range [][]string{{"polcy"}, {"--config", "x", "serve"}, {"--help"}} {
		if n := len(commands(args...)); n != len(all) {
			t.Errorf("%q sees %d commands of %d", args, n, len(all))
		}
	}
}
