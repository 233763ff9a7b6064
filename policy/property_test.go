package policy_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/policy"
)

// properties hold in every world.
var properties = map[string]func(t *testing.T, roll dice){
	"no layer undoes a denial":                          noLayerUndoesADenial,
	"what runs is reached by a capability":              whatRunsIsReached,
	"modules need a connection":                         modulesNeedAConnection,
	"what dies takes away":                              whatDiesTakesAway,
	"nothing private shows":                             nothingPrivateShows,
	"ceilings never loosen":                             ceilingsNeverLoosen,
	"a group adds nothing but its capability":           aGroupAddsItsCapability,
	"after an event writes need the automation":         eventsNeedTheAutomation,
	"drifted tools need what was made for them":         driftedToolsNeedTheirOwn,
	"grants cover what their terms say":                 grantsCoverTheirTerms,
	"equal stamps are equal decisions":                  equalStampsAreEqualDecisions,
	"equal views are equal lists":                       equalViewsAreEqualLists,
	"nothing depends on the order of maps":              nothingDependsOnMaps,
	"decisions explain themselves":                      decisionsExplainThemselves,
	"no order of edits lets a drifted tool run":         noEditsLetADriftedToolRun,
	"more overrides of one mode move decisions its way": overridesPullTheirWay,
}

func TestProperties(t *testing.T) {
	for name, holds := range properties {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, holds)
		})
	}
}

func FuzzProperties(f *testing.F) {
	for seed := range uint64(20) {
		roll, data := rolled(seed), make([]byte, 200)
		for i := range data {
			data[i] = byte(roll(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, holds := range properties {
			holds(t, written(data))
		}
	})
}

func noLayerUndoesADenial(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		d := p.Decide(noon, s, a)
		first := action.Mode("")
		for _, step := range d.Steps {
			if step.Layer != action.LayerDrift && step.Mode != "" {
				first = step.Mode
			}
		}
		if first == deny && (d.Mode != deny || d.Source == action.LayerDrift) {
			t.Errorf("a denial became %s by %s", d.Mode, d.Source)
		}
		if d.Mode == deny && (!reflect.DeepEqual(d, w.decide(p, noon, s, a)) || d.Limits != nil) {
			t.Errorf("grants change a denial, or it counts: %s", text(d))
		}
	})
}

// reaches says, from the rules alone, whether the session's group has a
// capability that is enough.
func (w *world) reaches(s *action.Session, a *action.Action) bool {
	good := func(at *time.Time) bool { return at == nil || at.After(noon) }
	need := map[action.Risk]action.Level{action.RiskRead: 1, action.RiskWrite: 2}[a.Risk]
	if need == 0 {
		need = 3
	}
	var c *action.Capability
	for i := range w.rules.Capabilities { // the last of a place counts
		if x := &w.rules.Capabilities[i]; x.Group == s.Group && x.Provider == a.Source {
			c = x
		}
	}
	if c == nil || !good(c.ExpiresAt) || c.Level < need || slices.Contains(c.DeniedActions, a.Name) || c.AllowedActions != nil && !slices.Contains(c.AllowedActions, a.Name) {
		return false
	}
	return need < 3 || c.Gate != "" && s.Task != "" && slices.ContainsFunc(w.rules.Gates, func(g action.GateApproval) bool {
		return (w.rules.Settings.SelfApproval || g.ApprovedBy != s.CreatedBy) && g.Group == s.Group && g.Task == s.Task && g.Gate == c.Gate && g.RevokedAt == nil && good(g.ExpiresAt) &&
			(g.Actions == nil || slices.Contains(g.Actions, a.Source+":"+a.Name) || slices.Contains(g.Actions, a.Source+":*"))
	})
}

func whatRunsIsReached(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		d := w.decide(p, noon, s, a)
		if short := s.Group != "" && !w.reaches(s, a) || !w.connects(s, a); short != (d.Source == action.LayerCeiling) || short && d.Mode != deny {
			t.Errorf("beyond the ceiling: %v, decided %s", short, text(d))
		}
	})
}

