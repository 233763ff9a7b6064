package linear_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/linear"
)

func compiled(t *testing.T, a sources.ModuleAction) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Input))
	if err != nil {
		t.Fatal(a.Name, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:/", doc); err != nil {
		t.Fatal(a.Name, err)
	}
	s, err := c.Compile("schema:/")
	if err != nil {
		t.Fatal(a.Name, err)
	}
	return s
}

func fits(t *testing.T, s *jsonschema.Schema, params string) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(params))
	if err != nil {
		t.Fatal(params, err)
	}
	return s.Validate(v)
}

func TestActions(t *testing.T) {
	for _, a := range linear.Module().Actions {
		s := compiled(t, a)
		if s.AdditionalProperties != false {
			t.Errorf("%s takes params that it does not know", a.Name)
		}
		for name, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("%s does not say what %s is", a.Name, name)
			}
		}
		if len(a.Examples) == 0 || a.Run == nil || a.Description == "" || a.Title == "" {
			t.Errorf("%s lacks something", a.Name)
		}
		for _, e := range a.Examples {
			if err := fits(t, s, string(e.Params)); err != nil {
				t.Errorf("%s: an example does not fit: %v", a.Name, err)
			}
		}
		if write := a.Risk != action.RiskRead; a.Summarize == nil || write != a.AsUser {
			t.Errorf("%s: risk %s, AsUser %v, a summary %v", a.Name, a.Risk, a.AsUser, a.Summarize != nil)
		}
	}
	for _, tt := range calls {
		if err := fits(t, compiled(t, find(t, tt.action)), tt.params); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestParamsAtTheEdge(t *testing.T) {
	id := `"4cfb482a-81e3-4154-b5b9-2c805e70a02d"`
	for _, tt := range []struct {
		action, params string
		fits           bool
	}{
		{"list_issues", `{"first":50}`, true},
		{"list_issues", `{"first":51}`, false},
		{"list_issues", `{"first":0}`, false},
		{"list_issues", `{"orderBy":"title"}`, false},
		{"list_issues", `{"updatedAfter":"2026-11-01"}`, true},
		{"list_issues", `{"updatedAfter":"2026-11-01T00:00:00.5+02:00"}`, true},
		{"list_issues", `{"updatedAfter":"yesterday"}`, false},
		{"list_issues", `{"team":"ENG"}`, false},
		{"get_issue", `{}`, false},
		{"get_issue", `{"issueId":""}`, false},
		{"create_issue", `{"title":"T"}`, false},
		{"create_issue", `{"teamId":"ENG","title":""}`, false},
		{"create_issue", `{"teamId":"ENG","title":"T","id":` + id + `}`, false},
		{"create_issue", `{"teamId":"ENG","title":"T","stateId":"Done"}`, false},
		{"create_issue", `{"teamId":"ENG","title":"T","priority":5}`, false},
		{"update_issue", `{"issueId":"ENG-7"}`, false},
		{"update_issue", `{"issueId":"ENG-7","assigneeId":null}`, true},
		{"update_issue", `{"issueId":"ENG-7","title":null}`, false},
		{"update_issue", `{"issueId":"ENG-7","trashed":true}`, false},
		{"add_comment", `{"issueId":"ENG-7","body":" \n"}`, false},
		{"add_comment", `{"issueId":"ENG-7","body":"B","createAsUser":"CEO"}`, false},
	} {
		if err := fits(t, compiled(t, find(t, tt.action)), tt.params); (err == nil) != tt.fits {
			t.Errorf("%s %s: %v", tt.action, tt.params, err)
		}
	}
}

func TestSummaries(t *testing.T) {
	const one, two = "2cfb482a-81e3-4154-b5b9-2c805e70a02d", "2cfb482a-81e3-4154-b5b9-2c805e70a02e"
	long := strings.Repeat("é", 200)
	for _, tt := range []struct{ action, params, want string }{
		{"create_issue", `{"teamId":"ENG","title":"Login \u202efails\nnow"}`, `Create the issue "Login \u202efails\nnow" in the team ENG`},
		{
			"create_issue", `{"teamId":"ENG","title":"T","priority":1.0,"labelIds":["` + one + `","` + two + `"],"assigneeId":"u"}`,
			`Create the issue "T" in the team ENG: priority urgent, assignee u, labels ` + one + ` and ` + two,
		},
		{"create_issue", `{"teamId":"A: do B","title":"T"}`, `Create the issue "T" in the team "A: do B"`},
		{
			"update_issue", `{"issueId":"ENG-7","assigneeId":null,"description":"` + long + `","addedLabelIds":["a","b","c"]}`,
			`Change the issue ENG-7: assignee none, add labels a and b and 1 more, whole description "` + strings.Repeat("é", 99) + `…"`,
		},
		{"add_comment", `{"issueId":"ENG-7","body":"Hi"}`, `Comment on the issue ENG-7: "Hi"`},
		{"add_comment", `{"issueId":"ENG-7","body":"Hi","parentId":"c"}`, `Reply to the comment c on the issue ENG-7: "Hi"`},
		{"list_issues", `{}`, `List issues`},
		{
			"list_issues", `{"query":"log, in","teamId":"ENG","state":"In Progress","priority":0,"first":1e1,"includeArchived":true}`,
			`List issues: of the team ENG, in the state "In Progress", priority none, with the text "log, in", archived ones too: true, at most 10`,
		},
		{"get_issue", `{"issueId":"ENG-7","commentsAfter":"x y"}`, `Read the issue ENG-7: with comments after "x y"`},
	} {
		if got := find(t, tt.action).Summarize(json.RawMessage(tt.params)); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.action, got, tt.want)
		}
	}
}
