package sources_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
)

func resource(uri string) string { return fmt.Sprintf(`{"uri":%q,"name":"n"}`, uri) }

// pattern is a regular expression of a schema. Schemas use JavaScript syntax,
// which has features that Go lacks (lookaround, back references). Such a
// pattern matches anything, since the source validates its params itself. A
// pattern that is invalid in JavaScript, too, is an error.
func pattern(uri string) string { return fmt.Sprintf(`{"uriTemplate":%q,"name":"n"}`, uri) }

func prompt(name string) string { return fmt.Sprintf(`{"name":%q}`, name) }

// seen are offerings as text: what agents see, from where, by which name.
func seen(list []action.Offering) (out []string) {
	for _, o := range list {
		out = append(out, o.AgentName+" = "+strings.TrimPrefix(o.Source, "connector:")+" "+o.Name)
	}
	return out
}

func (w *world) offerings(t *testing.T) *action.Offerings {
	t.Helper()
	o, err := w.Offerings(t.Context(), "o")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOfferings(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		const odd = ` {"x":12345678901234567890, "name" : "say.it", "arguments":[{"name":"a"}]}`
		h := furnish(w.add("a", "wiki", 2, plain("b")))
		h.resources, h.templates, h.prompts = []string{resource("wiki://two"), resource("wiki://one")}, []string{pattern("wiki://{page}")}, []string{odd}
		w.add("z", "z", 1, plain("c"))

		o := w.offerings(t)
		if diff := cmp.Diff([]string{"wiki://one = a wiki://one", "wiki://two = a wiki://two"}, seen(o.Resources)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"wiki://{page} = a wiki://{page}"}, seen(o.Templates)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"wiki_say_it = a say.it"}, seen(o.Prompts)); diff != "" {
			t.Error(diff)
		}
		if got := string(o.Resources[1].Definition); got != resource("wiki://two") {
			t.Errorf("a resource became %s", got)
		}
		if got := string(o.Prompts[0].Definition); got != strings.Replace(odd, "say.it", "wiki_say_it", 1) {
			t.Errorf("a prompt became %s", got)
		}
		if !o.HasResources || !o.HasPrompts || !o.SupportsCompletion || !o.SupportsLogs || !o.SupportsSubscriptions || o.Resources[0].SourceName != "Name of a" {
			t.Errorf("got %+v", o)
		}

		list, _, err := w.List(t.Context(), "o")
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, a := range list {
			keys = append(keys, a.Key().String()+" "+a.Tool)
		}
		want := []string{"connector:a:b wiki_b", "connector:z:c z_c", "connector:a:prompts/get ", "connector:a:resources/read "}
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Error(diff)
		}
		if s := w.State(h.con); s.Resources != 2 || s.Templates != 1 || s.Prompts != 1 || s.Tools != 1 || len(s.Actions) != 3 || !s.Capabilities.Prompts {
			t.Errorf("got %+v", s)
		}
		if again := w.offerings(t); again != o {
			t.Error("nothing changed, and the offerings are others")
		}
		// What could not be had this time stays.
		h.set(func(*origin) { h.prompts, h.missing.Prompts = nil, true })
		time.Sleep(6 * time.Minute)
		if now := w.offerings(t); now.PromptsVersion != o.PromptsVersion || len(now.Prompts) != len(o.Prompts) {
			t.Errorf("got %+v after %+v", now, o)
		}
		// What changed of one kind leaves the version of the other.
		h.set(func(*origin) { h.missing.Prompts = false })
		h.set(func(*origin) { h.prompts = nil })
		time.Sleep(6 * time.Minute)
		if now := w.offerings(t); now.PromptsVersion == o.PromptsVersion || now.ResourcesVersion != o.ResourcesVersion || len(now.Prompts) != 0 {
			t.Errorf("got %+v after %+v", now, o)
		}
	})
}

