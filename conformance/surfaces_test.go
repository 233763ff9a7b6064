package conformance_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sallyport/action"
)

// namesSurface finds a route of the API or a command in a text.
var namesSurface = regexp.MustCompile(`/api/v1\b|\bsallyport [a-z]`)

// TestNoSurfaceIsNamedBelow has what lies below the surfaces name no route and
// no command: an error says what happened, and the surface that shows it adds
// the route or command that leads on (action.Operation).
func TestNoSurfaceIsNamedBelow(t *testing.T) {
	t.Parallel()
	exempt := map[string]string{ // a file or folder, and why
		"sources/platform":      "tells an agent which command to run in its own shell, which nothing else can do for it",
		"internal/guide":        "tells an agent its commands in a shell",
		"internal/agent":        "is the prompt of an agent that has the command",
		"internal/envfile":      "is the command env itself, inside a sandbox",
		"action/error_codes.go": "what to do, for the documentation; the sentences are checked below",
	}
	labels := map[string]bool{ // of derived keys and digests; stored, so they stay
		"sallyport row 1": true, "sallyport audit 1": true, "sallyport prepares": true, "sallyport vault seal": true,
		"sallyport vault hash": true, "sallyport session token": true, "sallyport inbound ": true,
	}
	used := map[string]bool{}
	for _, f := range readSource(t, "..").files {
		room, _, _ := strings.Cut(f.dir, "/")
		switch room {
		case "action", "policy", "sources", "ingest", "store", "internal":
		default:
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			e, ok := n.(*ast.BasicLit)
			if !ok || e.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(e.Value)
			if !namesSurface.MatchString(text) || labels[text] {
				return true
			}
			for place := range exempt {
				if strings.HasPrefix(f.dir+"/"+f.name, place) {
					used[place] = true
					return true
				}
			}
			t.Errorf("%s/%s names a surface: %q", f.dir, f.name, text)
			return true
		})
	}
	for place := range exempt {
		if !used[place] {
			t.Errorf("%s needs no exemption any more", place)
		}
	}
	for _, area := range action.Areas() {
		for _, d := range area.Errors {
			if namesSurface.MatchString(d.Text) {
				t.Errorf("the sentence of %s names a surface: %q", d.Code, d.Text)
			}
		}
	}
}
