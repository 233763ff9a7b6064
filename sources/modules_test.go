package sources_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
)

func TestAModuleIsInTheCatalog(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	a := d.find("add")
	const definition = `{"name":"notes_add","title":"Add a note","description":"Adds a note <b>.",` +
		`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},` +
		`"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":true}}`
	if diff := cmp.Diff(definition, string(a.Definition)); diff != "" {
		t.Error(diff)
	}
	if a.Source != "notes" || a.Provider != "notes" || a.Name != "add" || a.Tool != "notes_add" || a.Risk != action.RiskWrite || a.Title != "Add a note" ||
		!a.OneConnection || a.Review != "" || a.Hash == "" || a.Revision == "" || a.Timeout != 0 || a.Summarize(json.RawMessage(`{}`)) != "Add {}" {
		t.Errorf("got %+v", a)
	}
	if err := a.Check(json.RawMessage(`{"text":1}`)); !errors.Is(err, action.ErrInvalid) {
		t.Errorf("checked: %v", err)
	}
	if r, err := d.Resolve(t.Context(), "o", "notes_add"); err != nil || r != a {
		t.Errorf("resolved %v, %v", r, err)
	}
	if l := d.find("list"); l.Risk != action.RiskRead || !strings.Contains(string(l.Definition), `"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true`) {
		t.Errorf("the read is %+v, %s", l, l.Definition)
	}
	if _, err := d.Find(t.Context(), "o", "notes", "none", false); !errors.Is(err, action.ErrNotFound) || !strings.Contains(err.Error(), `"Notes" has no action "none"`) {
		t.Errorf("what is not there: %v", err)
	}
	if m := d.Modules(); len(m) != 1 || m[0].ID != "notes" {
		t.Errorf("modules %v", m)
	}
}

// Whoever was there first keeps the names, and a service that nobody connected
// to came last.
func TestNamesOfModules(t *testing.T) {
	d := newDesk(t, nil)
	d.connector("young", "notes", 1)
	d.add("1", 3)
	first := d.names()
	want := map[string]string{"notes:add": "notes_add", "notes:list": "notes_list", "connector:young:add": first["connector:young:add"]}
	if diff := cmp.Diff(want, first); diff != "" || !strings.HasPrefix(first["connector:young:add"], "notes_add_") {
		t.Error(first)
	}
	d.add("older", 5)
	d.connector("old", "notes", 4)
	if diff := cmp.Diff(first["notes:add"], d.names()["notes:add"]); diff != "" {
		t.Errorf("the second integration is the first: %s", diff)
	}
	d.mu.Lock()
	d.all = nil
	d.mu.Unlock()
	if n := d.names(); n["connector:old:add"] != "notes_add" || !strings.HasPrefix(n["notes:add"], "notes_add_") || n["notes:list"] != "notes_list" {
		t.Errorf("without an integration: %v", n)
	}
	d.add("late", 2)
	if n := d.names(); n["connector:old:add"] != "notes_add" || !strings.HasPrefix(n["notes:add"], "notes_add_") {
		t.Errorf("an older connector lost its name: %v", n)
	}
}

// An approval is for what was approved: it is stale when another integration may
// be meant, or the same one is another by now.
func TestRevisionsOfModules(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	last := d.find("add").Revision
	moved := func(why string, want bool) {
		t.Helper()
		d.Invalidate("o")
		now := d.find("add").Revision
		if (now != last) != want {
			t.Errorf("%s: moved %t", why, now != last)
		}
		last = now
	}
	moved("nothing", false)
	d.add("2", 1)
	moved("one more", true)
	d.add("other", 1, func(in *action.Integration) { in.Provider = "else" })
	moved("another service's", false)
	d.change("2", func(in *action.Integration) { in.Revision++ })
	moved("a change", true)
	d.change("2", func(in *action.Integration) { in.Status, in.Reason = action.IntegrationRevoked, "gone" })
	moved("a death", true)
	d.change("2", func(in *action.Integration) { in.Status = action.IntegrationDeleted })
	moved("an end", true)
	d.add("own", 1, func(in *action.Integration) { in.User = "u1" })
	moved("somebody's own", false)
	d.add("private", 1, func(in *action.Integration) { in.Visibility = action.VisiblePrivate })
	moved("what is private", false)
}

// What everybody is told names an account only where everybody may know it.
func TestTheSourceIsCalledByItsAccount(t *testing.T) {
	d := newDesk(t, nil)
	called := func(want string) {
		t.Helper()
		d.Invalidate("o")
		if got := d.find("add").SourceName; got != want {
			t.Errorf("called %q, want %q", got, want)
		}
	}
	called("Notes")
	d.add("private", 1, func(in *action.Integration) { in.Visibility = action.VisiblePrivate })
	called("Notes")
	d.add("1", 1, func(in *action.Integration) { in.AccountName = "Acme\u202e" })
	d.add("own", 1, func(in *action.Integration) { in.User = "u1" })
	called("Notes (Acme )")
	d.add("2", 1)
	called("Notes")
}