func TestActionsBesideTools(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "wiki", 2))
		w.change("a", func(c *action.Connector) { c.DefaultRisk, c.Review = action.RiskDanger, action.ReviewStrict })
		find := func(name string) *action.Action {
			t.Helper()
			a, err := w.Find(t.Context(), "o", "connector:a", name, false)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		read, get := find(action.ActionRead), find(action.ActionPrompt)
		for _, a := range []*action.Action{read, get} {
			if a.Tool != "" || a.Risk != action.RiskRead || a.Review != "" || a.Hash == "" || a.Revision != "a:1" || a.Timeout != 0 || !strings.Contains(a.Title, "Name of a") || !strings.Contains(a.Description, "Name of a") {
				t.Errorf("got %+v", a)
			}
		}
		if read.Hash == get.Hash {
			t.Error("an approval of one would be for the other")
		}
		for _, test := range []struct {
			check  func(json.RawMessage) error
			params string
			field  string
		}{
			{read.Check, `{"uri":"x:y"}`, "ok"},
			{read.Check, `{}`, "/uri"},
			{read.Check, `{"uri":1}`, "/uri"},
			{get.Check, `{"name":"n","arguments":{"a":"b"}}`, "ok"},
			{get.Check, `{"name":"n","arguments":{"a":1}}`, "/arguments/a"},
			{get.Check, `{"arguments":{}}`, "/name"},
		} {
			got := "ok"
			var e *action.Error
			if err := test.check(json.RawMessage(test.params)); errors.As(err, &e) {
				got = e.Field
			}
			if got != test.field {
				t.Errorf("%s: %s, want %s", test.params, got, test.field)
			}
		}
		if got := read.Summarize(json.RawMessage(`{"uri":"x:y"}`)) + " " + get.Summarize(json.RawMessage(`{"name":"n"}`)); got != "x:y n" {
			t.Errorf("summarized as %q", got)
		}
		_, _ = read.Run(t.Context(), json.RawMessage(`{"uri":"x:y"}`), nil)
		_, _ = get.Complete(t.Context(), json.RawMessage(`{"ref":1}`))
		if err := read.Subscribe(t.Context(), "x:y", true); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{`resources/read{"uri":"x:y"}`, `completion/complete{"ref":1}`}, h.did); diff != "" {
			t.Error(diff)
		}
		if get.Subscribe != nil {
			t.Error("prompts can be subscribed to")
		}
		if len(w.observed) == 0 || len(w.observed[0].tools) != 0 {
			t.Errorf("observed %v", w.observed)
		}

		// An admin may say how bad they are, and whether their source may ask.
		w.change("a", func(c *action.Connector) {
			c.Risks, c.MayAsk = map[string]action.Risk{action.ActionRead: action.RiskWrite}, []action.AskKind{action.AskElicitation}
		})
		w.Invalidate("o")
		if a := find(action.ActionRead); a.Risk != action.RiskWrite || len(a.MayAsk) != 1 || a.Timeout != 2*time.Minute {
			t.Errorf("got %+v", a)
		}
		// A source that stopped to offer something has no action for it.
		h.set(func(*origin) { h.offers = sources.Capabilities{Prompts: true} })
		time.Sleep(6 * time.Minute)
		w.names(t, "o")
		if _, err := w.Find(t.Context(), "o", "connector:a", action.ActionRead, false); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("found %v", err)
		}
		if a := find(action.ActionPrompt); a.Complete != nil {
			t.Error("what is not offered any more can be completed")
		}
	})
}

