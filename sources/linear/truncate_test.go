package linear_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestLongIssue has an issue that is too large for an agent: it is cut and says
// so, all comments of the page are there, and the cursor of the next.
func TestLongIssue(t *testing.T) {
	text := func(size int) string { return strings.Repeat("é<", size/3) }
	comments := func(size int) string {
		var list []string
		for i := range 50 {
			list = append(list, fmt.Sprintf(`{"id":"m%d","body":%q,"createdAt":"2026-11-02T00:00:00Z","url":"u"}`, i, text(size)))
		}
		return strings.Join(list, ",")
	}
	for _, tt := range []struct {
		name, description, comments, attachments string
		cut                                      bool
	}{
		{"short", "d", comments(300), ``, false},
		{"a long description", text(100_000), ``, ``, true},
		{"long comments", "d", comments(50_000), ``, true},
		{"all of it", text(100_000), comments(50_000), `{"title":"` + text(5000) + `","url":"https://x/"}`, true},
		{"attachments", "d", ``, strings.TrimSuffix(strings.Repeat(`{"title":"x","url":"https://x/`+text(9000)+`"},`, 20), ","), true},
	} {
		s := newService(t, answer{body: `{"data":{"issue":{` + issueFields + `,"description":"` + tt.description + `","children":{"nodes":[]},"attachments":{"nodes":[` + tt.attachments + `]},"comments":{"nodes":[` + tt.comments + `],"pageInfo":{"hasNextPage":true,"endCursor":"c10"}}}}}`})
		got, err := run(t, s, "get_issue", `{"issueId":"ENG-7"}`)
		if err != nil {
			t.Fatal(err)
		}
		var w struct {
			Cut         bool `json:"_truncated"`
			Attachments []struct{ URL string }
			Comments    struct {
				Items []json.RawMessage
				Next  string `json:"next_cursor"`
			}
		}
		if err := json.Unmarshal([]byte(got), &w); err != nil {
			t.Fatal(err)
		}
		if w.Cut != tt.cut || len(got) > 60<<10 || len(w.Comments.Items) != strings.Count(tt.comments, `"id"`) || w.Comments.Next != "c10" {
			t.Errorf("%s: %d bytes, cut %v, %d comments, next %q", tt.name, len(got), w.Cut, len(w.Comments.Items), w.Comments.Next)
		}
		for _, a := range w.Attachments {
			if a.URL != "" && a.URL != "https://x/" {
				t.Errorf("%s: a part of a URL: %.40s", tt.name, a.URL)
			}
		}
	}
}
