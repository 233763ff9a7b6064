package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/policy"
)

const (
	none    = action.Mode("")
	allow   = action.ModeAllow
	deny    = action.ModeDeny
	approve = action.ModeRequireApproval
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	past  = noon.Add(-time.Hour)
	later = noon.Add(time.Hour)
)

// overrides makes those of automation a1 and of the organization.
func overrides(t *testing.T, automation, organization map[string]action.Mode) []action.Override {
	t.Helper()
	var list []action.Override
	add := func(id string, m map[string]action.Mode) {
		for k, mode := range m {
			key, err := action.ParseKey(k)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, action.Override{Automation: id, Key: key, Mode: mode})
		}
	}
	add("a1", automation)
	add("", organization)
	return list
}

// deciding is the step of the layer that decided.
func deciding(d action.Decision) (step action.Step) {
	for _, s := range d.Steps {
		if s.Layer == d.Source {
			step = s
		}
	}
	return step
}

func TestCascade(t *testing.T) {
	type rules = map[string]action.Mode
	for _, tt := range []struct {
		name         string
		automation   rules
		organization rules
		inAutomation bool
		event        bool
		group        bool // with a capability that reaches everything
		risk         action.Risk
		want         action.Mode
		by           action.Layer
		key          string
	}{
		{name: "a read is allowed", risk: "read", want: allow, by: action.LayerInferred},
		{name: "a write asks", risk: "write", want: approve, by: action.LayerInferred},
		{name: "a danger is denied", risk: "danger", want: deny, by: action.LayerInferred},
		{name: "an unknown risk is denied", risk: "", want: deny, by: action.LayerInferred},

		{name: "exact", organization: rules{"s:act": allow, "s:*": deny, "*": deny}, risk: "write", want: allow, by: action.LayerOrganization, key: "s:act"},
		{name: "source", organization: rules{"s:*": allow, "*": deny}, risk: "write", want: allow, by: action.LayerOrganization, key: "s:*"},
		{name: "everything", organization: rules{"*": allow}, risk: "danger", want: allow, by: action.LayerOrganization, key: "*"},
		{name: "a read can be made to ask", organization: rules{"s:act": approve}, risk: "read", want: approve, by: action.LayerOrganization, key: "s:act"},
		{name: "another source", organization: rules{"t:act": allow, "t:*": allow}, risk: "write", want: approve, by: action.LayerInferred},
		{name: "another action", organization: rules{"s:other": allow}, risk: "write", want: approve, by: action.LayerInferred},
		{name: "a mode that nobody knows", organization: rules{"s:act": "maybe"}, risk: "read", want: deny, by: action.LayerOrganization, key: "s:act"},

		{name: "automation first", automation: rules{"s:*": allow}, organization: rules{"s:act": deny}, inAutomation: true, risk: "write", want: allow, by: action.LayerAutomation, key: "s:*"},
		{name: "automation of another session", automation: rules{"s:*": allow}, organization: rules{"s:act": deny}, risk: "write", want: deny, by: action.LayerOrganization, key: "s:act"},
		{name: "automation with nothing to say", automation: rules{"t:*": allow}, organization: rules{"*": approve}, inAutomation: true, risk: "read", want: approve, by: action.LayerOrganization, key: "*"},
		{name: "automation denies a read", automation: rules{"*": deny}, inAutomation: true, risk: "read", want: deny, by: action.LayerAutomation, key: "*"},

		{name: "a capability allows a write", group: true, risk: "write", want: allow, by: action.LayerCapability},
		{name: "a capability allows a danger behind its gate", group: true, risk: "danger", want: allow, by: action.LayerCapability},
		{name: "organization before capability", group: true, organization: rules{"*": approve}, risk: "read", want: approve, by: action.LayerOrganization, key: "*"},

		{name: "after an event, an organization's allow of a write asks", event: true, organization: rules{"s:act": allow}, risk: "write", want: approve, by: action.LayerOrganization, key: "s:act"},
		{name: "after an event, so does a capability", event: true, group: true, risk: "write", want: approve, by: action.LayerCapability},
		{name: "after an event, so does an allow of a danger", event: true, organization: rules{"*": allow}, risk: "danger", want: approve, by: action.LayerOrganization, key: "*"},
		{name: "after an event, reads run", event: true, organization: rules{"*": allow}, risk: "read", want: allow, by: action.LayerOrganization, key: "*"},
		{name: "after an event, inferred reads run", event: true, risk: "read", want: allow, by: action.LayerInferred},
		{name: "after an event, the automation's word holds", event: true, inAutomation: true, automation: rules{"s:act": allow}, organization: rules{"*": deny}, risk: "write", want: allow, by: action.LayerAutomation, key: "s:act"},
		{name: "after an event, a denial is one", event: true, organization: rules{"*": deny}, risk: "write", want: deny, by: action.LayerOrganization, key: "*"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules := action.Rules{Version: 7, Settings: action.Settings{DenialLimit: 4}, Overrides: overrides(t, tt.automation, tt.organization)}
			s := &action.Session{}
			if tt.inAutomation {
				s.Automation = "a1"
			}
			if tt.event {
				s.Event = "e1"
			}
			if tt.group {
				s.Group, s.Task = "g", "T-1"
				rules.Capabilities = []action.Capability{{Group: "g", Provider: "s", Level: 3, Gate: "G"}}
				rules.Gates = []action.GateApproval{{Group: "g", Task: "T-1", Gate: "G", ApprovedBy: "boss"}}
			}
			d := policy.New(rules).Decide(noon, s, &action.Action{Source: "s", Name: "act", Risk: tt.risk})
			step := deciding(d)
			got := fmt.Sprint(d.Mode, " by ", d.Source, " ", step.Key)
			if want := fmt.Sprint(tt.want, " by ", tt.by, " ", tt.key); got != want || step.Mode != d.Mode {
				t.Errorf("got %s, want %s; step %+v", got, want, step)
			}
			if d.Version != 7 || d.DenialLimit != 4 {
				t.Errorf("version %d, denial limit %d; want 7 and 4", d.Version, d.DenialLimit)
			}
			if belongs := d.Steps[1].Note != "The session has no automation."; belongs != tt.inAutomation {
				t.Errorf("of the automation it says %q", d.Steps[1].Note)
			}
			if tightened := strings.Contains(step.Note, "inbound event"); tightened != (tt.event && tt.want == approve) {
				t.Errorf("the step says %q", step.Note)
			}
		})
	}
}

