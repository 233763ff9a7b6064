package rank_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sallyport/internal/rank"
)

func tools() (names []string, texts [][]rank.Field) {
	for _, t := range [][3]string{
		{"github_create_issue", "Opens an issue in a repository.", "title body repo"},
		{"github_list_issues", "Lists issues of a repository.", "repo state"},
		{"github_merge_pull_request", "Merges a pull request.", "number repo"},
		{"linear_createIssue", "Creates an issue of a team.", "teamId title"},
		{"slack_post_message", "Posts a message to a channel.", "channel text"},
		{"sentry_list_events", "Lists what went wrong, an issue at a time.", "issue_id cursor"},
	} {
		names = append(names, t[0])
		texts = append(texts, []rank.Field{{t[0], 4}, {t[1], 2}, {t[2], 1}})
	}
	return names, texts
}

func TestSearch(t *testing.T) {
	names, texts := tools()
	x := rank.New(names, texts)
	for _, row := range []struct {
		query string
		limit int
		want  string
		total int
	}{
		{"create issue", 2, "linear_createIssue github_create_issue", 4},
		{"ISSUES, create", 2, "linear_createIssue github_create_issue", 4},
		{"merge", 5, "github_merge_pull_request", 1},
		{"post a message on slack", 1, "slack_post_message", 6},
		{"teamId", 1, "linear_createIssue", 2},
		{"chan", 5, "slack_post_message", 1}, // the beginning of a word
		{"ch", 5, "", 0},                     // too little of one
		{"nothing fits", 5, "", 0},
		{"", 3, "github_create_issue github_list_issues github_merge_pull_request", 6},
		{"?!", 1, "github_create_issue", 6},
		{"issue", 0, "", 4},
	} {
		best, total := x.Search(row.query, row.limit)
		var got []string
		for _, i := range best {
			got = append(got, names[i])
		}
		if strings.Join(got, " ") != row.want || total != row.total {
			t.Errorf("%q: %q of %d, want %q of %d", row.query, got, total, row.want, row.total)
		}
	}
}

// Of long texts the beginning is looked at, over all fields together.
func TestCut(t *testing.T) {
	many := make([]byte, 0, 1<<20)
	for i := range 5000 {
		many = fmt.Appendf(many, "w%c%c%c ", 'a'+i/676%26, 'a'+i/26%26, 'a'+i%26)
	}
	x := rank.New([]string{"short", "many", "long", "exact"}, [][]rank.Field{
		{{"a few words", 1}},
		{{string(many[:5*1500]), 1}, {string(many[5*1500:]), 1}},
		{{strings.Repeat("x", 40<<10), 1}},
		{{string(many[:5*2000]), 1}, {"", 1}},
	})
	if x.Truncated() != 2 {
		t.Errorf("%d texts were cut, not 2", x.Truncated())
	}
	for query, want := range map[string]int{string(many[:4]): 2, string(many[5*1999 : 5*1999+4]): 2, string(many[5*2000 : 5*2000+4]): 0} {
		if _, total := x.Search(query, 5); total != want {
			t.Errorf("%q is in %d texts, not %d", query, total, want)
		}
	}
}

// Equals come in the order of their names, whatever the order of the texts or of
// the words.
func TestTies(t *testing.T) {
	names := []string{"b", "c", "a"}
	same := []rank.Field{{"lists many things", 1}}
	best, _ := rank.New(names, [][]rank.Field{same, same, same}).Search("things many", 3)
	again, _ := rank.New(names, [][]rank.Field{same, same, same}).Search("many THINGS many", 3)
	if !slices.Equal(best, []int{2, 0, 1}) || !slices.Equal(again, best) {
		t.Error(best, again)
	}
	if best, total := rank.New(nil, nil).Search("x", 3); len(best) != 0 || total != 0 {
		t.Error("out of nothing:", best)
	}
}

// FuzzSearch: whatever is asked, the answer is bounded, without repeats, and the
// same again.
func FuzzSearch(f *testing.F) {
	for _, seed := range []string{"", "create issue", "createIssue2x", "ÄÖÜ ß 漢字", "\x00\xff", strings.Repeat("ab1 ", 100), "sses ies s"} {
		f.Add(seed, 3)
	}
	names, texts := tools()
	x := rank.New(names, texts)
	f.Fuzz(func(t *testing.T, query string, limit int) {
		if limit < 0 {
			return
		}
		best, total := x.Search(query, limit)
		if len(best) > limit || len(best) > total || total > len(names) {
			t.Fatal(best, total)
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(best))); len(unique) != len(best) {
			t.Fatal("twice:", best)
		}
		again, _ := rank.New(names, texts).Search(query, limit)
		if !slices.Equal(best, again) {
			t.Fatal(fmt.Sprintf("%q:", query), best, again)
		}
	})
}
