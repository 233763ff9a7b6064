package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/policy"
)

func TestConnections(t *testing.T) {
	type integration = action.Integration
	one := integration{ID: "1", Name: "Acme", Provider: "linear", Visibility: action.VisibleOrganization, Status: action.IntegrationActive}
	with := func(changes ...func(in *integration)) (list []integration) {
		for i, change := range changes {
			in := one
			in.ID, in.Name = fmt.Sprint(i+1), []string{"Acme", "Bmce", "Cmce"}[i]
			change(&in)
			list = append(list, in)
		}
		return list
	}
	as := func(*integration) {}
	private := func(in *integration) { in.Visibility, in.CreatedBy = action.VisiblePrivate, "u1" }
	anothers := func(in *integration) { in.Visibility, in.CreatedBy = action.VisiblePrivate, "u2" }
	own := func(in *integration) { in.User = "u1" }
	revoked := func(in *integration) {
		in.Status, in.Reason = action.IntegrationRevoked, "Linear says\n\u202ethat it is gone."
	}
	all := []string{action.AllConnections}
	const nobody = "The session is not connected to Linear, and the organization has no integration of it. An admin can connect one for sessions created later."
	for _, tt := range []struct {
		name         string
		integrations []integration
		connections  []string
		snapshot     bool // of a group, without a session
		many         bool // the module can choose
		want         string
		passes       bool
	}{
		{name: "none at all", connections: all, want: nobody},
		{name: "none at all, for a group", snapshot: true, want: "The organization has no integration of Linear. An admin can connect one."},
		{name: "not bound", integrations: with(as, as), want: "The session is not connected to Linear. Create a session connected to 'Acme', 'Bmce' or to all integrations."},
		{name: "bound to another", integrations: with(as), connections: []string{"9"}, want: "The session is not connected to Linear. Create a session connected to 'Acme' or to all integrations."},
		{name: "all are no private ones, which nobody hears of", integrations: with(private), connections: all, want: nobody},
		{name: "a user's own is no connection by itself", integrations: with(own), connections: []string{"1"}, want: nobody},
		{name: "another service's", integrations: with(func(in *integration) { in.Provider = "sentry" }), connections: all, want: nobody},
		{name: "bound", integrations: with(as, as), connections: []string{"2"}, want: "The session is connected to 'Bmce'.", passes: true},
		{name: "bound to a private one", integrations: with(private), connections: []string{"1"}, want: "The session is connected to a private integration.", passes: true},
		{name: "bound to one that became private to another", integrations: with(anothers), connections: []string{"1"}, want: nobody},
		{name: "all", integrations: with(as, private), connections: all, want: "The session is connected to 'Acme'.", passes: true},
		{name: "a group", integrations: with(as, private), snapshot: true, want: "The session is connected to 'Acme'.", passes: true},
		{name: "dead", integrations: with(revoked), connections: all, want: `The session cannot use any integration of Linear: 'Acme' is revoked (Linear says\n\u202ethat it is gone). A person must reconnect it.`},
		{name: "dead without a reason", integrations: with(func(in *integration) { in.Status = action.IntegrationExpired }), connections: all, want: "The session cannot use any integration of Linear: 'Acme' is expired. A person must reconnect it."},
		{name: "one of two is dead", integrations: with(revoked, as), connections: all, want: "The session is connected to 'Bmce'.", passes: true},
		{name: "two", integrations: with(as, as), connections: all, want: "The session is connected to several integrations of Linear ('Acme', 'Bmce'), but create needs exactly one: create a session connected to one of them."},
		{name: "two, of which the module chooses", integrations: with(as, as), connections: all, many: true, want: "The session is connected to 'Acme', 'Bmce'.", passes: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := policy.New(action.Rules{Integrations: tt.integrations})
			s := &action.Session{ID: "s1", CreatedBy: "u1", Connections: tt.connections}
			if tt.snapshot {
				s.ID = ""
			}
			d := p.Decide(noon, s, &action.Action{Source: "linear", SourceName: "Linear", Provider: "linear", Name: "create", Risk: action.RiskWrite, OneConnection: !tt.many})
			step := d.Steps[0]
			if step.Note != tt.want || step.Layer != action.LayerCeiling || (step.Mode == "") != tt.passes || (d.Mode == approve) != tt.passes {
				t.Errorf("got %s\nof   %s", step.Note, text(d))
			}
			if !tt.passes && d.Why() != tt.want {
				t.Errorf("the reason is %q", d.Why())
			}
		})
	}
}