// The list is built again when something in it is another, and whoever has it is
// told.
func TestIntegrationsAreReadWithConnectors(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	_, version, _ := d.List(t.Context(), "o")
	reads := d.reads
	if _, again, _ := d.List(t.Context(), "o"); again != version || d.reads != reads {
		t.Errorf("version %s, then %s, read %d times", version, again, d.reads-reads)
	}
	if _, err := d.Find(t.Context(), "o", "notes", "add", true); err != nil || d.reads != reads+1 {
		t.Errorf("found by %d reads, %v", d.reads-reads, err)
	}
	d.change("1", func(in *action.Integration) { in.TimeoutSeconds = 50 })
	list, other, err := d.List(t.Context(), "o")
	if err != nil || other == version || d.hints == 0 || list[0].Timeout != 50*time.Second {
		t.Errorf("after a change: version moved %t, %d hints, %v, %v", other != version, d.hints, list[0].Timeout, err)
	}
	if names, _, _ := d.List(t.Context(), "other"); names[0].SourceName != "Notes" || names[0].Revision == list[0].Revision {
		t.Errorf("another organization has %+v", names[0])
	}
	d.away = errors.New("away")
	if _, err := d.Find(t.Context(), "o", "notes", "add", true); !errors.Is(err, d.away) {
		t.Errorf("unread integrations are none: %v", err)
	}
}

func TestModulesThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(m *sources.Module){
		"no id":                  func(m *sources.Module) { m.ID = "" },
		"letters":                func(m *sources.Module) { m.ID = "Notes" },
		"a long id":              func(m *sources.Module) { m.ID = strings.Repeat("a", 17) },
		"no title":               func(m *sources.Module) { m.Title = "" },
		"nothing to connect by":  func(m *sources.Module) { m.Needs = nil },
		"an unknown kind":        func(m *sources.Module) { m.Needs[0].Kind = "odd" },
		"OAuth without a preset": func(m *sources.Module) { m.Needs[0] = sources.Need{Kind: action.KindOAuth2, Scopes: []string{"a"}} },
		"OAuth without scopes":   func(m *sources.Module) { m.Needs[0] = sources.Need{Kind: action.KindOAuth2, Preset: "a"} },
		"settings of a list":     func(m *sources.Module) { m.Settings = json.RawMessage(`{"type":"array"}`) },
		"settings of no schema":  func(m *sources.Module) { m.Settings = json.RawMessage(`{"type":"odd"}`) },
		"an action without risk": func(m *sources.Module) { m.Actions[0].Risk = "" },
		"no run":                 func(m *sources.Module) { m.Actions[0].Run = nil },
		"no schema":              func(m *sources.Module) { m.Actions[0].Input = nil },
		"broken JSON":            func(m *sources.Module) { m.Actions[0].Input = json.RawMessage(`{`) },
		"a bad name":             func(m *sources.Module) { m.Actions[0].Name = "a b" },
		"a pattern of others": func(m *sources.Module) {
			m.Actions[0].Input = json.RawMessage(`{"type":"object","properties":{"text":{"pattern":"(?=a)"}}}`)
		},
		"one action twice":       func(m *sources.Module) { m.Actions[1].Name = "add" },
		"an example that is not": func(m *sources.Module) { m.Actions[0].Examples[0].Params = json.RawMessage(`{"text":1}`) },
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{t: t}
			m := d.module()
			change(m)
			if _, err := sources.New(d.config(m)); err == nil || !strings.Contains(err.Error(), "module") {
				t.Errorf("it may be: %v", err)
			}
		})
	}
	d := &desk{t: t}
	if _, err := sources.New(d.config(d.module(), d.module())); err == nil {
		t.Error("two of one id may be")
	}
	short := d.config(d.module())
	short.CredentialRefused = nil
	if _, err := sources.New(short); err == nil {
		t.Error("modules may be without their keepers")
	}
	silent := d.module()
	silent.Actions, silent.Settings = nil, nil
	if _, err := sources.New(d.config(silent)); err != nil {
		t.Errorf("a module without actions: %v", err)
	}
}

func TestSettings(t *testing.T) {
	m := (&desk{t: t}).module()
	for settings, want := range map[string]string{
		``: "", `{}`: "", `{"wide":true}`: "",
		`{"wide":1}`:   "/settings/wide",
		`{"narrow":1}`: "/settings/narrow",
		`[]`:           "/settings",
		`{`:            "/settings",
	} {
		err := m.CheckSettings(json.RawMessage(settings))
		var e *action.Error
		switch {
		case want == "" && err == nil:
		case !errors.As(err, &e) || e.Field != want || !errors.Is(err, action.ErrInvalid) || !strings.HasPrefix(e.Message, "The settings are not valid: ") || strings.Contains(e.Message, "params"):
			t.Errorf("%s: %v", settings, err)
		}
	}
	m.Settings = json.RawMessage(`{"type":"object","properties":{"of":{"type":"array","description":"A word in capitals.","items":{"type":"string","pattern":"^[A-Z]+$"}},"by":{"pattern":"^[a-z]+$"}}}`)
	for settings, says := range map[string]string{
		`{"of":["A","b"]}`: `The settings are not valid: "of[1]" has an invalid format. of: A word in capitals.`,
		`{"by":"B"}`:       `The settings are not valid: "by" must match the pattern ^[a-z]+$.`,
	} {
		if err := m.CheckSettings(json.RawMessage(settings)); err == nil || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%s: %v", settings, err)
		}
	}
	m.Settings = nil
	if err := m.CheckSettings(json.RawMessage(`{"wide":true}`)); err == nil {
		t.Error("a module without settings takes some")
	}
}
