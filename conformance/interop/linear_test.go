package interop_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// schemaDay names the schema that the documents were validated against.
const schemaDay = "schema of 2026-07-22"

const linear = "../../sources/linear"

// TestLinearRequestsWereValidated compares the documents, and the variables that
// are sent with them, with those that were valid by Linear's schema, which is not
// here. To validate them again, name a file of the schema in LINEAR_SCHEMA and run
// the test with -update.
func TestLinearRequestsWereValidated(t *testing.T) {
	variables := read(t, linear+"/testdata/variables.txt")
	var list strings.Builder
	for _, name := range operations(t) {
		fmt.Fprintf(&list, "%s %x %s\n", name, sha256.Sum256([]byte(document(t, name))), schemaDay)
	}
	fmt.Fprintf(&list, "variables %x %s\n", sha256.Sum256([]byte(variables)), schemaDay)
	file := linear + "/testdata/validated.txt"
	if path := os.Getenv("LINEAR_SCHEMA"); path != "" {
		validate(t, load(t, path), variables)
		validated(t, file, list.String())
	}
	if diff := cmp.Diff(read(t, file), list.String()); diff != "" {
		t.Errorf("documents that were not validated against the schema (-validated +there):\n%s", diff)
	}
}

// document is what an operation of that name sends.
func document(t *testing.T, operation string) string {
	t.Helper()
	text := read(t, linear+"/documents/"+operation+".graphql")
	if strings.Contains(text, "...IssueFields") {
		text += read(t, linear+"/documents/issue.graphql")
	}
	return text
}

// operations are the names of all documents, but the fragment's.
func operations(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(linear + "/documents/[A-Z]*.graphql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".graphql"))
	}
	return names
}

func load(t *testing.T, path string) *ast.Schema {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "linear", Input: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// validate checks the documents, and the variables: a line for each request,
// with the name of its operation.
func validate(t *testing.T, schema *ast.Schema, requests string) {
	parsed := map[string]*ast.OperationDefinition{}
	for _, name := range operations(t) {
		query, errs := gqlparser.LoadQueryWithRules(schema, document(t, name), rules.NewDefaultRules())
		if len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
			continue
		}
		if parsed[name] = query.Operations.ForName(name); parsed[name] == nil {
			t.Errorf("%s.graphql has no operation of its name", name)
		}
	}
	for line := range strings.Lines(requests) {
		name, raw, _ := strings.Cut(line, " ")
		var variables map[string]any
		if err := json.Unmarshal([]byte(raw), &variables); err != nil {
			t.Fatal(err)
		}
		if op := parsed[name]; op != nil {
			if _, err := validator.VariableValues(schema, op, variables); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}