// A capability does not stand in for a connection, nor the other way round, and
// the sentence is that of what is missing.
func TestBothCeilings(t *testing.T) {
	act := &action.Action{Source: "linear", Provider: "linear", Name: "create", Risk: action.RiskWrite}
	rules := action.Rules{Capabilities: []action.Capability{{Group: "g", Provider: "linear", Level: 1}}}
	s := &action.Session{ID: "s1", Group: "g", Connections: []string{action.AllConnections}}
	decide := func() string { d := policy.New(rules).Decide(noon, s, act); return fmt.Sprint(d.Mode, " ", d.Why()) }
	if got := decide(); !strings.HasPrefix(got, "deny The session is not connected") {
		t.Error(got)
	}
	rules.Integrations = []action.Integration{{ID: "1", Provider: "linear", Visibility: action.VisibleOrganization, Status: action.IntegrationActive}}
	if got := decide(); !strings.HasPrefix(got, "deny The group 'g' has level 1") {
		t.Error(got)
	}
	rules.Capabilities[0].Level = 2
	if got := decide(); !strings.HasPrefix(got, "allow The capability of group 'g'") {
		t.Error(got)
	}
}

// Lists are kept by views: what two sessions see differs where their views do.
func TestSessionsOfOtherConnectionsHaveOtherViews(t *testing.T) {
	p := policy.New(action.Rules{Integrations: []action.Integration{
		{ID: "1", Provider: "linear", Visibility: action.VisibleOrganization, Status: action.IntegrationActive},
		{ID: "2", Provider: "sentry", Visibility: action.VisiblePrivate, Status: action.IntegrationActive},
		{ID: "3", Provider: "slack", Visibility: action.VisibleOrganization, Status: action.IntegrationExpired},
	}})
	view := func(ids ...string) string { return p.View(noon, &action.Session{ID: "s", Connections: ids}) }
	if a, b := view("all"), view("3", "9", "1"); a != b || a == "" {
		t.Errorf("what comes to the same has the views %q and %q", a, b)
	}
	views := []string{view(), view("1"), view("2"), view("1", "2")}
	if slices.Sort(views); len(slices.Compact(views)) != 4 {
		t.Errorf("views %q", views)
	}
}

// connects says, from the rules alone, whether the session can reach the service
// of the action.
func (w *world) connects(s *action.Session, a *action.Action) bool {
	if a.Provider == "" {
		return true
	}
	active := 0
	for _, in := range w.rules.Integrations {
		every := slices.Contains(s.Connections, "all") || s.ID == "" && s.Connections == nil
		mine := slices.Contains(s.Connections, in.ID) && (in.Visibility == "organization" || in.CreatedBy == s.CreatedBy) || every && in.Visibility == "organization"
		if mine && in.User == "" && in.Provider == a.Provider && in.Status == "active" {
			active++
		}
	}
	return active == 1 || active > 1 && !a.OneConnection
}

func modulesNeedAConnection(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		if d := w.decide(p, noon, s, a); !w.connects(s, a) && (d.Mode != deny || d.Source != action.LayerCeiling || len(d.Steps) != 1) {
			t.Errorf("without a connection %s", text(d))
		}
	})
}

// An integration that dies can only take from what was possible, but where it
// was one too many.
func whatDiesTakesAway(t *testing.T, roll dice) {
	w := newWorld(roll)
	if len(w.rules.Integrations) == 0 {
		return
	}
	less := w.rules
	less.Integrations = slices.Clone(less.Integrations)
	less.Integrations[roll(len(less.Integrations))].Status = action.IntegrationSuspended
	before, after := policy.New(w.rules), policy.New(less)
	w.calls(func(s *action.Session, a *action.Action) {
		x, y := w.decide(before, noon, s, a), w.decide(after, noon, s, a)
		if x.Mode != y.Mode && !a.OneConnection && (a.Provider == "" || y.Mode != deny || y.Source != action.LayerCeiling) {
			t.Errorf("one integration less makes %s of %s", text(y), text(x))
		}
	})
}

// Of integrations that are somebody's own only sessions that are bound to them
// learn.
func nothingPrivateShows(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		d := p.Decide(noon, s, a)
		for _, in := range w.rules.Integrations {
			if in.Owner() != "" && !slices.Contains(s.Connections, in.ID) && strings.Contains(text(d.Steps), in.Name) {
				t.Errorf("%s shows in %s", in.Name, text(d))
			}
		}
	})
}
