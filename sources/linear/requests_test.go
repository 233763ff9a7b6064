package linear_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/linear"
)

const issueFields = `"id":"0b1c","identifier":"ENG-7","title":"Login <fails>","url":"https://linear.app/acme/issue/ENG-7/login","priority":2,"priorityLabel":"High","dueDate":null,"createdAt":"2026-11-01T10:00:00.000Z","updatedAt":"2026-11-02T10:00:00.000Z","state":{"id":"s1","name":"Todo","type":"unstarted"},"assignee":{"id":"u1","name":"Ada Byron","displayName":"ada"},"team":{"id":"t1","key":"ENG","name":"Engineering"},"project":null,"labels":{"nodes":[{"id":"l1","name":"Bug"}]}`

const issueShown = `{"id":"0b1c","identifier":"ENG-7","title":"Login <fails>","url":"https://linear.app/acme/issue/ENG-7/login","state":{"id":"s1","name":"Todo","type":"unstarted"},"priority":2,"priorityLabel":"High","assignee":{"id":"u1","name":"Ada Byron","displayName":"ada"},"team":{"id":"t1","key":"ENG","name":"Engineering"},"project":null,"labels":[{"id":"l1","name":"Bug"}],"createdAt":"2026-11-01T10:00:00.000Z","updatedAt":"2026-11-02T10:00:00.000Z"}`

// calls are calls of every action, with what Linear answers and what agents
// get of it.
var calls = []struct {
	name, action, params, answer, want string
}{
	{
		"list", "list_issues", `{}`,
		`{"data":{"issues":{"nodes":[{` + issueFields + `}],"pageInfo":{"hasNextPage":true,"endCursor":"c2"}}}}`,
		`{"items":[` + issueShown + `],"next_cursor":"c2"}`,
	},
	{
		"list-filtered", "list_issues",
		`{"after":"c2","assignee":"me","first":5e1,"includeArchived":true,"label":"Bug","orderBy":"updatedAt","priority":1.0,"projectId":"9cfb482a-81e3-4154-b5b9-2c805e70a02d","query":"log\"in","state":"Started","teamId":"ENG","updatedAfter":"-P7D"}`,
		`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":"c3"}}}}`,
		`{"items":[],"next_cursor":null}`,
	},
	{
		"list-by-ids", "list_issues",
		`{"assignee":"1cfb482a-81e3-4154-b5b9-2c805e70a02d","label":"2cfb482a-81e3-4154-b5b9-2c805e70a02d","state":"3cfb482a-81e3-4154-b5b9-2c805e70a02d","teamId":"4cfb482a-81e3-4154-b5b9-2c805e70a02d"}`,
		`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
		`{"items":[],"next_cursor":null}`,
	},
	{
		"list-by-email", "list_issues", `{"assignee":"ada@example.com"}`,
		`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
		`{"items":[],"next_cursor":null}`,
	},
	{
		"list-by-name", "list_issues", `{"assignee":"Ada"}`,
		`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
		`{"items":[],"next_cursor":null}`,
	},
	{
		"list-unassigned", "list_issues", `{"assignee":"none"}`,
		`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
		`{"items":[],"next_cursor":null}`,
	},
	{
		"get", "get_issue", `{"commentsAfter":"c9","issueId":"ENG-7"}`,
		`{"data":{"issue":{` + issueFields + `,"description":"It **fails**.","branchName":"ada/eng-7","archivedAt":null,"creator":null,"parent":{"id":"p","identifier":"ENG-1","title":"Epic"},"children":{"nodes":[{"id":"k","identifier":"ENG-8","title":"Part","state":{"id":"s2","name":"Done","type":"completed"}}]},"attachments":{"nodes":[{"title":"PR 5","url":"https://github.com/acme/x/pull/5"}]},"comments":{"nodes":[{"id":"m2","body":"second","createdAt":"2026-11-03T00:00:00Z","url":"u","user":{"id":"u1","name":"Ada Byron","displayName":"ada"},"botActor":null,"parent":{"id":"m1"}},{"id":"m1","body":"first","createdAt":"2026-11-02T00:00:00Z","url":"u","user":null,"botActor":{"name":"GitHub"},"parent":null}],"pageInfo":{"hasNextPage":false,"endCursor":"c10"}},"availableIn":{"states":{"nodes":[{"id":"s1","name":"Todo","type":"unstarted"},{"id":"s2","name":"Done","type":"completed"}]}}}}}`,
		strings.TrimSuffix(issueShown, "}") + `,"description":"It **fails**.","branchName":"ada/eng-7","creator":null,"parent":{"id":"p","identifier":"ENG-1","title":"Epic"},"children":[{"id":"k","identifier":"ENG-8","title":"Part","state":{"id":"s2","name":"Done","type":"completed"}}],"attachments":[{"title":"PR 5","url":"https://github.com/acme/x/pull/5"}],"comments":{"items":[{"id":"m1","body":"first","createdAt":"2026-11-02T00:00:00Z","url":"u","botActor":{"name":"GitHub"}},{"id":"m2","body":"second","createdAt":"2026-11-03T00:00:00Z","url":"u","user":{"id":"u1","name":"Ada Byron","displayName":"ada"},"parent":{"id":"m1"}}],"next_cursor":null},"states":[{"id":"s1","name":"Todo","type":"unstarted"},{"id":"s2","name":"Done","type":"completed"}]}`,
	},
	{
		"create", "create_issue",
		`{"assigneeId":"1cfb482a-81e3-4154-b5b9-2c805e70a02d","description":"a\nb","labelIds":["2cfb482a-81e3-4154-b5b9-2c805e70a02d"],"priority":2.0,"projectId":"5cfb482a-81e3-4154-b5b9-2c805e70a02d","stateId":"3cfb482a-81e3-4154-b5b9-2c805e70a02d","teamId":"4cfb482a-81e3-4154-b5b9-2c805e70a02d","title":"Login <fails>"}`,
		`{"data":{"issueCreate":{"success":true,"issue":{` + issueFields + `}}}}`,
		issueShown,
	},
	{
		"update", "update_issue",
		`{"addedLabelIds":["2cfb482a-81e3-4154-b5b9-2c805e70a02d"],"assigneeId":null,"description":"","issueId":"ENG-7","priority":0,"projectId":null,"removedLabelIds":["6cfb482a-81e3-4154-b5b9-2c805e70a02d"],"stateId":"3cfb482a-81e3-4154-b5b9-2c805e70a02d","title":"T"}`,
		`{"data":{"issueUpdate":{"success":true,"issue":{` + issueFields + `}}}}`,
		issueShown,
	},
	{
		"comment", "add_comment", `{"body":"It & that","issueId":"ENG-7","parentId":"7cfb482a-81e3-4154-b5b9-2c805e70a02d"}`,
		`{"data":{"commentCreate":{"success":true,"comment":{"id":"m3","url":"https://linear.app/c","createdAt":"2026-11-04T00:00:00Z","issue":{"id":"0b1c","identifier":"ENG-7"}}}}}`,
		`{"id":"m3","createdAt":"2026-11-04T00:00:00Z","url":"https://linear.app/c","issue":{"id":"0b1c","identifier":"ENG-7"}}`,
	},
}

