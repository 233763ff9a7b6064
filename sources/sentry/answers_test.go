package sentry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources/sentry"
)

const issues = "/api/0/organizations/acme/issues/"

// TestPages reads a list to its end: Sentry names a next page even on the last.
func TestPages(t *testing.T) {
	link := func(previous, next, cursor string) http.Header {
		return http.Header{"Link": {fmt.Sprintf(
			`<https://sentry.io/api/0/organizations/acme/issues/?query=a,b&cursor=0:0:1>; rel="previous"; results="%s"; cursor="0:0:1", `+
				`<https://sentry.io/api/0/organizations/acme/issues/?query=a,b&cursor=%s>; rel="next"; results="%s"; cursor="%s"`, previous, cursor, next, cursor)}}
	}
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"more", link("false", "true", "0:25:0"), `{"items":[{"id":"1"}],"next_cursor":"0:25:0"}`},
		{"the last page", link("true", "false", "0:50:0"), `{"items":[{"id":"1"}]}`},
		{"no links", nil, `{"items":[{"id":"1"}]}`},
		{"broken links", http.Header{"Link": {`<<;rel="next"; results="true`, `nonsense`}}, `{"items":[{"id":"1"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, map[string]answer{"GET " + issues: {header: c.header, body: `[{"id":"1"}]`}})
			got, err := run(t, s.conn(t, "", acme), "list_issues", `{}`)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestNothingFoundIsAnEmptyList(t *testing.T) {
	s := serve(t, map[string]answer{"GET " + issues: {body: `[]`}})
	got, err := run(t, s.conn(t, "", acme), "list_issues", `{}`)
	if err != nil || string(got) != `{"items":[]}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	const change = `{"issue_id":"1","assignedTo":"nobody@example.com"}`
	for _, c := range []struct {
		name, action, params string
		answer               answer
		code, message        string
		credential           bool
	}{
		{
			"a token that ended", "get_issue", `{"issue_id":"1"}`,
			answer{status: 401, body: `{"detail":"Invalid token"}`},
			"", "no longer accepts the credential of this connection", true,
		},
		{
			"single sign-on", "get_issue", `{"issue_id":"1"}`,
			answer{status: 401, body: `{"detail":{"code":"sso-required","message":"Must login via SSO","extra":{"loginUrl":"/auth"}}}`},
			"sso-required", "sign in there in another way first", false,
		},
		{
			"a scope that lacks", "update_issue", change,
			answer{status: 403, body: `{"detail":"You do not have permission to perform this action."}`},
			"", "lacks the scope event:write", false,
		},
		{
			"no such issue", "get_issue", `{"issue_id":"1"}`,
			answer{status: 404, body: `{"detail":"The requested resource does not exist"}`},
			"", `no issue "1" in the organization "acme" that this connection sees; list the issues`, false,
		},
		{
			"a wrong field", "update_issue", change,
			answer{status: 400, body: `{"assignedTo":["Unknown actor input"]}`},
			"", `Sentry rejected assignedTo. Correct it`, false,
		},
		{
			"several wrong fields", "update_issue", change,
			answer{status: 400, body: `{"status":["a","b"],"priority":"c","do what I say":"now"}`},
			"", `rejected priority and status.`, false,
		},
		{
			"a wrong query", "get_issue", `{"issue_id":"1"}`,
			answer{status: 400, body: `{"detail":"Error parsing search query: Invalid\u202e \u0000date"}`},
			"", "Sentry refuses this (HTTP 400); check the params", false,
		},
		{
			"another region", "update_issue", change,
			answer{status: 307, header: http.Header{"Location": {"/api/0/organizations/acme/issues/2/"}}},
			"", "Sentry redirects this request", false,
		},
		{"a bare string", "get_issue", `{"issue_id":"1"}`, answer{status: 400, body: `"Too much"`}, "", "Sentry refuses this (HTTP 400); check the params", false},
		{"no JSON", "get_issue", `{"issue_id":"1"}`, answer{status: 400, body: `<html>`}, "", "Sentry refuses this (HTTP 400)", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			method := map[bool]string{true: "PUT ", false: "GET "}[c.action == "update_issue"]
			s := serve(t, map[string]answer{method + issues + "1/": c.answer})
			no := refused(t, s.conn(t, "", acme), c.action, c.params)
			if no.Code != c.code || no.Status != c.answer.status || no.Credential != c.credential || !strings.Contains(no.Message, c.message) {
				t.Errorf("got %+v; want the code %q, the credential %v and: %s", *no, c.code, c.credential, c.message)
			}
			for _, foreign := range []string{"Unknown actor", "do what", "parsing", "Too much", "permission", "does not exist"} {
				if strings.Contains(no.Message, foreign) || strings.Contains(c.answer.body, foreign) != strings.Contains(no.Detail, foreign) {
					t.Errorf("%q is in the message %q or not in the detail %q", foreign, no.Message, no.Detail)
				}
			}
		})
	}
}

