package github_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/github"
)

// tracker serves a repository's issues page by page. Every one whose number is
// in pulls is a pull request.
func tracker(t *testing.T, total int, pulls func(int) bool, asked *[]string) *sources.Conn {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.RawQuery)
		q := r.URL.Query()
		size, _ := strconv.Atoi(q.Get("per_page"))
		page, _ := strconv.Atoi(q.Get("page"))
		page = max(page, 1)
		if page > 1 && q.Get("after") != fmt.Sprintf("Y3Vyc29yOnYy/%d+=", page) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		items := []string{}
		for n := (page-1)*size + 1; n <= min(page*size, total); n++ {
			item := fmt.Sprintf(`{"number":%d,"title":"x"}`, n)
			if pulls(n) {
				item = fmt.Sprintf(`{"number":%d,"title":"x","pull_request":{}}`, n)
			}
			items = append(items, item)
		}
		if page*size < total {
			next := url.Values{"page": {strconv.Itoa(page + 1)}, "after": {fmt.Sprintf("Y3Vyc29yOnYy/%d+=", page+1)}, "per_page": {"100"}, "state": {"all"}}
			w.Header().Set("Link", `<https://evil.example/first>; rel="first", <https://evil.example/repositories/1/issues?`+next.Encode()+`>; rel="next", <https://evil.example/last?page=9>; rel="last"`)
		}
		fmt.Fprintf(w, "[%s]", strings.Join(items, ","))
	}))
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{})
	t.Cleanup(pool.Close)
	return &sources.Conn{Token: token, HTTP: pool.Client(t.Name(), base, token)}
}

// all follows the cursors of list_issues to their end.
func all(t *testing.T, c *sources.Conn, limit int) (numbers []int, sizes []int) {
	t.Helper()
	cursor := ""
	for range 50 {
		params := map[string]any{"owner": "octocat", "repo": "hello", "state": "all"}
		if cursor == "" {
			params["limit"] = limit
		} else {
			params["cursor"] = cursor
			params["limit"] = 77 // does not count any more
		}
		raw, err := json.Marshal(params)
		if err != nil {
			t.Fatal(err)
		}
		result, err := run(t, c, "list_issues", string(raw))
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Items []struct{ Number int }
			Next  string `json:"next_cursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			numbers = append(numbers, i.Number)
		}
		sizes = append(sizes, len(page.Items))
		if page.Next == "" {
			return numbers, sizes
		}
		cursor = page.Next
	}
	t.Fatal("the list has no end")
	return nil, nil
}

// TestIssuesWithoutPullRequests has every issue listed once and in order, and
// pages that are full, however pull requests lie among them.
func TestIssuesWithoutPullRequests(t *testing.T) {
	for _, test := range []struct {
		name         string
		total, limit int
		pulls        func(int) bool
		sizes        []int
		requests     int
	}{
		{"none", 5, 2, func(int) bool { return false }, []int{2, 2, 1}, 3},
		{"every other", 10, 3, func(n int) bool { return n%2 == 0 }, []int{3, 2}, 5},
		{"the first", 9, 3, func(n int) bool { return n <= 4 }, []int{3, 2}, 4},
		{"all", 9, 3, func(int) bool { return true }, []int{0}, 3},
		{"too many to read at once", 24, 3, func(n int) bool { return n < 20 }, []int{0, 3, 2}, 9},
		{"just a page", 3, 3, func(int) bool { return false }, []int{3}, 1},
		{"nothing", 0, 3, func(int) bool { return false }, []int{0}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked []string
			numbers, sizes := all(t, tracker(t, test.total, test.pulls, &asked), test.limit)
			var want []int
			for n := 1; n <= test.total; n++ {
				if !test.pulls(n) {
					want = append(want, n)
				}
			}
			if diff := cmp.Diff(want, numbers); diff != "" {
				t.Errorf("issues (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.sizes, sizes); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
			if len(asked) != test.requests {
				t.Errorf("%d requests: %s", len(asked), strings.Join(asked, "\n"))
			}
			for _, q := range asked {
				if !strings.Contains(q, fmt.Sprintf("per_page=%d", test.limit)) || !strings.Contains(q, "state=all") || strings.Contains(q, "skip") {
					t.Errorf("asked %s", q)
				}
			}
		})
	}
}

func TestLinks(t *testing.T) {
	for link, want := range map[string]url.Values{
		``: nil,
		`<https://api.github.com/x?page=2>; rel="next"`:                         {"page": {"2"}, "per_page": {"30"}},
		`<https://api.github.com/x?page=2&per_page=7&evil=1>; rel="next"`:       {"page": {"2"}, "per_page": {"30"}},
		`<https://api.github.com/x?page=1>; rel="prev", </x?page=3>;rel="next"`: {"page": {"3"}, "per_page": {"30"}},
		`<https://api.github.com/x?after=abc%3D>; rel="next"`:                   {"after": {"abc="}, "per_page": {"30"}},
		`<https://api.github.com/x?page=2>; rel="last"`:                         nil,
		`<https://api.github.com/x?page=0>; rel="next"`:                         nil,
		`<https://api.github.com/x?page=2&page=3>; rel="next"`:                  nil,
		`<https://api.github.com/x?page=2%26x>; rel="next"`:                     nil,
		`<https://api.github.com/x?skip=5>; rel="next"`:                         nil,
		`<:>; rel="next"`: nil,
		`<https://api.github.com/x?page=2>; rel="prev"; title="rel=next", <>; junk,,`: nil,
	} {
		if diff := cmp.Diff(want, github.Next(link)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", link, diff)
		}
	}
}