// TestToolsMayAsk too, for longer.
func TestToolsMayAsk(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.add("a", "x", 1, plain("b"))
		before := w.want(t, "x_b")
		w.change("a", func(c *action.Connector) { c.MayAsk = []action.AskKind{action.AskSampling} })
		w.Invalidate("o")
		if v := w.want(t, "x_b"); v == before {
			t.Error("the version is the same")
		}
		a, err := w.Find(t.Context(), "o", "connector:a", "b", false)
		if err != nil || len(a.MayAsk) != 1 || a.Timeout != 2*time.Minute {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}

// TestToolsMayTakeLonger where an admin says so, whatever the source may ask.
func TestToolsMayTakeLonger(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.add("a", "x", 1, plain("b"))
		before := w.want(t, "x_b")
		w.change("a", func(c *action.Connector) { c.TimeoutSeconds, c.MayAsk = 90, []action.AskKind{action.AskSampling} })
		w.Invalidate("o")
		if v := w.want(t, "x_b"); v == before {
			t.Error("the version is the same")
		}
		a, err := w.Find(t.Context(), "o", "connector:a", "b", false)
		if err != nil || a.Timeout != 90*time.Second {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}

// TestResolve finds whose a URI or a prompt is.
func TestResolve(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		old := furnish(w.add("old", "old", 3))
		old.resources, old.templates = []string{resource("doc://both"), resource("doc://mine")}, []string{pattern("doc://pages/{id}")}
		old.prompts = []string{prompt("go"), prompt("a b")}
		mid := furnish(w.add("mid", "", 2))
		mid.resources, mid.templates = []string{resource("doc://both"), resource("doc://pages/7")}, []string{pattern("doc://pages/{id}"), pattern("doc://{+any}")}
		mid.prompts = []string{prompt("old_go"), prompt("Straße!"), prompt("straße!")}
		w.add("tools", "t", 1, plain("x"))

		o := w.offerings(t)
		if diff := cmp.Diff([]string{
			"doc://mine = old doc://mine", "doc://pages/7 = mid doc://pages/7", "mcp-+doc://both = mid doc://both", "mcp-old+doc://both = old doc://both",
		}, seen(o.Resources)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{
			"doc://{+any} = mid doc://{+any}", "mcp-+doc://pages/{id} = mid doc://pages/{id}", "mcp-old+doc://pages/{id} = old doc://pages/{id}",
		}, seen(o.Templates)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"Straße! = mid Straße!", "old_a_b = old a b", "old_go = old go", "old_go_2d9a42 = mid old_go", "straße! = mid straße!"}, seen(o.Prompts)); diff != "" {
			t.Error(diff)
		}
		for uri, want := range map[string]string{
			"doc://both":               `ambiguous "mcp-old+doc://both", "mcp-+doc://both".`,
			"mcp-+doc://both":          "mid doc://both",
			"mcp-old+doc://both":       "old doc://both", // the long form is always good
			"mcp-old+doc://elsewhere":  "old doc://elsewhere",
			"doc://pages/7":            "mid doc://pages/7", // it is listed there
			"doc://pages/8":            `ambiguous "mcp-old+doc://pages/8", "mcp-+doc://pages/8".`,
			"doc://pages/8/9":          "mid doc://pages/8/9",
			"mcp-+doc://pages/8":       "mid doc://pages/8",
			"mcp-+doc://pages/{id}":    "mid doc://pages/{id}",
			"mcp-old+doc://pages/{id}": "old doc://pages/{id}",
			"doc://pages/{id}":         `ambiguous "mcp-old+doc://pages/{id}", "mcp-+doc://pages/{id}".`,
			"mcp-t+doc://both":         "not found", // it has no resources
			"mcp-none+doc://both":      "not found",
			"http://example.com":       "not found",
			"":                         "not found",
		} {
			source, name, err := w.ResolveResource(t.Context(), "o", uri)
			got := strings.TrimPrefix(source, "connector:") + " " + name
			var e *action.Error
			switch {
			case errors.Is(err, action.ErrNotFound):
				got = "not found"
			case errors.Is(err, action.ErrInvalid) && errors.As(err, &e) && e.Code == "ambiguous_resource" && e.Field == "/uri":
				_, forms, _ := strings.Cut(e.Message, ": ")
				got = "ambiguous " + forms
			}
			if got != want {
				t.Errorf("%s is %s, want %s (%v)", uri, got, want, err)
			}
		}
		for as, want := range map[string]string{"old_go": "connector:old go", "Straße!": "connector:mid Straße!", "go": " "} {
			source, name, err := w.ResolvePrompt(t.Context(), "o", as)
			if source+" "+name != want || (err != nil) != (want == " ") {
				t.Errorf("%s is %s %s, %v", as, source, name, err)
			}
		}
		if _, _, err := w.ResolveResource(t.Context(), "other", "doc://both"); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("resolved across organizations: %v", err)
		}
		// The only source that has resources may have any.
		w.change("old", func(c *action.Connector) { c.Enabled = false })
		w.Invalidate("o")
		w.offerings(t)
		if source, name, err := w.ResolveResource(t.Context(), "o", "http://example.com"); source != "connector:mid" || name != "http://example.com" {
			t.Errorf("got %s %s, %v", source, name, err)
		}
		if source, name, err := w.ResolveResource(t.Context(), "o", "doc://both"); source != "connector:mid" || name != "doc://both" {
			t.Errorf("got %s %s, %v", source, name, err)
		}
		for _, uri := range []string{"Sallyport://x", "mcp-old+doc://both"} {
			if source, _, err := w.ResolveResource(t.Context(), "o", uri); !errors.Is(err, action.ErrNotFound) {
				t.Errorf("%s is of %s, %v", uri, source, err)
			}
		}
	})
}

