package github_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"sallyport/sources"
	"sallyport/sources/github"
)

// refused fails unless the error is a refusal with the code and the words.
func refused(t *testing.T, err error, code string, words ...string) {
	t.Helper()
	var no *sources.Refusal
	if !errors.As(err, &no) {
		t.Errorf("%v is no refusal", err)
		return
	}
	if no.Code != code {
		t.Errorf("code %q, not %q: %v", no.Code, code, err)
	}
	for _, word := range words {
		if !strings.Contains(no.Message, word) {
			t.Errorf("%q does not say %q", no.Message, word)
		}
	}
}

func TestNewBranches(t *testing.T) {
	for name, want := range map[string]string{
		"fix": "fix", "refs/heads/fix/it": "fix/it", "feature/ü-1": "feature/ü-1", "mainly": "mainly", "fix/main": "fix/main",
		"a.b": "a.b", "a@b": "a@b", "{x}": "{x}", "日本": "日本",
	} {
		if got, err := github.NewBranch(name); err != nil || got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"main", "Main", "MASTER", "refs/heads/main", "refs/heads/mAster", "maſter"} {
		_, err := github.NewBranch(name)
		refused(t, err, "guardrail", "/branch")
	}
	for _, name := range []string{
		"", " main", "main ", "main\n", "main\x00", "main\u200b", "ma\u00adin", "main\u202e", "main\ufe0f", "main\u3164", "\u00a0main", "main.", "main.lock", "main.LOCK/x",
		"main/", "/main", "main//x", "./main", "x/../main", "main/..", "main~0", "main^0", "main@{0}", "main:x", "x:main", "main*", "mai?", "[m]ain", `main\x`,
		"@", "HEAD", "-main", "refs/heads/", "refs/heads/refs/heads/main", "refs/tags/v1", "Refs/heads/main", "heads/main", "refs", "refs//heads/main",
		"\xff", "6dcb09b5b57875f334f61aebed695e2e4193db5e", strings.Repeat("a", 241), "a\u2028b",
	} {
		_, err := github.NewBranch(name)
		refused(t, err, "invalid_branch", "/branch")
	}
}

// FuzzBranch has git itself say whether what passes is a name of a branch.
func FuzzBranch(f *testing.F) {
	git, err := exec.LookPath("git")
	for _, seed := range []string{"fix/it", "refs/heads/main", "a.lock", "a@{b", "ü", "MAIN", "-x", "a..b", "\u200bmain"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		short, refusal := github.NewBranch(name)
		if refusal != nil {
			return
		}
		if strings.EqualFold(short, "main") || strings.EqualFold(short, "master") || strings.HasPrefix(short, "refs/") {
			t.Fatalf("%q passed as %q", name, short)
		}
		if again, err := github.NewBranch(short); again != short || err != nil {
			t.Fatalf("%q: %q again is %q, %v", name, short, again, err)
		}
		if err == nil {
			if out, err := exec.CommandContext(t.Context(), git, "check-ref-format", "refs/heads/"+short).CombinedOutput(); err != nil {
				t.Fatalf("git does not take %q: %v %s", short, err, out)
			}
		}
	})
}

func TestBases(t *testing.T) {
	for _, test := range []struct {
		settings string
		allowed  []string
		denied   []string
	}{
		{``, []string{"main", "develop", "production"}, nil},
		{`{"pr_bases":["main","release/*"]}`, []string{"main", "release/1.0"}, []string{"Main", "develop", "mainly", "production"}},
		{`{"denied_pr_bases":["main"]}`, []string{"production", "mainly"}, []string{"main", "MAIN"}},
		{`{"denied_pr_bases":[]}`, []string{"production"}, nil},
		{`{"pr_bases":[]}`, nil, []string{"main", "x"}},
		{`{"pr_bases":["*"],"denied_pr_bases":["*-live","a*b*c"]}`, []string{"main", "live", "ab"}, []string{"eu-live", "abc", "a1b2c"}},
	} {
		for _, base := range test.allowed {
			if err := github.Base(json.RawMessage(test.settings), base); err != nil {
				t.Errorf("%s: %s: %v", test.settings, base, err)
			}
		}
		for _, base := range test.denied {
			refused(t, github.Base(json.RawMessage(test.settings), base), "guardrail", "/base")
		}
	}
	refused(t, github.Base(json.RawMessage(`{"pr_base":["main"]}`), "main"), "guardrail", "settings")
	refused(t, github.Base(json.RawMessage(`{"pr_bases":"main"}`), "main"), "guardrail", "settings")
	refused(t, github.Base(nil, "a b"), "invalid_branch", "/base")
}

