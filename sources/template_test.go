package sources_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

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
		{"a:" + strings.Repeat("{b}", 600), []string{"a:", "a:b"}, []string{"a:b/"}}, // as one
		{"a:" + strings.Repeat("{/b}", 500), []string{"a:", "a:/b", "a:/b/c"}, []string{"a:b", "a:/b?c"}},
		{"a:" + strings.Repeat("{b}/", 16), []string{"a:" + strings.Repeat("/", 16)}, []string{"a:/"}},
	} {
		for uris, want := range map[*[]string]bool{&test.yes: true, &test.no: false} {
			for _, uri := range *uris {
				if got, err := sources.TemplateMatches(test.template, uri); got != want || err != nil {
					t.Errorf("%s, %s: %t, %v", test.template, uri, got, err)
				}
			}
		}
	}
	for _, bad := range []string{"a:{", "a:}", "a:{}", "a:{x", "a:{{x}}", "a:{=x}", "a:\n", "a:" + strings.Repeat("{b}/", 17), "a:" + strings.Repeat("{b}{+b}", 9)} {
		if _, err := sources.TemplateMatches(bad, ""); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// costly are as many templates as a source may have, of the largest size, that
// fit a URI in as many ways as can be, up to its end.
func costly(t testing.TB) (matches func(string) int, uri string) {
	var list []string
	for n := range 500 {
		list = append(list, "a:"+strings.Repeat("{+"+strings.Repeat("b", 100+n%20)+"}a{c"+strings.Repeat("d", 100)+"}a", 8)+"b")
	}
	matches, err := sources.CompileTemplates(list)
	if err != nil {
		t.Fatal(err)
	}
	return matches, "a:" + strings.Repeat("a", 2<<10-2)
}

// A server's templates are matched with what any agent may send: none of them
// needs memory.
func TestMatchingTakesNoMemory(t *testing.T) {
	matches, uri := costly(t)
	if n := testing.AllocsPerRun(3, func() {
		if n := matches(uri); n > 0 {
			t.Errorf("%d match", n)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTemplates(b *testing.B) {
	matches, uri := costly(b)
	for b.Loop() {
		matches(uri)
	}
}

// expression is the regular expression that says what a template matches.
func expression(template string) *regexp.Regexp {
	texts := map[byte]string{'+': `.*`, '#': `(#.*)?`, '.': `(\.[^/?#]*)?`, '/': `(/[^?#]*)?`, ';': `(;[^/?#]*)?`, '?': `(\?[^#]*)?`, '&': `(&[^#]*)?`}
	pattern := `(?s)^`
	for template != "" {
		literal, rest, open := strings.Cut(template, "{")
		pattern += regexp.QuoteMeta(literal)
		if !open {
			break
		}
		if text, ok := texts[rest[0]]; ok {
			pattern += text
		} else {
			pattern += `[^/?#]*`
		}
		_, template, _ = strings.Cut(rest, "}")
	}
	return regexp.MustCompile(pattern + `$`)
}

// FuzzTemplate: whatever the template, it matches what it makes of no values,
// and what its regular expression does.
func FuzzTemplate(f *testing.F) {
	f.Add("a://{x}/{+y}{?z}", "a://b")
	f.Add("a:{", "é{")
	f.Add("a:{x}{/x}{?x}{&x}{#x}b", "a:c/d/e?f?g&h#ib")
	f.Add("a:"+strings.Repeat("b", 61)+"{x}{+y}b{/z}c", "a:"+strings.Repeat("b", 200)+"/d/c")
	f.Add("a{.x}{;x}{+x}a{x}a", "a.b;c;da/aaa/baba")
	f.Fuzz(func(t *testing.T, template, uri string) {
		if len(template) > 2<<10 || len(uri) > 2<<10 {
			return
		}
		got, err := sources.TemplateMatches(template, uri)
		if err != nil {
			return
		}
		if utf8.ValidString(template) && utf8.ValidString(uri) {
			if want := expression(template).MatchString(uri); got != want {
				t.Errorf("%q, %q: %t, want %t", template, uri, got, want)
			}
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
