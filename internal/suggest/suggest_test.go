package suggest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/suggest"
)

func TestThree(t *testing.T) {
	names := []string{"github_create_issue", "github_get_issue", "linear_create_issue", "linear_list_issues", "slack_post_message", "a", "b"}
	for wanted, want := range map[string][]string{
		"linear_create_isue":      {"linear_create_issue", "github_create_issue", "linear_list_issues"},
		"create_issue":            {"github_create_issue", "linear_create_issue", "github_get_issue"},
		"gate_slack_post_message": {"slack_post_message"},
		"Slack-Post.Message":      {"slack_post_message"},
		"linear_list_issues":      {"linear_list_issues"},
		"":                        {},
		strings.Repeat("a", 129):  {},
	} {
		got := suggest.Closest(wanted, names)
		if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" || len(want) > 0 && len(got) != 3 || len(want) == 0 && len(got) != 0 {
			t.Errorf("%q: %q (-want +got):\n%s", wanted, got, diff)
		}
	}
	if got := suggest.Closest("aa", []string{"ab", "ab", "ac", "ad", "ae"}); !slices.Equal(got, []string{"ab", "ac", "ad"}) {
		t.Error("each once, three at most, in order:", got)
	}
}

func TestSentence(t *testing.T) {
	names := []string{"echo", "merge", "typed_write"}
	for wanted, want := range map[string]string{
		"ecko":             " Did you mean echo?",
		"something_else":   " The nearest are merge, echo, typed_write.",
		"gate_typed_write": " Did you mean typed_write?",
	} {
		if got := suggest.Sentence(wanted, names); got != want {
			t.Errorf("%s: %q, want %q", wanted, got, want)
		}
	}
	if got := suggest.Sentence("something_else", names[:1]); got != " The nearest is echo." {
		t.Error(got)
	}
	if suggest.Sentence("x", nil) != "" {
		t.Error("names out of nothing")
	}
}
