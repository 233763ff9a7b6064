package sources_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/sources"
)

// What a person approves is for one integration: the one that is used, whatever
// comes to exist meanwhile.
func TestACallIsApprovedForOneIntegration(t *testing.T) {
	d := newDesk(t, nil)
	d.add("1", 1)
	human := &action.Session{ID: "s1", Organization: "o", Kind: action.Interactive, CreatedBy: "u1", Connections: []string{"1"}}
	d.sessions["s1"] = *human
	bound := func(name string) action.Binding {
		t.Helper()
		d.Invalidate("o")
		b, err := d.find(name).Bind(t.Context(), human, json.RawMessage(note))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := bound("add")
	if first.Integration != "1" || first != bound("add") {
		t.Errorf("bound to %+v", first)
	}
	d.change("1", func(in *action.Integration) { in.Revision++ })
	changed := bound("add")
	if changed.Integration != "1" || changed.Revision == first.Revision {
		t.Errorf("after a change: %+v, before %+v", changed, first)
	}
	d.add("mine", 1, func(in *action.Integration) { in.User = "u1" })
	if mine := bound("add"); mine.Integration != "mine" || bound("list").Integration != "1" {
		t.Errorf("with his own: %+v, and to list %+v", mine, bound("list"))
	}
	for approved, runs := range map[string]bool{"1": false, "mine": true, "": true} {
		d.heard = nil
		_, err := d.find("add").Run(t.Context(), json.RawMessage(note), agent{session: "s1", approved: approved})
		if (err == nil) != runs || (len(d.heard) == 1) != runs || err != nil && !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("approved for %q: %v, heard %q", approved, err, d.heard)
		}
	}
}

// Where an account is a workspace, another workspace is no place to act for the
// organization's.
func TestOnesOwnConnectionIsOfTheSameWorkspace(t *testing.T) {
	for workspace, want := range map[bool]string{true: "1", false: "mine"} {
		d := newDesk(t, func(m *sources.Module) { m.Workspace = workspace })
		d.add("1", 1, func(in *action.Integration) { in.Account = "acme" })
		d.add("mine", 1, func(in *action.Integration) { in.User, in.Account = "u1", "beta" })
		human := action.Session{Kind: action.Interactive, CreatedBy: "u1", Connections: []string{"1"}}
		if _, err := d.callAs(human, "add", note); err != nil || !strings.HasPrefix(d.heard[0], "token-of-"+want+" ") {
			t.Errorf("workspaces %t: heard %q, %v", workspace, d.heard, err)
		}
		d.change("mine", func(in *action.Integration) { in.Account = "acme" })
		if _, err := d.callAs(human, "add", note); err != nil || !strings.HasPrefix(d.heard[0], "token-of-mine ") {
			t.Errorf("workspaces %t, of one: heard %q, %v", workspace, d.heard, err)
		}
	}
}

// Nobody is asked about what the integration's settings do not let run.
func TestWhatIsGuardedIsNotAskedFor(t *testing.T) {
	d := newDesk(t, func(m *sources.Module) {
		m.Actions[0].Guard = func(settings, params json.RawMessage) error {
			if string(settings) == `{"wide":true}` {
				return nil
			}
			return &sources.Refusal{Code: "guardrail", Message: "Not so wide."}
		}
	})
	d.add("1", 1)
	s := &action.Session{ID: "s1", Organization: "o", Connections: []string{"1"}}
	act := d.find("add")
	_, err := act.Bind(t.Context(), s, json.RawMessage(note))
	if e := action.Public(err); !errors.Is(err, action.ErrForbidden) || e.Code != "guardrail" || e.Message != "Notes: Not so wide." {
		t.Errorf("got %v", err)
	}
	d.change("1", func(in *action.Integration) { in.Settings = json.RawMessage(`{"wide":true}`) })
	if b, err := act.Bind(t.Context(), s, json.RawMessage(note)); err != nil || b.Integration != "1" {
		t.Errorf("got %+v, %v", b, err)
	}
}

// What changes production runs only if it was decided as such.
func TestProductionIsDecidedAsSuch(t *testing.T) {
	d := newDesk(t, func(m *sources.Module) {
		m.Actions[0].Production = func(settings, _ json.RawMessage) string {
			if string(settings) == `{"wide":true}` {
				return "it is wide"
			}
			return ""
		}
	})
	d.add("1", 1)
	s := &action.Session{ID: "s1", Organization: "o", Connections: []string{"1"}}
	act := d.find("add")
	for _, c := range []struct{ settings, want string }{{`{}`, ""}, {`{"wide":true}`, "it is wide"}} {
		d.change("1", func(in *action.Integration) { in.Settings = json.RawMessage(c.settings) })
		if b, err := act.Bind(t.Context(), s, json.RawMessage(note)); err != nil || b.Production != c.want {
			t.Errorf("with %s: %+v, %v", c.settings, b, err)
		}
	}
	if res, err := d.call("add", note, "1"); !errors.Is(err, action.ErrUnavailable) || len(d.heard) != 0 {
		t.Errorf("it ran: %s, %v, the service heard %q", res.Body, err, d.heard)
	}
	if res, err := act.Run(t.Context(), json.RawMessage(note), agent{session: "s1", production: true}); err != nil || len(d.heard) != 1 {
		t.Errorf("got %s, %v, the service heard %q", res.Body, err, d.heard)
	}
}