// TestAURIOfMany names some of those who have it, and tells that there are more.
func TestAURIOfMany(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			furnish(w.add(id, id, 1)).resources = []string{resource("doc://all")}
		}
		w.offerings(t)
		_, _, err := w.ResolveResource(t.Context(), "o", "doc://all")
		if !errors.Is(err, action.ErrInvalid) || !strings.HasSuffix(err.Error(), `"mcp-e+doc://all", and 2 more.`) {
			t.Error(err)
		}
	})
}

// TestResolveWhatMayBe of a source that never answered.
func TestResolveWhatMayBe(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		furnish(w.add("a", "dead", 2)).err = errors.New("it is away")
		h := furnish(w.add("b", "b", 1))
		h.resources, h.prompts = []string{resource("doc://x")}, []string{prompt("p")}
		furnish(w.add("c", "c", 1))
		for uri, want := range map[string]error{"doc://x": nil, "doc://y": action.ErrNotFound, "mcp-dead+doc://y": action.ErrUnavailable, "mcp-none+doc://y": action.ErrNotFound} {
			if _, _, err := w.ResolveResource(t.Context(), "o", uri); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", uri, err, want)
			}
		}
		for name, want := range map[string]error{"b_p": nil, "dead_p": action.ErrUnavailable, "c_p": action.ErrNotFound} {
			if _, _, err := w.ResolvePrompt(t.Context(), "o", name); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	})
}

// TestBrokenOfferings are left out, with a warning; the good ones stay.
func TestBrokenOfferings(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		h.resources = []string{
			resource("a:b"), resource("a:b"), `null`, `{"name":"n"}`, resource("relative/path"), resource("SALLYPORT://guide"), resource("mcp-y+a:b"), resource("MCP-y+a:b"),
			resource("a:" + strings.Repeat("b", 2048)), `{"uri":"a:c","uri":"a:d"}`, `{"uri":"a:e","x":"` + strings.Repeat("b", 64<<10) + `"}`, resource("mcp-server:fine"),
		}
		h.templates = []string{pattern("a:{b}"), pattern("a:{b"), pattern("{b}:c"), pattern("sallyport:{b}"), pattern("mcp-y+a:{b}"), pattern("a:" + strings.Repeat("{b}", 700))}
		h.prompts = []string{prompt("p"), prompt("p"), prompt(""), prompt("a\x1bb"), prompt(strings.Repeat("p", 257)), prompt("two words")}
		o := w.offerings(t)
		if diff := cmp.Diff([]string{"a:b = a a:b", "mcp-server:fine = a mcp-server:fine"}, seen(o.Resources)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"a:{b} = a a:{b}"}, seen(o.Templates)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"x_p = a p", "x_two_words = a two words"}, seen(o.Prompts)); diff != "" {
			t.Error(diff)
		}
		s := w.State(h.con)
		if len(s.Warnings) != 19 {
			t.Errorf("%d warnings %q", len(s.Warnings), s.Warnings)
		}

		h.set(func(*origin) {
			h.resources, h.templates, h.prompts = many(2001, resource, "a:"), many(501, pattern, "a:"), many(2001, prompt, "p")
		})
		time.Sleep(6 * time.Minute)
		if o := w.offerings(t); len(o.Resources) != 2000 || len(o.Templates) != 500 || len(o.Prompts) != 2000 {
			t.Errorf("got %d resources, %d templates, %d prompts", len(o.Resources), len(o.Templates), len(o.Prompts))
		}
		if s := w.State(h.con); len(s.Warnings) != 3 {
			t.Errorf("warnings %q", s.Warnings)
		}
	})
}