// tightened is the world with one capability, or one approval of a gate, that
// reaches less.
func tightened(w *world, roll dice) action.Rules {
	r := w.rules
	r.Capabilities, r.Gates = slices.Clone(r.Capabilities), slices.Clone(r.Gates)
	if n := len(r.Gates); n > 0 && roll(3) == 0 {
		i := roll(n)
		switch roll(3) {
		case 0:
			r.Gates = slices.Delete(r.Gates, i, i+1)
		case 1:
			r.Gates[i].RevokedAt = &past
		case 2:
			r.Gates[i].ExpiresAt = &noon
		}
		return r
	}
	// Of two for one place only the last counts; a store has no such.
	slices.Reverse(r.Capabilities)
	seen := map[string]bool{}
	r.Capabilities = slices.DeleteFunc(r.Capabilities, func(c action.Capability) bool {
		place := c.Group + " " + c.Provider
		defer func() { seen[place] = true }()
		return seen[place]
	})
	if len(r.Capabilities) == 0 {
		return r
	}
	i := roll(len(r.Capabilities))
	c := &r.Capabilities[i]
	switch roll(6) {
	case 0:
		c.Level = max(0, c.Level-1)
	case 1:
		c.ExpiresAt = &noon
	case 2:
		c.DeniedActions = append(slices.Clone(c.DeniedActions), someName(roll))
	case 3:
		c.AllowedActions = slices.DeleteFunc([]string{"a", "b", "*"}, func(name string) bool {
			return c.AllowedActions != nil && !slices.Contains(c.AllowedActions, name) || roll(2) == 0
		})
	case 4:
		c.Gate = "a gate that nobody opens"
	case 5:
		r.Capabilities = slices.Delete(r.Capabilities, i, i+1)
	}
	return r
}

func ceilingsNeverLoosen(t *testing.T, roll dice) {
	w := newWorld(roll)
	wide, narrow := policy.New(w.rules), policy.New(tightened(w, roll))
	w.calls(func(s *action.Session, a *action.Action) {
		before, after := w.decide(wide, noon, s, a), w.decide(narrow, noon, s, a)
		if before.Mode != after.Mode && (after.Mode != deny || after.Source != action.LayerCeiling) {
			t.Errorf("a narrower capability makes %s of %s", text(after), text(before))
		}
	})
}

// A session of a group may do no more than the same without one, unless it is
// the capability that says so.
func aGroupAddsItsCapability(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		free := *s
		free.Group = ""
		with, without := p.Decide(noon, s, a), p.Decide(noon, &free, a)
		byCapability := slices.ContainsFunc(with.Steps, func(step action.Step) bool { return step.Layer == action.LayerCapability && step.Mode != "" })
		if strictness(with.Mode) < strictness(without.Mode) && !byCapability {
			t.Errorf("in a group %s, without %s", text(with), text(without))
		}
	})
}

func eventsNeedTheAutomation(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		d := w.decide(p, noon, s, a)
		if s.Event == "" || d.Mode != allow || a.Risk == action.RiskRead || d.Source == action.LayerAutomation {
			return
		}
		for _, g := range w.grants {
			if slices.Contains(d.Grants, g.ID) && (g.Scope != action.ScopeSession || g.Session != s.ID) {
				t.Errorf("allowed by %s", text(g))
			}
		}
		if len(d.Grants) == 0 {
			t.Errorf("allowed: %s", text(d))
		}
	})
}

// moved says, from the rules alone, whether the tool is other than reviewed.
func (w *world) moved(a *action.Action) bool {
	if a.Review == "" {
		return false
	}
	r, ok := w.rules.Reviewed[action.Key{Source: a.Source, Action: a.Name}]
	return !ok || r.Behaviour != a.Hashes.Behaviour || a.Review != action.ReviewTrust && r.Text != a.Hashes.Text
}

func driftedToolsNeedTheirOwn(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		if !w.moved(a) {
			return
		}
		d := w.decide(p, noon, s, a)
		if a.Review == action.ReviewRequired && d.Mode != deny {
			t.Errorf("unreviewed, and %s", text(d))
		}
		if d.Mode != allow {
			return
		}
		for _, g := range w.grants {
			if slices.Contains(d.Grants, g.ID) && (g.Any || g.ToolHash != a.Hash) {
				t.Errorf("drifted, and allowed by %s", text(g))
			}
		}
		if d.Source != action.LayerGrant {
			t.Errorf("drifted, and allowed: %s", text(d))
		}
	})
}

