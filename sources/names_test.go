package sources_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/sources"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func day(n int) time.Time { return epoch.AddDate(0, 0, n) }

func TestNames(t *testing.T) {
	reserved := []string{"invocation_wait", "actions_search"}
	long := strings.Repeat("l", 60)
	for _, test := range []struct {
		name string
		in   []sources.Origin
		want []string
	}{
		{"slug and name", []sources.Origin{{day(1), "connector:a", "linear", "create_issue"}}, []string{"linear_create_issue"}},
		{"no slug", []sources.Origin{{day(1), "connector:a", "", "create_issue"}}, []string{"create_issue"}},
		{"dots become underscores", []sources.Origin{{day(1), "connector:a", "x", "a.b-c.D"}}, []string{"x_a_b-c_D"}},
		{"our own names win", []sources.Origin{{day(1), "connector:a", "", "invocation_wait"}}, []string{"invocation_wait_60e42a"}},
		{"in any case", []sources.Origin{{day(1), "connector:a", "", "Invocation_Wait"}}, []string{"Invocation_Wait_813789"}},
		{"the older source wins", []sources.Origin{
			{day(2), "connector:a", "", "x_go"}, {day(1), "connector:b", "x", "go"},
		}, []string{"x_go_0e9b1a", "x_go"}},
		{"of the same age, the smaller id", []sources.Origin{
			{day(1), "connector:b", "", "x_go"}, {day(1), "connector:a", "x", "go"},
		}, []string{"x_go_53791d", "x_go"}},
		{"in a source, the one that is called so", []sources.Origin{
			{day(1), "connector:a", "", "a.b"}, {day(1), "connector:a", "", "a_b"},
		}, []string{"a_b_7d1310", "a_b"}},
		{"long names are cut", []sources.Origin{
			{day(1), "connector:a", "x", long + "1"}, {day(1), "connector:a", "x", long + "2"}, {day(1), "connector:a", "", strings.Repeat("m", 50)},
		}, []string{"x_" + long[:41] + "_e6611d", "x_" + long[:41] + "_c41b56", strings.Repeat("m", 50)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, sources.Names(test.in, reserved)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPromptNames(t *testing.T) {
	long := strings.Repeat("l", 70)
	in := []sources.Origin{
		{day(1), "connector:a", "", "Ask me!"},
		{day(1), "connector:a", "", "ask me!"},
		{day(1), "connector:a", "", "x_go"},
		{day(1), "connector:a", "", long},
		{day(2), "connector:b", "x", "go"},
		{day(2), "connector:b", "x", "a b"},
		{day(2), "connector:b", "x", "a_b"},
		{day(2), "connector:b", "x", long},
		{day(2), "connector:b", "x", "é"},
	}
	want := []string{"Ask me!", "ask me!", "x_go", long, "x_go_e9b478", "x_a_b_e86c8f", "x_a_b", "x_" + long[:55] + "_3475fd", "x__"}
	if diff := cmp.Diff(want, sources.PromptNames(in)); diff != "" {
		t.Error(diff)
	}
}

var allowed = regexp.MustCompile(`^[A-Za-z0-9_-]{1,50}$`)

// checkNames checks what must hold of all names.
func checkNames(t *testing.T, in []sources.Origin, reserved []string) {
	t.Helper()
	out := sources.Names(in, reserved)
	seen := map[string]bool{}
	for _, name := range reserved {
		seen[name] = true
	}
	byTool := map[string]string{}
	for i, name := range out {
		if !allowed.MatchString(name) {
			t.Fatalf("%q from %+v", name, in[i])
		}
		if seen[name] {
			t.Fatalf("%q is defined twice, in %+v", name, in)
		}
		seen[name] = true
		byTool[in[i].Source+" "+in[i].Tool] = name
	}
	// In whatever order they come, and whoever came last.
	mixed := append([]sources.Origin(nil), in...)
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	youngest := in[0].Created
	for _, o := range in {
		if o.Created.After(youngest) {
			youngest = o.Created
		}
	}
	var older []sources.Origin
	for _, o := range mixed {
		if o.Created.Before(youngest) {
			older = append(older, o)
		}
	}
	for _, some := range [][]sources.Origin{mixed, older} {
		for i, name := range sources.Names(some, reserved) {
			if was := byTool[some[i].Source+" "+some[i].Tool]; was != name {
				t.Fatalf("%+v is %q, and %q among others", some[i], name, was)
			}
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("a,b,a_b", "a.b,a_b,b")
	f.Add(",x,y", "x_y,y,x.y,"+strings.Repeat("z", 70))
	f.Add("invocation", "wait,wait.")
	f.Fuzz(func(t *testing.T, slugs, tools string) {
		var in []sources.Origin
		for i, slug := range strings.Split(slugs, ",") {
			seen := map[string]bool{}
			for j, tool := range strings.Split(tools, ",") {
				if tool == "" || len(tool) > 128 || len(slug) > 16 || strings.Trim(slug, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || seen[tool] || i > 8 || j > 30 {
					continue
				}
				seen[tool] = true
				in = append(in, sources.Origin{Created: day(i / 2), Source: fmt.Sprintf("connector:%d", i), Slug: slug, Tool: tool})
			}
		}
		if len(in) > 0 {
			checkNames(t, in, []string{"invocation_wait"})
		}
	})
}