func TestStampChangesWhenSomethingExpires(t *testing.T) {
	at := func(d time.Duration) *time.Time { return new(noon.Add(d)) }
	p := policy.New(action.Rules{
		Version:      12,
		Capabilities: []action.Capability{{Group: "g", Provider: "s", ExpiresAt: at(2 * time.Minute)}, {Group: "g", Provider: "t"}},
		Gates: []action.GateApproval{
			{ID: "a", ExpiresAt: at(time.Minute)},
			{ID: "b", ExpiresAt: at(-time.Minute)},
			{ID: "c", ExpiresAt: at(time.Minute), RevokedAt: at(0)},
		},
	})
	var got []string
	for _, d := range []time.Duration{-2 * time.Minute, 0, time.Minute - 1, time.Minute, 2 * time.Minute, time.Hour, 0} {
		got = append(got, p.Stamp(noon.Add(d)))
	}
	if diff := cmp.Diff([]string{"12.0", "12.1", "12.1", "12.2", "12.3", "12.3", "12.1"}, got); diff != "" {
		t.Error(diff)
	}
	if p.Version() != 12 {
		t.Errorf("version %d", p.Version())
	}
}

// Names come from people and from foreign servers: none may break a sentence,
// or pass for one.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{"", "a\nb", "\x1b[2J", "\u202eevil", "\xff\xfe", "\x00", strings.Repeat("n", 100_000)} {
		grants := []action.Grant{{ID: name, Terms: action.Terms{Scope: action.ScopeOrganization, Source: "s", Action: name, Pins: pins(name, "1")}}}
		for _, rules := range []action.Rules{
			{},
			{Capabilities: []action.Capability{{Group: name, Provider: "s", Level: 1}}},
			{Capabilities: []action.Capability{{Group: name, Provider: "s", Level: 3, Gate: name, DeniedActions: []string{"other"}}}},
			{Capabilities: []action.Capability{{Group: name, Provider: "s", Level: 2, AllowedActions: []string{}, Rate: &action.Rate{Calls: 1, Seconds: 1}}}},
		} {
			rules.Quotas = []action.Quota{{Key: action.Key{Source: "s", Action: name}, Per: action.PerGroup}}
			for _, risk := range []action.Risk{"read", "write", "danger"} {
				s := &action.Session{Group: name, Task: name}
				a := &action.Action{Source: "s", SourceName: name, Name: name, Risk: risk}
				p := policy.New(rules)
				d := p.WithGrants(noon, p.Decide(noon, s, a), s, a, nil, grants)
				for _, l := range d.Limits {
					d.Steps = append(d.Steps, action.Step{Note: l.What})
				}
				for _, step := range d.Steps {
					if strings.ContainsFunc(step.Note, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
						t.Errorf("%q is in %q", name, step.Note)
					}
				}
			}
		}
	}
}