// covers says, from its terms alone, whether the grant covers the call.
func (w *world) covers(g *action.Grant, s *action.Session, a *action.Action) bool {
	ordinary := (a.Risk == action.RiskRead || a.Risk == action.RiskWrite) && !w.moved(a)
	flat := map[string]string{
		`{"x":1}`: `/x=1`, `{"x":2,"y":{"z":"a"}}`: `/x=2 /y={"z":"a"} /y/z="a"`, `{"y":{"z":"b"}}`: `/y={"z":"b"} /y/z="b"`,
	}[string(w.params)]
	for pointer, value := range g.Pins {
		if !slices.Contains(strings.Fields(flat), pointer+"="+string(value)) {
			return false
		}
	}
	return g.Organization == s.Organization &&
		(g.Scope == action.ScopeOrganization && s.Event == "" || g.Scope == action.ScopeSession && g.Session == s.ID) &&
		(g.Any && ordinary && (g.Source == "" || g.Source == a.Source) || !g.Any && g.Source == a.Source && g.Action == a.Name) &&
		(g.ToolHash == a.Hash || g.ToolHash == "" && !w.moved(a)) &&
		g.RevokedAt == nil && (g.ExpiresAt == nil || g.ExpiresAt.After(noon)) && (g.MaxCalls == nil || g.UsedCalls < *g.MaxCalls) &&
		(w.rules.Settings.SelfApproval || g.CreatedBy != s.CreatedBy)
}

func grantsCoverTheirTerms(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		before, d := p.Decide(noon, s, a), w.decide(p, noon, s, a)
		var want []string
		for i := range w.grants {
			if before.Mode == approve && w.covers(&w.grants[i], s, a) {
				want = append(want, w.grants[i].ID)
			}
		}
		if !slices.Equal(d.Grants, want) || (len(want) > 0) != (d.Source == action.LayerGrant) || len(want) > 0 && d.Mode != allow {
			t.Errorf("covered by %v, want %v: %s", d.Grants, want, text(d))
		}
	})
}

func equalStampsAreEqualDecisions(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	one, other := noon.Add(time.Duration(roll(9)-4)*30*time.Second), noon.Add(time.Duration(roll(9)-4)*30*time.Second)
	if p.Stamp(one) != p.Stamp(other) {
		return
	}
	w.calls(func(s *action.Session, a *action.Action) {
		if x, y := p.Decide(one, s, a), p.Decide(other, s, a); !reflect.DeepEqual(x, y) {
			t.Errorf("at %s and %s the stamp is %s; decided %s and %s", one, other, p.Stamp(one), text(x), text(y))
		}
	})
}

func nothingDependsOnMaps(t *testing.T, roll dice) {
	if roll(15) > 0 {
		return // a hundred times each is enough in some of the worlds
	}
	w := newWorld(roll)
	p := policy.New(w.rules)
	w.calls(func(s *action.Session, a *action.Action) {
		first := w.decide(p, noon, s, a)
		for range 100 {
			if again := w.decide(policy.New(w.rules), noon, s, a); !reflect.DeepEqual(first, again) {
				t.Fatalf("decided %s, and then %s", text(first), text(again))
			}
		}
	})
}

func decisionsExplainThemselves(t *testing.T, roll dice) {
	w := newWorld(roll)
	p := policy.New(w.rules)
	order := []action.Layer{"ceiling", "automation", "organization", "capability", "inferred", "drift", "grant"}
	w.calls(func(s *action.Session, a *action.Action) {
		d := w.decide(p, noon, s, a)
		at := -1
		for _, step := range d.Steps {
			i := slices.Index(order, step.Layer)
			if i == 0 && at == 0 && a.Provider != "" {
				at = -1 // a module's action has two ceilings
			}
			if i <= at || step.Note == "" {
				t.Errorf("layers out of order, or silent: %s", text(d))
			}
			at = i
		}
		if step := deciding(d); step.Mode != d.Mode || step.Note != d.Why() || d.Version != w.rules.Version || d.DenialLimit != w.rules.Settings.DenialLimit {
			t.Errorf("got %s", text(d))
		}
	})
}

// An override can only pull the decisions that it is for to its own mode.
func overridesPullTheirWay(t *testing.T, roll dice) {
	w := newWorld(roll)
	o := someOverride(roll)
	more := w.rules
	more.Overrides = append(slices.Clone(more.Overrides), o)
	before, after := policy.New(w.rules), policy.New(more)
	w.calls(func(s *action.Session, a *action.Action) {
		x, y := before.Decide(noon, s, a), after.Decide(noon, s, a)
		if o.Mode == deny && strictness(y.Mode) < strictness(x.Mode) || o.Mode == allow && strictness(y.Mode) > strictness(x.Mode) && s.Event == "" && !w.moved(a) {
			t.Errorf("an override that says %s makes %s of %s", o.Mode, text(y), text(x))
		}
	})
}