func TestProductionBases(t *testing.T) {
	for _, test := range []struct {
		settings         string
		production, base []string
	}{
		{``, []string{"production", "Production", "refs/heads/prod", "LIVE", "release/1.0", "release/1/2"}, []string{"main", "develop", "release", "prod2"}},
		{`{"repositories":["octocat/hello"]}`, []string{"live"}, []string{"main"}},
		{`{"production_pr_bases":["main","Ship/*"]}`, []string{"main", "MAIN", "ship/1"}, []string{"production", "mainly"}},
		{`{"production_pr_bases":[]}`, nil, []string{"production"}},
		{`{"pr_bases":["main","release/*"]}`, nil, []string{"release/1", "main"}}, // an admin named them
		{`{"denied_pr_bases":["x"]}`, nil, []string{"production"}},
		{`{"pr_bases":["*"],"denied_pr_bases":["x"],"production_pr_bases":["live"]}`, []string{"live"}, []string{"production"}},
	} {
		for _, name := range []string{"create_pr", "merge_pr"} {
			a := find(t, name)
			for want, bases := range map[bool][]string{true: test.production, false: test.base} {
				for _, base := range bases {
					why := a.Production(json.RawMessage(test.settings), fmt.Appendf(nil, `{"base":%q}`, base))
					if (why != "") != want || want && !strings.Contains(why, strings.TrimPrefix(base, "refs/heads/")) {
						t.Errorf("%s into %s with %s: production because %q", name, base, test.settings, why)
					}
				}
			}
		}
	}
	for _, a := range github.Module().Actions {
		if (a.Production != nil) != (a.Name == "create_pr" || a.Name == "merge_pr") {
			t.Errorf("%s may change production", a.Name)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"a*", "a", true},
		{"a*a", "a", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*b*b", "ab", false},
		{"a*b*b", "abb", true},
		{"**", "x", true},
		{"*b*", "abc", true},
		{"*b*", "ac", false},
		{"x*", "ax", false},
	} {
		if got := github.Matches(test.pattern, test.text); got != test.want {
			t.Errorf("%q, %q: %v", test.pattern, test.text, got)
		}
	}
}

// TestGuardrailsComeBeforeRequests runs every write where it is not allowed, and
// has it refused before anybody is asked.
func TestGuardrailsComeBeforeRequests(t *testing.T) {
	writes := map[string]string{
		"create_issue": `"title":"x"`, "comment_issue": `"number":1,"body":"x"`, "close_issue": `"number":1`, "create_branch": `"branch":"x"`,
		"create_pr": `"title":"x","head":"x","base":"y"`, "comment_pr": `"number":1,"body":"x"`,
		"merge_pr": `"number":1,"sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e","base":"trunk"`,
	}
	s := newServer(t, nil)
	for _, a := range github.Module().Actions {
		params, ok := writes[a.Name]
		if a.Risk == "read" {
			continue
		}
		if !ok {
			t.Errorf("%s is not tested", a.Name)
		}
		for _, rules := range []string{`{"repositories":["octocat/other","hello/*"]}`, `{"repositories":[]}`, `{"repos":["octocat/hello"]}`, `nonsense`} {
			_, err := run(t, s.conn(t, settings(rules)), a.Name, `{"owner":"octocat","repo":"hello",`+params+`}`)
			refused(t, err, "guardrail")
			refused(t, a.Guard(json.RawMessage(rules), json.RawMessage(`{"owner":"octocat","repo":"hello",`+params+`}`)), "guardrail")
		}
		for _, rules := range []string{`{"repositories":["octocat/other","OctoCat/HELLO"]}`, `{"repositories":["OCTOCAT/*"]}`, `{}`} {
			before := len(s.requests())
			_, err := run(t, s.conn(t, settings(rules)), a.Name, `{"owner":"octocat","repo":"hello",`+params+`}`)
			refused(t, err, "", "There is no")
			if err := a.Guard(json.RawMessage(rules), json.RawMessage(`{"owner":"octocat","repo":"hello",`+params+`}`)); err != nil {
				t.Errorf("%s with %s: %v", a.Name, rules, err)
			}
			if len(s.requests()) == before {
				t.Errorf("%s with %s asked for nothing", a.Name, rules)
			}
		}
	}
	asked := len(s.requests())
	const all, releases, hello = `{}`, `{"denied_pr_bases":["release/*"]}`, `{"owner":"octocat","repo":"hello",`
	for _, test := range []struct {
		action, params, settings, code string
		words                          []string
	}{
		{"create_branch", hello + `"branch":"refs/heads/Main"}`, all, "guardrail", []string{"main or master"}},
		{"create_branch", hello + `"branch":"x","base":"../../issues"}`, all, "invalid_branch", []string{"/base"}},
		{"create_branch", hello + `"branch":"x","base":"y","sha":"6dcb09b5b57875f334f61aebed695e2e4193db5e"}`, all, "invalid_params", []string{"/base", "/sha"}},
		{"create_pr", hello + `"title":"x","head":"x","base":"release/2"}`, releases, "guardrail", []string{"/base"}},
		{"create_pr", hello + `"title":"x","head":"a/b:c","base":"y"}`, all, "invalid_branch", []string{"/head"}},
		{"create_pr", hello + `"title":"x","head":"a:b:c","base":"y"}`, all, "invalid_branch", []string{"/head"}},
		{"merge_pr", strings.Replace(mergeNow, "trunk", "release/2", 1), releases, "guardrail", []string{"/base", "release/2"}},
		{"merge_pr", mergeNow, `{"pr_bases":["develop"]}`, "guardrail", []string{"/base", "trunk"}},
		{"merge_pr", strings.Replace(mergeNow, "trunk", "a b", 1), all, "invalid_branch", []string{"/base"}},
	} {
		_, err := run(t, s.conn(t, settings(test.settings)), test.action, test.params)
		refused(t, err, test.code, test.words...)
		refused(t, find(t, test.action).Guard(json.RawMessage(test.settings), json.RawMessage(test.params)), test.code, test.words...)
	}
	if n := len(s.requests()); n != asked {
		t.Errorf("%d requests were made", n-asked)
	}
}

func TestNamesThatAreNoRepositories(t *testing.T) {
	a := find(t, "create_issue")
	for _, params := range []string{
		`{"owner":"..","repo":"hello","title":"x"}`, `{"owner":"octocat/hello","repo":"x","title":"x"}`, `{"owner":"octocat","repo":"..","title":"x"}`,
		`{"owner":"octocat","repo":".","title":"x"}`, `{"owner":"octocat","repo":"hello/../other","title":"x"}`, `{"owner":"octocat","repo":"hello?x","title":"x"}`,
		`{"owner":"octocat\n","repo":"hello","title":"x"}`, `{"owner":"octocat","repo":"hello%2f","title":"x"}`, `{"owner":"","repo":"hello","title":"x"}`,
		`{"owner":"octocat","repo":"hello","title":"x","Owner":"other"}`, `{"owner":"octocat","repo":"hello","title":""}`,
	} {
		if fits(t, a.Input, params) == nil {
			t.Errorf("%s fits", params)
		}
	}
}

// A comment has one place: the conversation, a line, or below another comment.
func TestPlacesOfComments(t *testing.T) {
	guard := find(t, "comment_pr").Guard
	for place, want := range map[string]string{
		``:                                    "",
		`"path":"a","line":1`:                 "",
		`"in_reply_to":1`:                     "",
		`"path":"a"`:                          "both /path and /line",
		`"line":1`:                            "both /path and /line",
		`"side":"LEFT"`:                       "add /path and /line",
		`"in_reply_to":1,"path":"a","line":1`: "leave out /path",
		`"in_reply_to":1,"side":"LEFT"`:       "leave out /path",
	} {
		params := `{"owner":"o","repo":"r","number":1,"body":"x"`
		if place != "" {
			params += "," + place
		}
		err := guard(nil, json.RawMessage(params+"}"))
		if want == "" && err == nil {
			continue
		}
		refused(t, err, "invalid_params", want)
	}
}
