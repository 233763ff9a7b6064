package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMarkdown(t *testing.T) {
	want := []Mark{{Text: "Enter it as "}, {Kind: "bold", Text: "Secret"}, {Text: " or "}, {Kind: "code", Text: "x"}, {Text: ", see "}, {Kind: "link", Text: "there", Link: "https://x.test/y"}, {Text: "; [not](javascript:x)."}}
	if diff := cmp.Diff(want, Markdown("Enter it as **Secret** or `x`, see [there](https://x.test/y); [not](javascript:x).")); diff != "" {
		t.Error(diff)
	}
}
