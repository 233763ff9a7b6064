package sources_test

import (
	"strings"
	"testing"

	"sallyport/sources"
)

func TestTemplates(t *testing.T) {
	for _, test := range []struct {
		template string
		yes, no  []string
	}{
		{"a:b", []string{"a:b"}, []string{"a:", "a:bc", ""}},
		{"a://{x}", []string{"a://", "a://y", "a://y,z", "a://y%20z@h"}, []string{"a://y/z", "a://y?z", "b://y", "a:/"}},
		{"a://{x}/c", []string{"a://b/c", "a:///c"}, []string{"a://b/d", "a://b/c/c"}},
		{"a://{x}{y}b", []string{"a://b", "a://bb", "a://xb"}, []string{"a://bx"}},
		{"a:{+path}", []string{"a:", "a:b/c?d#e"}, []string{"b:"}},
		{"a:b{#x}", []string{"a:b", "a:b#c/d"}, []string{"a:bc"}},
		{"a:b{/x,y}", []string{"a:b", "a:b/c", "a:b/c/d"}, []string{"a:bc", "a:b/c?d"}},
		{"a:b{.x}", []string{"a:b", "a:b.json"}, []string{"a:bjson", "a:b.json/c"}},
		{"a:b{;x}", []string{"a:b", "a:b;x=1"}, []string{"a:bx"}},
		{"a:b{?x,y*}", []string{"a:b", "a:b?x=1&y=2/3"}, []string{"a:b&x=1", "a:b?x#y"}},
		{"a:b?c{&x}", []string{"a:b?c", "a:b?c&x=1"}, []string{"a:b?c?x=1"}},
		{"a:b{x:3}", []string{"a:b", "a:bxyz"}, nil},
	} {
		for uris, want := range map[*[]string]bool{&test.yes: true, &test.no: false} {
			for _, uri := range *uris {
				if got, err := sources.TemplateMatches(test.template, uri); got != want || err != nil {
					t.Errorf("%s, %s: %t, %v", test.template, uri, got, err)
				}
			}
		}
	}
	for _, bad := range []string{"a:{", "a:}", "a:{}", "a:{x", "a:{{x}}", "a:{=x}", "a:\n"} {
		if _, err := sources.TemplateMatches(bad, ""); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// FuzzTemplate: whatever the template, it matches what it makes of no values.
func FuzzTemplate(f *testing.F) {
	f.Add("a://{x}/{+y}{?z}", "a://b")
	f.Add("a:{", "é{")
	f.Fuzz(func(t *testing.T, template, uri string) {
		if len(template) > 2<<10 || len(uri) > 2<<10 {
			return
		}
		if _, err := sources.TemplateMatches(template, uri); err != nil {
			return
		}
		bare := ""
		for rest := template; rest != ""; {
			literal, after, _ := strings.Cut(rest, "{")
			_, after, _ = strings.Cut(after, "}")
			bare, rest = bare+literal, after
		}
		if ok, _ := sources.TemplateMatches(template, bare); !ok {
			t.Errorf("%q does not match %q", template, bare)
		}
	})
}