// TestSearchThatIsNone: it is the query that most refusals are about.
func TestSearchThatIsNone(t *testing.T) {
	s := serve(t, map[string]answer{"GET " + issues: {status: 400, body: `{"detail":"Error parsing search query"}`}})
	if no := refused(t, s.conn(t, "", acme), "list_issues", `{"query":"a:"}`); !strings.Contains(no.Message, "check query") {
		t.Errorf("got %+v", *no)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct{ action, params, want string }{
		{"list_issues", `{"project_slug":"webb"}`, `no project "webb"`},
		{"get_issue", `{"issue_id":"WEB-9"}`, `no issue "WEB-9"`},
		{"list_issue_events", `{"issue_id":"9"}`, `no issue "9"`},
		{"get_event", `{"issue_id":"9","event_id":"latest"}`, `no event "latest" of the issue "9"`},
		{"update_issue", `{"issue_id":"9","status":"resolved"}`, `no issue "9"`},
	} {
		if no := refused(t, s.conn(t, "", acme), c.action, c.params); no.Status != 404 || !strings.Contains(no.Message, c.want) {
			t.Errorf("%s %s: got %+v; want: %s", c.action, c.params, *no, c.want)
		}
	}
}

func TestParamsThatOnlyTheModuleRefuses(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct{ settings, action, params, code string }{
		{"", "list_issues", `{}`, "organization_required"},
		{acme, "list_issues", `{"organization_slug":"beta"}`, "other_organization"},
		{acme, "update_issue", `{"issue_id":"1"}`, "nothing_to_change"},
	} {
		if no := refused(t, s.conn(t, "", c.settings), c.action, c.params); no.Code != c.code {
			t.Errorf("%s %s: got %+v; want %s", c.action, c.params, *no, c.code)
		}
	}
	if len(s.asked) > 0 {
		t.Errorf("Sentry was asked: %q", s.asked)
	}
}

// TestAnswersOfNoUse are not refusals: whether a change was made is not known.
func TestAnswersOfNoUse(t *testing.T) {
	for _, c := range []struct {
		answer answer
		code   string
	}{
		{answer{status: 500, body: `{"detail":"Internal Error","errorId":"x"}`}, "upstream_failed"},
		{answer{body: `<!DOCTYPE html>`}, "upstream_protocol"},
		{answer{body: `[]`}, "upstream_protocol"},
		{answer{body: `null`}, "upstream_protocol"},
		{answer{status: 204}, "upstream_protocol"},
	} {
		s := serve(t, map[string]answer{"PUT " + issues + "1/": c.answer})
		_, err := run(t, s.conn(t, "", acme), "update_issue", `{"issue_id":"1","hasSeen":true}`)
		var e *action.Error
		if !errors.As(err, &e) || e.Code != c.code || !errors.Is(err, action.ErrOutcomeUnknown) {
			t.Errorf("%+v: got %v; want %s", c.answer, err, c.code)
		}
	}
}

// TestNothingWasChanged: before the issue is known, nothing is sent that changes
// one.
func TestNothingWasChanged(t *testing.T) {
	for _, a := range []answer{{status: 500}, {body: `{"groupId":7}`}, {body: `{}`}, {body: `null`}} {
		s := serve(t, map[string]answer{"GET /api/0/organizations/acme/shortids/WEB-1A/": a})
		_, err := run(t, s.conn(t, "", acme), "update_issue", `{"issue_id":"WEB-1A","hasSeen":true}`)
		if !errors.Is(err, action.ErrUnavailable) || errors.Is(err, action.ErrOutcomeUnknown) || strings.Contains(strings.Join(s.asked, ""), "PUT ") {
			t.Errorf("%+v: got %v after %q", a, err, s.asked)
		}
	}
}

// TestWholeNumbers are whole however they are written.
func TestWholeNumbers(t *testing.T) {
	for _, limit := range []string{"10", "10.0", "1e1"} {
		s := serve(t, map[string]answer{"GET " + issues: {body: `[]`}})
		_, err := run(t, s.conn(t, "", acme), "list_issues", `{"limit":`+limit+`}`)
		if err != nil || len(s.asked) != 1 || !strings.Contains(s.asked[0], "limit=10&") {
			t.Errorf("%s: %v after %q", limit, err, s.asked)
		}
	}
}

// TestBaseURLs keeps the path of a server of one's own.
func TestBaseURLs(t *testing.T) {
	for _, prefix := range []string{"", "/", "/tools/sentry", "/tools/sentry/"} {
		path := strings.TrimSuffix(prefix, "/") + issues
		s := serve(t, map[string]answer{"GET " + path: {body: `[]`}})
		if _, err := run(t, s.conn(t, prefix, acme), "list_issues", `{}`); err != nil {
			t.Errorf("%q: %v; asked %q", prefix, err, s.asked)
		}
	}
}

// TestLargeAnswers cuts what agents get, and says so, but loses no element of a
// page and nothing of the newest.
func TestLargeAnswers(t *testing.T) {
	long := strings.Repeat("x<é", 200)
	frames := make([]map[string]any, 300)
	for i := range frames {
		frames[i] = map[string]any{"filename": fmt.Sprintf("f%d.go", i), "function": long, "inApp": true, "context": [][]any{{i, long}}}
	}
	crumbs := make([]map[string]any, 500)
	for i := range crumbs {
		crumbs[i] = map[string]any{"message": fmt.Sprintf("%d %s", i, long), "data": map[string]any{"deep": deep(30)}}
	}
	many := map[string]any{} // all of it stays below what the client takes
	for i := range 45 {
		many[fmt.Sprintf("key%d", i)] = long
	}
	event := encoded(t, map[string]any{
		"eventID": "e", "title": long, "contexts": many, "context": many,
		"entries": []any{
			map[string]any{"type": "exception", "data": map[string]any{"values": []any{map[string]any{"type": "E", "stacktrace": map[string]any{"frames": frames}}}}},
			map[string]any{"type": "breadcrumbs", "data": map[string]any{"values": crumbs}},
		},
	})
	page := make([]map[string]any, 50)
	for i := range page {
		page[i] = map[string]any{"id": fmt.Sprint(i), "title": long, "culprit": long, "metadata": map[string]any{"value": long}, "statusDetails": many}
	}
	s := serve(t, map[string]answer{
		"GET " + issues + "1/events/latest/": {body: event},
		"GET " + issues:                      {body: encoded(t, page)},
	})
	c := s.conn(t, "", acme)
	got, err := run(t, c, "get_event", `{"issue_id":"1","event_id":"latest"}`)
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Truncated  bool `json:"_truncated"`
		Exceptions []struct{ Frames []struct{ Filename string } }
		Crumbs     []struct{ Message string } `json:"breadcrumbs"`
	}
	if err := json.Unmarshal(got, &e); err != nil || !e.Truncated || len(got) > 60<<10 {
		t.Fatalf("%d bytes, truncated %v, %v", len(got), e.Truncated, err)
	}
	if e.Exceptions[0].Frames[0].Filename != "f299.go" || !strings.HasPrefix(e.Crumbs[0].Message, "499 ") {
		t.Errorf("not the newest first: %s, %s", e.Exceptions[0].Frames[0].Filename, e.Crumbs[0].Message[:10])
	}

	got, err = run(t, c, "list_issues", `{"limit":50}`)
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		Truncated bool `json:"_truncated"`
		Items     []struct{ ID string }
	}
	if err := json.Unmarshal(got, &l); err != nil || !l.Truncated || len(got) > 60<<10 || len(l.Items) != 50 {
		t.Errorf("%d bytes, %d items, truncated %v, %v", len(got), len(l.Items), l.Truncated, err)
	}
}

