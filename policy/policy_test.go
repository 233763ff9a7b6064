package policy_test

import (
	"fmt"
	"testing"

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

// overrides reads lines of "key mode" for the organization and, with the
// prefix "automation ", for the automation a1.
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

func TestCascade(t *testing.T) {
	type rules = map[string]action.Mode
	for _, tt := range []struct {
		name         string
		automation   rules
		organization rules
		inAutomation bool
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

		{name: "automation first", automation: rules{"s:*": allow}, organization: rules{"s:act": deny}, inAutomation: true, risk: "write", want: allow, by: action.LayerAutomation, key: "s:*"},
		{name: "automation of another session", automation: rules{"s:*": allow}, organization: rules{"s:act": deny}, risk: "write", want: deny, by: action.LayerOrganization, key: "s:act"},
		{name: "automation with nothing to say", automation: rules{"t:*": allow}, organization: rules{"*": approve}, inAutomation: true, risk: "read", want: approve, by: action.LayerOrganization, key: "*"},
		{name: "automation denies a read", automation: rules{"*": deny}, inAutomation: true, risk: "read", want: deny, by: action.LayerAutomation, key: "*"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := policy.New(7, overrides(t, tt.automation, tt.organization))
			s := &action.Session{}
			if tt.inAutomation {
				s.Automation = "a1"
			}
			d := p.Decide(s, &action.Action{Source: "s", Name: "act", Risk: tt.risk})
			last := d.Steps[len(d.Steps)-1]
			got := fmt.Sprint(d.Mode, " by ", d.Source, " ", last.Key)
			if want := fmt.Sprint(tt.want, " by ", tt.by, " ", tt.key); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if d.Version != 7 {
				t.Errorf("version %d, want 7", d.Version)
			}
		})
	}
}

// Every combination of layers present and absent: the first that speaks wins,
// those before it are told as passed, none after it is asked.
func TestEveryLayerIsTold(t *testing.T) {
	order := []action.Layer{action.LayerAutomation, action.LayerOrganization, action.LayerInferred}
	for _, auto := range []action.Mode{none, allow, deny, approve} {
		for _, org := range []action.Mode{none, allow, deny, approve} {
			for _, risk := range []action.Risk{"read", "write", "danger"} {
				rules := func(m action.Mode) map[string]action.Mode {
					if m == none {
						return nil
					}
					return map[string]action.Mode{"s:act": m}
				}
				p := policy.New(1, overrides(t, rules(auto), rules(org)))
				d := p.Decide(&action.Session{Automation: "a1"}, &action.Action{Source: "s", Name: "act", Risk: risk})
				spoke := []action.Mode{auto, org, map[action.Risk]action.Mode{"read": allow, "write": approve, "danger": deny}[risk]}
				var want []action.Layer
				for i, m := range spoke {
					want = append(want, order[i])
					if m != none {
						if d.Mode != m || d.Source != order[i] {
							t.Errorf("%v/%v/%v: got %s by %s", auto, org, risk, d.Mode, d.Source)
						}
						break
					}
				}
				var asked []action.Layer
				for i, s := range d.Steps {
					asked = append(asked, s.Layer)
					if s.Note == "" || (i < len(d.Steps)-1) != (s.Mode == none) {
						t.Errorf("%v/%v/%v: step %+v", auto, org, risk, s)
					}
				}
				if diff := cmp.Diff(want, asked); diff != "" {
					t.Errorf("%v/%v/%v: layers asked (-want +got):\n%s", auto, org, risk, diff)
				}
			}
		}
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
