package dashboard_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every operation that package api declares is mounted, and nothing else below
// /api/v1 but the description.
func TestDeclaredRoutesAreMounted(t *testing.T) {
	declared := declaredRoutes(t)
	if len(declared) < 100 {
		t.Fatalf("package api declares %d routes", len(declared))
	}
	mounted := newHouse(t).srv.Patterns()
	for _, route := range declared {
		if !slices.Contains(mounted, route) {
			t.Errorf("%s is declared, and not mounted", route)
		}
	}
	for _, route := range mounted {
		if strings.Contains(route, " /api/v1/") && route != "GET /api/v1/openapi.json" && !slices.Contains(declared, route) {
			t.Errorf("%s is mounted, and not declared", route)
		}
	}
}

// declaredRoutes are the methods and paths of the operations in package api, as
// its source has them.
func declaredRoutes(t *testing.T) (routes []string) {
	t.Helper()
	files, err := fs.Glob(os.DirFS("../api"), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), "../api/"+name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if op, ok := n.(*ast.CompositeLit); ok {
				if kind, ok := op.Type.(*ast.Ident); ok && kind.Name == "Operation" {
					routes = append(routes, literal(t, op, "Method")+" "+literal(t, op, "Path"))
				}
			}
			return true
		})
	}
	return routes
}

// literal is the value of a field of a literal.
func literal(t *testing.T, lit *ast.CompositeLit, field string) string {
	t.Helper()
	for _, element := range lit.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok || pair.Key.(*ast.Ident).Name != field {
			continue
		}
		if value, ok := pair.Value.(*ast.BasicLit); ok {
			unquoted, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			return unquoted
		}
	}
	t.Fatalf("an operation has no literal %s", field)
	return ""
}