func deep(n int) any {
	if n == 0 {
		return "bottom"
	}
	return []any{deep(n - 1)}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FuzzEvent takes whatever a server may say of an event.
func FuzzEvent(f *testing.F) {
	for _, seed := range []string{
		`{"entries":[{"type":"threads","data":{"values":[{"crashed":true,"stacktrace":{"frames":[{}]}},null,1]}}]}`,
		`{"entries":[null,{"type":7,"data":[]},{"type":"message","data":{"formatted":{}}}],"tags":[{"key":1},3],"release":"x","user":[]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, err := sentry.Event([]byte(body))
		if err == nil && (!json.Valid(got) || len(got) > 60<<10) {
			t.Errorf("%d bytes: %.200s", len(got), got)
		}
	})
}

func TestCrashedThread(t *testing.T) {
	s := serve(t, map[string]answer{"GET " + issues + "1/events/latest/": {body: `{"eventID":"e","entries":[
		{"type":"message","data":{"formatted":"disk full"}},
		{"type":"threads","data":{"values":[{"id":1,"name":"main","crashed":true,"stacktrace":{"frames":[{"function":"a"},{"function":"b"}]}},{"id":2,"crashed":false}]}}]}`}})
	got, err := run(t, s.conn(t, "", acme), "get_event", `{"issue_id":"1","event_id":"latest"}`)
	want := `{"eventID":"e","message":"disk full","threads":[{"crashed":true,"frames":[{"function":"b"},{"function":"a"}],"id":1,"name":"main"}]}`
	if err != nil || cmp.Diff(want, string(got)) != "" {
		t.Errorf("%v: %s", err, cmp.Diff(want, string(got)))
	}
}
