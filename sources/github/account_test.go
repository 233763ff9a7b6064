package github_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/github"
)

func TestAccounts(t *testing.T) {
	for _, test := range []struct {
		name    string
		kind    func(*sources.Conn)
		replies map[string][]reply
		want    sources.Account
	}{
		{
			"a token with scopes", nil,
			map[string][]reply{"GET /user": {{header: map[string]string{"X-OAuth-Scopes": "repo, read:org"}, body: userJSON}}},
			sources.Account{ID: "583231", Name: "octocat", Scopes: []string{"repo", "read:org"}},
		},
		{"a token with no scope", nil, map[string][]reply{"GET /user": {{header: map[string]string{"X-OAuth-Scopes": ""}, body: userJSON}}}, sources.Account{ID: "583231", Name: "octocat", Scopes: []string{}}},
		{"a token with permissions", nil, map[string][]reply{"GET /user": one(userJSON)}, sources.Account{ID: "583231", Name: "octocat"}},
		{
			"an installation", app,
			map[string][]reply{"GET /installation/repositories?per_page=1": one(`{"total_count":1,"repositories":[` + repoJSON + `]}`)},
			sources.Account{Name: "octocat"},
		},
		{"an installation that sees nothing", app, map[string][]reply{"GET /installation/repositories?per_page=1": one(`{"total_count":0,"repositories":[]}`)}, sources.Account{}},
	} {
		s := newServer(t, test.replies)
		c := s.conn(t)
		if test.want.ID != "" { // the server is none of GitHub's own
			test.want.ID = strings.TrimPrefix(s.URL, "http://") + "#" + test.want.ID
		}
		if test.kind != nil {
			test.kind(c)
		}
		got, err := github.Module().Account(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	_, err := github.Module().Account(t.Context(), newServer(t, map[string][]reply{"GET /user": {{status: 401, body: `{"message":"Bad credentials"}`}}}).conn(t))
	refused(t, err, "", "connect GitHub again")
}

// TestUsersOfTwoServers has users of Enterprise servers, which count from 1, be
// others than those of github.com and of each other.
func TestUsersOfTwoServers(t *testing.T) {
	for base, want := range map[string]string{
		github.Module().BaseURL: "7", "https://api.github.com:443/": "7", "https://hub.example/api/v3": "hub.example/api/v3#7", "https://other.example/api/v3/": "other.example/api/v3#7",
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := github.UserID(u, 7); got != want {
			t.Errorf("%s: %q, not %q", base, got, want)
		}
	}
}

func TestMetadata(t *testing.T) {
	next := map[string]string{"Link": `<BASE/user/repos?page=2>; rel="next"`}
	s := newServer(t, map[string][]reply{
		"GET /user/repos?per_page=100&sort=pushed":        {{header: next, body: "[" + repoJSON + "]"}},
		"GET /user/repos?page=2&per_page=100&sort=pushed": one("[" + strings.ReplaceAll(repoJSON, "hello", "second") + "]"),
		"GET /orgs/octo-org/repos":                        {{header: next, body: "[" + repoJSON + "]"}},
	})
	for owner, want := range map[string]string{
		"":         `{"repositories":[{"full_name":"octocat/hello","private":false,"default_branch":"trunk"},{"full_name":"octocat/second","private":false,"default_branch":"trunk"}]}`,
		"octo-org": `"_truncated":true`,
	} {
		got, err := github.Module().Metadata(t.Context(), s.conn(t), map[string][]string{"owner": {owner}})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(got)
		if err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%q: %s, %v", owner, raw, err)
		}
	}
	if n := len(s.requests()); n > 40 {
		t.Errorf("%d requests were made", n)
	}
}

func TestChoice(t *testing.T) {
	named := func(names ...string) (list []action.Integration) {
		for i, name := range names {
			list = append(list, action.Integration{ID: fmt.Sprint(i), AccountName: name})
		}
		return list
	}
	// mixed are an installation of octo-org, tokens of the names, and what is
	// dead of the installation's kind.
	mixed := func(tokens ...string) []action.Integration {
		list := named(append([]string{"octo-org", "gone"}, tokens...)...)
		list[0].Kind, list[1].Kind, list[1].Status = action.KindApp, action.KindApp, action.IntegrationRevoked
		for i := range tokens {
			list[i+2].Kind = action.KindAPIKey
		}
		return list
	}
	for _, test := range []struct {
		params string
		among  []action.Integration
		want   int
	}{
		{`{"owner":"hubot"}`, mixed("octocat"), 2},
		{`{"owner":"octo-org"}`, mixed("octocat"), 0},
		{`{"owner":"gone"}`, mixed("octocat"), 1},
		{`{"owner":"octocat"}`, mixed("octocat", "hubot"), 2},
		{`{"owner":"octo-org"}`, mixed("octo-org"), -1},
		{`{"owner":"hubot"}`, mixed("octocat", "octokitten"), -1},
		{`{"owner":"hubot"}`, mixed(), -1},
		{`{}`, mixed("octocat"), -1},
		{`{"owner":"Octo-Org"}`, named("octocat", "octo-org", ""), 1},
		{`{"owner":"octocat"}`, named("octocat", "OCTOCAT"), -1},
		{`{"owner":"hubot"}`, named("octocat", "octo-org"), -1},
		{`{}`, named("octocat", ""), -1},
		{`{"owner":7}`, named("octocat"), -1},
	} {
		if got := github.Module().Choose(json.RawMessage(test.params), test.among); got != test.want {
			t.Errorf("%s: %d, not %d", test.params, got, test.want)
		}
	}
}

// TestEnterprise has a base URL with a path stay in front of everything.
func TestEnterprise(t *testing.T) {
	s := newServer(t, map[string][]reply{"GET /api/v3/repos/octocat/hello": one(repoJSON)})
	s.URL += "/api/v3"
	if _, err := run(t, s.conn(t), "get_repo", `{"owner":"octocat","repo":"hello"}`); err != nil {
		t.Error(err)
	}
}
