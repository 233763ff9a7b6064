package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/policy"
)

// situation is one row of the matrix: what each layer has to say.
type situation struct {
	connection   string // of a module's action: "none", "dead", "one", "several"; "": it is no module's
	ceiling      string // "": no group, "reaches", "short"
	automation   action.Mode
	organization action.Mode
	risk         action.Risk
	event        bool
	review       action.ReviewRule // "": not a connector's
	tool         string            // "reviewed", "text", "changed", "new"
	grant        string            // "": none; else scope, kind and hash
}

// expected is the table of who wins, written down as plainly as can be. It
// shares nothing with the package.
func expected(x situation) (action.Mode, action.Layer) {
	if x.ceiling == "short" || x.connection != "" && x.connection != "one" {
		return deny, "ceiling"
	}
	var mode action.Mode
	var by action.Layer
	switch {
	case x.automation != none:
		mode, by = x.automation, "automation"
	case x.organization != none:
		mode, by = x.organization, "organization"
	case x.ceiling == "reaches":
		mode, by = allow, "capability"
	case x.risk == "read":
		mode, by = allow, "inferred"
	case x.risk == "write":
		mode, by = approve, "inferred"
	default:
		mode, by = deny, "inferred"
	}
	if x.event && mode == allow && by != "automation" && x.risk != "read" {
		mode = approve
	}
	drifted := x.review != "" && (x.tool == "new" || x.tool == "changed" || x.tool == "text" && x.review != "trust")
	if drifted && mode != deny && x.review == "required" {
		return deny, "drift"
	}
	if drifted && mode == allow {
		mode, by = approve, "drift"
	}
	if mode != approve || x.grant == "" {
		return mode, by
	}
	switch {
	case x.event && strings.HasPrefix(x.grant, "organization"):
	case strings.HasSuffix(x.grant, "any") && (drifted || x.risk != "read" && x.risk != "write"):
	case strings.HasSuffix(x.grant, "without hash") && drifted:
	case strings.HasSuffix(x.grant, "other hash"):
	default:
		return allow, "grant"
	}
	return mode, by
}

// Every combination of what the layers can say.
func TestMatrix(t *testing.T) {
	modes := []action.Mode{none, allow, deny, approve}
	var rows []situation
	for _, ceiling := range []string{"", "reaches", "short"} {
		for _, automation := range modes {
			for _, organization := range modes {
				for _, risk := range []action.Risk{"read", "write", "danger", "odd"} {
					for _, event := range []bool{false, true} {
						for _, connection := range []string{"", "none", "dead", "one", "several"} {
							rows = append(rows, situation{connection: connection, ceiling: ceiling, automation: automation, organization: organization, risk: risk, event: event})
						}
						for _, review := range []action.ReviewRule{"trust", "strict", "required"} {
							for _, tool := range []string{"reviewed", "text", "changed", "new"} {
								rows = append(rows, situation{"", ceiling, automation, organization, risk, event, review, tool, ""})
							}
						}
					}
				}
			}
		}
	}
	grants := []string{
		"", "session any", "organization any", "session without hash", "organization without hash",
		"session hash", "organization hash", "session other hash", "organization other hash",
	}
	for _, row := range rows {
		for _, grant := range grants {
			row.grant = grant
			if !row.holds(t) {
				return // the first tells enough
			}
		}
	}
	t.Logf("%d rows", len(rows)*len(grants))
}

// holds builds the row and compares.
func (x situation) holds(t *testing.T) bool {
	t.Helper()
	p, s, a := x.build()
	d := p.Decide(noon, s, a)
	d = p.WithGrants(noon, d, s, a, []byte(`{}`), x.grants())
	mode, by := expected(x)
	step := deciding(d)
	if d.Mode != mode || d.Source != by || step.Mode != mode {
		t.Errorf("%+v: got %s by %s (%+v), want %s by %s", x, d.Mode, d.Source, step, mode, by)
		return false
	}
	return x.ordered(t, d)
}

