package linear_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/sources/linear"
)

// TestVariables compares the variables of all requests, but for ids that are new
// each time, with a file, which conformance/interop holds to Linear's schema.
func TestVariables(t *testing.T) {
	var list strings.Builder
	for _, r := range everyRequest(t) {
		fmt.Fprintln(&list, r.Operation, strings.ReplaceAll(string(r.Variables), newID(r.Variables), ""))
	}
	path := filepath.Join("testdata", "variables.txt")
	if *update {
		if err := os.WriteFile(path, []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), list.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
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
