package linear_test

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

	"sallyport/sources/linear"
)

// schemaDay names the schema that the documents were validated against.
const schemaDay = "schema of 2026-07-22"

// TestDocumentsWereValidated compares every document with those that were
// valid by Linear's schema, which is not here. To validate them again:
//
//	LINEAR_SCHEMA=schema.graphql go test ./sources/linear -update
func TestDocumentsWereValidated(t *testing.T) {
	requests := everyRequest(t)
	path := os.Getenv("LINEAR_SCHEMA")
	if path != "" {
		validate(t, load(t, path), requests)
	}
	var list strings.Builder
	for _, name := range operations(t) {
		fmt.Fprintf(&list, "%s %x %s\n", name, sha256.Sum256([]byte(linear.Document(name))), schemaDay)
	}
	fmt.Fprintf(&list, "variables %x %s\n", digest(requests), schemaDay)
	file := filepath.Join("testdata", "validated.txt")
	if *update && path != "" && !t.Failed() {
		if err := os.WriteFile(file, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), list.String()); diff != "" {
		t.Errorf("documents that were not validated against the schema (-validated +there):\n%s", diff)
	}
}

// operations are the names of all documents, but the fragment's.
func operations(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("documents", "[A-Z]*.graphql"))
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

// digest is of the variables of all requests, but for ids that are new each
// time.
func digest(requests []request) []byte {
	sum := sha256.New()
	for _, r := range requests {
		fmt.Fprintln(sum, r.Operation, strings.ReplaceAll(string(r.Variables), newID(r.Variables), ""))
	}
	return sum.Sum(nil)
}

// validate checks the documents, and the variables of the requests.
func validate(t *testing.T, schema *ast.Schema, requests []request) {
	parsed := map[string]*ast.OperationDefinition{}
	for _, name := range operations(t) {
		query, errs := gqlparser.LoadQueryWithRules(schema, linear.Document(name), rules.NewDefaultRules())
		if len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
			continue
		}
		if parsed[name] = query.Operations.ForName(name); parsed[name] == nil {
			t.Errorf("%s.graphql has no operation of its name", name)
		}
	}
	for _, r := range requests {
		var variables map[string]any
		if err := json.Unmarshal(r.Variables, &variables); err != nil {
			t.Fatal(err)
		}
		if op := parsed[r.Operation]; op != nil {
			if _, err := validator.VariableValues(schema, op, variables); err != nil {
				t.Errorf("%s %s: %v", r.Operation, r.Variables, err)
			}
		}
	}
}

// everyRequest is what the calls of this package's tests and the examples of
// the actions send.
func everyRequest(t *testing.T) []request {
	s := newService(t, answer{status: 400, body: `{"errors":[{"message":"no"}]}`})
	conn := s.conn(t, "api_key")
	for _, tt := range calls {
		_, _ = find(t, tt.action).Run(t.Context(), conn, json.RawMessage(tt.params))
	}
	m := linear.Module()
	for _, a := range m.Actions {
		for _, e := range a.Examples {
			_, _ = a.Run(t.Context(), conn, e.Params)
		}
	}
	for _, team := range []string{"", "ENG", "4cfb482a-81e3-4154-b5b9-2c805e70a02d"} {
		_, _ = m.Metadata(t.Context(), conn, map[string][]string{"team": {team}})
	}
	_, _ = m.Account(t.Context(), conn)
	for _, cursor := range pollCursors {
		_, _ = m.Poll(t.Context(), conn, json.RawMessage(cursor))
	}
	return s.requests()
}