func TestRequests(t *testing.T) {
	for _, tt := range calls {
		t.Run(tt.name, func(t *testing.T) {
			s := newService(t, answer{body: tt.answer})
			got, err := run(t, s, tt.action, tt.params)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the agent gets (-want +got):\n%s", diff)
			}
			golden(t, tt.name, s.transcript())
		})
	}
}

// TestTeamKey has a team named by its key: its id is found out first.
func TestTeamKey(t *testing.T) {
	s := newService(t,
		answer{body: `{"data":{"teams":{"nodes":[{"id":"4cfb482a-81e3-4154-b5b9-2c805e70a02d","key":"ENG","name":"Engineering"}]}}}`},
		answer{body: `{"data":{"issueCreate":{"success":true,"issue":{` + issueFields + `}}}}`})
	if _, err := run(t, s, "create_issue", `{"teamId":"eng","title":"T"}`); err != nil {
		t.Fatal(err)
	}
	golden(t, "create-by-key", s.transcript())
}

func TestAccount(t *testing.T) {
	s := newService(t, answer{body: `{"data":{"viewer":{"id":"u1","name":"Ada","email":"ada@example.com"},"organization":{"id":"o1","name":"Acme","urlKey":"acme"}}}`})
	got, err := linear.Module().Account(t.Context(), s.conn(t, action.KindOAuth2))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sources.Account{ID: "o1", Name: "Acme"}, got); diff != "" {
		t.Error(diff)
	}
	golden(t, "account-oauth", s.transcript())
}

func TestMetadata(t *testing.T) {
	const none = `{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}`
	s := newService(t, answer{body: `{"data":{"teams":{"nodes":[{"id":"t1","key":"ENG","name":"Engineering"}],"pageInfo":{"hasNextPage":false,"endCursor":"x"}},"states":` + none + `,"labels":` + none + `,"users":{"nodes":[{"id":"u1","name":"Ada","displayName":"ada","email":"ada@example.com","active":true}],"pageInfo":{"hasNextPage":true,"endCursor":"x"}},"projects":` + none + `}}`})
	conn := s.conn(t, action.KindAPIKey)
	got, err := linear.Module().Metadata(t.Context(), conn, url.Values{"team": {"ENG"}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"incomplete":["users"],"labels":[],"projects":[],"states":[],"teams":[{"id":"t1","key":"ENG","name":"Engineering"}],"users":[{"active":true,"displayName":"ada","email":"ada@example.com","id":"u1","name":"Ada"}]}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Error(diff)
	}
	if _, err := linear.Module().Metadata(t.Context(), conn, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "metadata", s.transcript())
}

// pollCursors are of a poll that begins, and one that goes on.
var pollCursors = []string{``, `{"mark":"2026-11-02T10:00:00.5Z","after":"c2"}`}

func TestPollRequests(t *testing.T) {
	s := newService(t, answer{body: `{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`})
	for _, cursor := range pollCursors {
		if _, err := linear.Module().Poll(t.Context(), s.conn(t, action.KindAPIKey), json.RawMessage(cursor)); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "poll", s.transcript())
}