func TestCursorsOfNobody(t *testing.T) {
	s := newServer(t, nil)
	for _, cursor := range []string{"x", "cGFnZT0y", "cGVyX3BhZ2U9MTAx", "cGVyX3BhZ2U9MzAmcGFnZT0yJnBhZ2U9Mw", "cGVyX3BhZ2U9MzAmc3RhdGU9YWxs", "aHR0cHM6Ly9ldmlsLmV4YW1wbGU"} {
		_, err := run(t, s.conn(t), "list_issues", `{"owner":"octocat","repo":"hello","cursor":"`+cursor+`"}`)
		refused(t, err, "invalid_cursor", "/cursor")
	}
	_, err := run(t, s.conn(t), "get_pr_comments", `{"owner":"octocat","repo":"hello","number":1,"cursor":"cGVyX3BhZ2U9MzA"}`)
	refused(t, err, "invalid_cursor", "/list")
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"cGVyX3BhZ2U9MzA", "cGFnZT0yJnBlcl9wYWdlPTMw", "", "!", "YWZ0ZXI9YWJjPSZwZXJfcGFnZT0x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		query, again, err := github.Resume(cursor)
		if err != nil {
			return
		}
		for name := range query {
			if name != "page" && name != "after" && name != "per_page" && name != "skip" {
				t.Fatalf("%q asks for %v", cursor, query)
			}
		}
		size, err := strconv.Atoi(query.Get("per_page"))
		if err != nil || size < 1 || size > 100 {
			t.Fatalf("%q: a page of %q", cursor, query.Get("per_page"))
		}
		if same, _, err := github.Resume(again); err != nil || cmp.Diff(query, same) != "" {
			t.Fatalf("%q: %v is not %v: %v", cursor, same, query, err)
		}
	})
}

func FuzzLink(f *testing.F) {
	f.Add(`<https://api.github.com/x?page=2>; rel="next"`)
	f.Add(`<https://api.github.com/x?after=abc%3D&page=2>; rel="next", <x>; rel="last"`)
	f.Fuzz(func(t *testing.T, link string) {
		for name, value := range github.Next(link) {
			if (name != "page" && name != "after" && name != "per_page") || len(value) != 1 || strings.ContainsAny(value[0], "&?#\n ") {
				t.Fatalf("%q: %s=%q", link, name, value)
			}
		}
	})
}

// TestTextsAreBounded has long texts cut between characters, and marked.
func TestTextsAreBounded(t *testing.T) {
	long := strings.Replace(issueJSON, "Since Monday.", strings.Repeat("ä", 40_000), 1)
	s := newServer(t, map[string][]reply{"GET /repos/octocat/hello/issues/7": one(long), "GET /repos/octocat/hello/issues": one("[" + long + "]")})
	for action, want := range map[string]int{"get_issue": 64 << 10, "list_issues": 500} {
		params := `{"owner":"octocat","repo":"hello"}`
		if action == "get_issue" {
			params = readIssue
		}
		result, err := run(t, s.conn(t), action, params)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(result), "ä"); n != want/2 || !strings.Contains(string(result), `"_truncated":true`) || strings.Contains(string(result), "\ufffd") {
			t.Errorf("%s: %d characters are left", action, n)
		}
	}
}