// ordered checks that the layers were asked in order, that each said
// something, and that none came after the one that ended the cascade.
func (x situation) ordered(t *testing.T, d action.Decision) bool {
	t.Helper()
	var asked []string
	for _, step := range d.Steps {
		asked = append(asked, string(step.Layer))
		if step.Note == "" {
			t.Errorf("%+v: %s says nothing", x, step.Layer)
			return false
		}
	}
	var want []string
	if x.connection != "" {
		want = append(want, "ceiling")
	}
	unconnected := x.connection != "" && x.connection != "one"
	if !unconnected {
		want = append(want, "ceiling")
	}
	if !unconnected && x.ceiling != "short" {
		want = append(want, "automation")
		if x.automation == none {
			want = append(want, "organization")
		}
		if x.automation == none && x.organization == none {
			want = append(want, "capability")
		}
		if x.automation == none && x.organization == none && x.ceiling == "" {
			want = append(want, "inferred")
		}
	}
	if x.review != "" {
		want = append(want, "drift")
	}
	x.grant = ""
	if mode, _ := expected(x); mode == approve {
		want = append(want, "grant")
	}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("%+v: asked %v, want %v", x, asked, want)
		return false
	}
	return true
}

func (x situation) build() (*policy.Policy, *action.Session, *action.Action) {
	s := &action.Session{ID: "s1", CreatedBy: "u1", Task: "T-1", Automation: "a1"}
	a := &action.Action{Source: "s", Name: "act", Risk: x.risk, Hash: "now", Review: x.review, Hashes: action.ToolHashes{Behaviour: "b", Text: "t"}}
	key := a.Key()
	rules := action.Rules{Settings: action.Settings{SelfApproval: true}, Reviewed: map[action.Key]action.ToolHashes{}}
	x.connect(&rules, s, a)
	if x.automation != none {
		rules.Overrides = append(rules.Overrides, action.Override{Automation: "a1", Key: key, Mode: x.automation})
	}
	if x.organization != none {
		rules.Overrides = append(rules.Overrides, action.Override{Key: key, Mode: x.organization})
	}
	if x.event {
		s.Event = "e1"
	}
	switch x.ceiling {
	case "reaches":
		s.Group = "g"
		rules.Capabilities = []action.Capability{{Group: "g", Provider: "s", Level: 3, Gate: "G"}}
		rules.Gates = []action.GateApproval{{Group: "g", Task: "T-1", Gate: "G", ApprovedBy: "boss"}}
	case "short":
		s.Group = "g"
		rules.Capabilities = []action.Capability{{Group: "g", Provider: "s", Level: 3, Gate: "G", DeniedActions: []string{"act"}}}
		rules.Gates = []action.GateApproval{{Group: "g", Task: "T-1", Gate: "G", ApprovedBy: "boss"}}
	}
	switch x.tool {
	case "reviewed":
		rules.Reviewed[key] = a.Hashes
	case "text":
		rules.Reviewed[key] = action.ToolHashes{Behaviour: "b", Text: "before"}
	case "changed":
		rules.Reviewed[key] = action.ToolHashes{Behaviour: "before", Text: "t"}
	}
	return policy.New(rules), s, a
}

func (x situation) connect(rules *action.Rules, s *action.Session, a *action.Action) {
	if x.connection == "" {
		return
	}
	a.Provider, a.OneConnection = a.Source, true
	one := action.Integration{ID: "i1", Name: "one", Provider: "s", Status: action.IntegrationActive}
	other, broken := one, one
	other.ID, broken.Status = "i2", action.IntegrationExpired
	switch x.connection {
	case "none":
		s.Connections, rules.Integrations = []string{"i2"}, []action.Integration{one}
	case "dead":
		s.Connections, rules.Integrations = []string{"i1"}, []action.Integration{broken, other}
	case "one":
		s.Connections, rules.Integrations = []string{"i1"}, []action.Integration{one, other}
	case "several":
		s.Connections, rules.Integrations = []string{"i1", "i2"}, []action.Integration{one, other}
	}
}

func (x situation) grants() []action.Grant {
	scope, kind, _ := strings.Cut(x.grant, " ")
	if scope == "" {
		return nil
	}
	g := action.Grant{ID: "g1", CreatedBy: "u2", Terms: action.Terms{Scope: action.GrantScope(scope), Source: "s", Action: "act"}}
	if scope == "session" {
		g.Session = "s1"
	}
	switch kind {
	case "any":
		g.Any, g.Action = true, ""
	case "hash":
		g.ToolHash = "now"
	case "other hash":
		g.ToolHash = "before"
	}
	return []action.Grant{g}
}
