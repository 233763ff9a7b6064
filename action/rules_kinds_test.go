package action_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sallyport/action"
)

// Every constant of a kind of policy event is among the kinds.
func TestEventKinds(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "decision.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Event") || len(spec.Values) != 1 {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Error(err)
			}
			want = append(want, text)
		}
		return true
	})
	if got := action.EventKinds(); len(want) == 0 || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the kinds are %v, the constants %v", got, want)
	}
}