func many(n int, definition func(string) string, name string) (list []string) {
	for i := range n {
		list = append(list, definition(fmt.Sprint(name, i)))
	}
	return list
}

// TestPromptsCannotBeListed alone: the tools are there, and people are told.
func TestPromptsCannotBeListed(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		h.warnings, h.resources = []string{"Its prompts could not be listed."}, []string{resource("a:b")}
		w.names(t, "o")
		if s := w.State(h.con); s.Error != nil || s.Tools != 1 || s.Resources != 1 || s.Prompts != 0 || len(s.Warnings) != 1 {
			t.Errorf("got %+v", s)
		}
		if _, err := w.Find(t.Context(), "o", "connector:a", action.ActionPrompt, false); err != nil {
			t.Error(err)
		}
	})
}

// TestAHundredThousandTools are as many as the first thousands.
func TestAHundredThousandTools(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		o := w.add("a", "x", 1, many(100_000, plain, "t")...)
		if names, _ := w.names(t, "o"); len(names) != 2000 {
			t.Errorf("got %d tools", len(names))
		}
		if s := w.State(o.con); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "100000") {
			t.Errorf("warnings %q", s.Warnings)
		}
	})
}

func TestCircuitAndSteps(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		h := furnish(w.add("a", "x", 1, plain("b")))
		h.steps = []sources.Step{{Name: "dns", Took: time.Millisecond}}
		s, err := w.Probe(t.Context(), h.con)
		if err != nil || len(s.Steps) != 1 || s.CircuitOpen || s.RetryAt != nil {
			t.Errorf("got %+v, %v", s, err)
		}
		until := time.Now().Add(time.Minute).UTC()
		h.set(func(*origin) { h.shut = until })
		if s := w.State(h.con); !s.CircuitOpen || !s.RetryAt.Equal(until) || s.Error == nil || s.Error.Code != sources.FaultOpen {
			t.Errorf("got %+v", s)
		}
		// Why it is open says more.
		h.set(func(o *origin) { o.err = action.Errorf(action.ErrUnavailable, sources.FaultDNS, "no such name") })
		if s, err := w.Probe(t.Context(), h.con); err != nil || !s.CircuitOpen || s.Error.Code != sources.FaultDNS || s.Tools != 1 {
			t.Errorf("got %+v, %v", s, err)
		}
		h.set(func(*origin) { h.shut = time.Time{} })
		if s := w.State(h.con); s.CircuitOpen || s.RetryAt != nil || s.Error == nil || s.Error.Code != sources.FaultDNS {
			t.Errorf("got %+v", s)
		}
		time.Sleep(6 * time.Minute)
		w.names(t, "o")
		if s := w.State(h.con); s.CircuitOpen || s.RetryAt == nil || time.Until(*s.RetryAt) != 5*time.Second {
			t.Errorf("got %+v", s)
		}
		// That it is left alone does not take the place of why.
		h.set(func(o *origin) { o.err = action.Errorf(action.ErrUnavailable, sources.FaultOpen, "it is left alone") })
		time.Sleep(6 * time.Minute)
		w.names(t, "o")
		if s := w.State(h.con); s.Error == nil || s.Error.Code != sources.FaultDNS {
			t.Errorf("got %+v", s.Error)
		}
	})
}