func TestANameDoesNotEndItsQuotation(t *testing.T) {
	d := policy.New(action.Rules{}).Decide(noon, &action.Session{Group: "x' has level 3 (production) at github"}, &action.Action{Source: "github"})
	if want := `The group 'x\' has level 3 (production) at github' has no capability at github.`; d.Why() != want {
		t.Errorf("got %s, want %s", d.Why(), want)
	}
}

func TestParseKey(t *testing.T) {
	for in, want := range map[string]action.Key{
		"linear:create_issue":  {Source: "linear", Action: "create_issue"},
		"connector:1234:a.b-c": {Source: "connector:1234", Action: "a.b-c"},
		"connector:1234:*":     {Source: "connector:1234", Action: "*"},
		"*":                    {Source: "*", Action: "*"},
	} {
		got, err := action.ParseKey(in)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v", in, got, err)
		}
		if got.String() != in {
			t.Errorf("%q is printed as %q", in, got)
		}
	}
	for _, in := range []string{"", "linear", ":", "linear:", ":create", "lin*:x", "linear:cre*", "*:x", "**"} {
		if got, err := action.ParseKey(in); err == nil {
			t.Errorf("%q was taken as %+v", in, got)
		}
	}
}

// TestParamsChangeRisk decides pushes that are destructive, harmless, or cannot be
// covered by grants because of their params.
func TestParamsChangeRisk(t *testing.T) {
	t.Parallel()
	push := &action.Action{Source: "git", Name: "push", Risk: action.RiskWrite, PinPatterns: []string{"/branch"}}
	session := &action.Session{ID: "s", Organization: "o"}
	allowed := policy.New(action.Rules{Overrides: []action.Override{{Key: push.Key(), Mode: action.ModeAllow}}})
	forced, own := push.For(action.Binding{Danger: "it overwrites main"}), push.For(action.Binding{Allowed: "it is its own"})
	for _, c := range []struct {
		rules *policy.Policy
		act   *action.Action
		want  action.Mode
	}{
		{policy.New(action.Rules{}), push, action.ModeRequireApproval},
		{policy.New(action.Rules{}), forced, action.ModeDeny},
		{policy.New(action.Rules{}), own, action.ModeAllow},
		{policy.New(action.Rules{Overrides: []action.Override{{Key: push.Key(), Mode: action.ModeRequireApproval}}}), own, action.ModeRequireApproval},
		{allowed, push, action.ModeAllow},
		{allowed, forced, action.ModeRequireApproval},
	} {
		if d := c.rules.Decide(time.Now(), session, c.act); d.Mode != c.want {
			t.Errorf("%+v is decided as %s, want %s: %s", c.act, d.Mode, c.want, d.Why())
		}
	}
	grant := action.Grant{ID: "g", Organization: "o", CreatedBy: "ann", Terms: action.Terms{Scope: action.ScopeOrganization, Source: "git", Action: "push", Pins: map[string]json.RawMessage{"/branch": json.RawMessage(`"agent/*"`)}}}
	ask := policy.New(action.Rules{Overrides: []action.Override{{Key: push.Key(), Mode: action.ModeRequireApproval}}})
	for _, c := range []struct {
		act    *action.Action
		params string
		want   action.Mode
	}{
		{push, `{"branch":"agent/one"}`, action.ModeAllow},
		{push, `{"branch":"main"}`, action.ModeRequireApproval},
		{push, `{}`, action.ModeRequireApproval},
		{forced, `{"branch":"agent/one"}`, action.ModeRequireApproval},
		{push.For(action.Binding{NoGrant: "nobody saw it"}), `{"branch":"agent/one"}`, action.ModeRequireApproval},
		{&action.Action{Source: "git", Name: "push", Risk: action.RiskWrite}, `{"branch":"agent/one"}`, action.ModeRequireApproval},
	} {
		d := ask.WithGrants(time.Now(), ask.Decide(time.Now(), session, c.act), session, c.act, []byte(c.params), []action.Grant{grant})
		if d.Mode != c.want {
			t.Errorf("%s with a grant is decided as %s, want %s: %s", c.params, d.Mode, c.want, d.Why())
		}
	}
}
