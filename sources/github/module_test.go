package github_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/github"
)

// fits checks params by a validator, as the catalog does.
func fits(t *testing.T, schema json.RawMessage, params string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:schema", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(params))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(v)
}

func TestActionsAreWhatTheySay(t *testing.T) {
	want := map[string]action.Risk{
		"list_repos": "read", "get_repo": "read", "list_issues": "read", "get_issue": "read", "list_prs": "read",
		"get_pr": "read", "get_pr_comments": "read", "list_branches": "read",
		"create_issue": "write", "comment_issue": "write", "close_issue": "write", "create_branch": "write",
		"create_pr": "write", "comment_pr": "write", "merge_pr": "danger",
	}
	got := map[string]action.Risk{}
	for _, a := range github.Module().Actions {
		got[a.Name] = a.Risk
		if len(a.Examples) == 0 || a.Title == "" || a.Description == "" {
			t.Errorf("%s has no example, title or description", a.Name)
		}
		for _, e := range a.Examples {
			if err := fits(t, a.Input, string(e.Params)); err != nil {
				t.Errorf("%s: %s: %v", a.Name, e.Note, err)
			}
			if a.Summarize(e.Params) == "" {
				t.Errorf("%s: %s has no summary", a.Name, e.Note)
			}
		}
		for _, broken := range []string{`{}`, `[]`, `{"owner":1}`, `{"sha":"a"}`, `nonsense`} {
			a.Summarize(json.RawMessage(broken)) // does not panic
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("risks (-want +got):\n%s", diff)
	}
}

// TestTheCatalogTakesIt has the catalog compile the module as it does at the
// start, settings and examples too.
func TestTheCatalogTakesIt(t *testing.T) {
	none := errors.New("nobody asks")
	cat, err := sources.New(sources.Config{
		Modules:           []*sources.Module{github.Module()},
		Connectors:        func(context.Context, string) ([]action.Connector, error) { return nil, none },
		Open:              func(action.Connector) (sources.Source, error) { return nil, none },
		Integrations:      func(context.Context, string) ([]action.Integration, error) { return nil, none },
		Session:           func(context.Context, string) (*action.Session, error) { return nil, none },
		Connect:           func(context.Context, action.Integration) (*sources.Conn, error) { return nil, none },
		CredentialRefused: func(context.Context, action.Integration, string, string) (bool, error) { return false, none },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Close(); err != nil {
		t.Error(err)
	}
	schema := github.Module().Settings
	for settings, want := range map[string]bool{
		`{}`: true, `{"repositories":["octocat/hello","octo-org/*"],"pr_bases":["main"],"denied_pr_bases":["release/*"],"production_pr_bases":["live"]}`: true,
		`{"repositories":["hello"]}`: false, `{"repositories":["*/*"]}`: false, `{"repositories":null}`: false, `{"repos":[]}`: false, `{"pr_bases":[""]}`: false,
		`{"pr_bases":["["]}`: false, `{"denied_pr_bases":["a b"]}`: false, `{"pr_bases":["release/*-v1.0","*"]}`: true,
	} {
		if got := fits(t, schema, settings) == nil; got != want {
			t.Errorf("%s fits: %v", settings, got)
		}
	}
}
