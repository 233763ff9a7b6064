package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/policy"
)

// edits is one tool of a connector and everything that was ever said of it,
// beside what each saying was about.
type edits struct {
	roll  dice
	rules action.Rules
	tool  action.Action
	log   []string

	reviewed *action.ToolHashes // what a person, or the first list, took as good
	grants   []action.Grant
	made     map[string]action.ToolHashes // what each exact grant was made for
	held     *approved
}

// approved is a call that a person approved, as it was then.
type approved struct {
	hash string
	seen action.ToolHashes
}

// counts tells whether two definitions are the same as far as texts count.
func (e *edits) counts(x, y action.ToolHashes) bool {
	return x.Behaviour == y.Behaviour && (x.Text == y.Text || e.tool.Review == action.ReviewTrust)
}

// step changes one thing, as an upstream, an admin or an approver would.
func (e *edits) step() {
	key := e.tool.Key()
	act := e.roll(9)
	switch act {
	case 0, 1: // the upstream, which may also change it back
		e.tool.Hashes = someHashes(e.roll)
	case 2: // an admin reviews it as it is
		e.reviewed = new(e.tool.Hashes)
	case 3: // the connector moves to another address
		e.reviewed = nil
	case 4:
		e.tool.Review = pick(e.roll, action.ReviewTrust, action.ReviewStrict, action.ReviewRequired)
	case 5:
		e.rules.Overrides = []action.Override{{Key: pick(e.roll, key, action.Key{Source: key.Source, Action: "*"}), Mode: pick(e.roll, allow, allow, approve, deny)}}
	case 6: // a grant for the tool as it is, or for any
		g := action.Grant{ID: fmt.Sprint("g", len(e.grants)), CreatedBy: "u2", Terms: action.Terms{Scope: action.ScopeOrganization, Source: key.Source, Action: key.Action}, ToolHash: e.tool.Hash}
		if e.roll(2) == 0 {
			g.Terms, g.ToolHash = action.Terms{Scope: action.ScopeOrganization, Any: true}, ""
		} else {
			e.made[g.ID] = e.tool.Hashes
		}
		e.grants = append(e.grants, g)
	case 7: // a call is held, and approved for what is seen
		e.held = &approved{e.tool.Hash, e.tool.Hashes}
	case 8:
		e.tool.Risk = pick(e.roll, action.RiskRead, "write", "danger")
	}
	e.tool.Hash = hashOf(&e.tool)
	e.rules.Reviewed = map[action.Key]action.ToolHashes{}
	if e.reviewed != nil {
		e.rules.Reviewed[key] = *e.reviewed
	}
	e.log = append(e.log, fmt.Sprintf("%d: %s %s %v %v", act, e.tool.Review, e.tool.Risk, e.tool.Hashes, e.reviewed))
}

// noEditsLetADriftedToolRun plays edits in any order. After each, a tool that
// is not as it was reviewed runs only by what was made for it as it is; one
// that the organization denies stays denied.
func noEditsLetADriftedToolRun(t *testing.T, roll dice) {
	e := &edits{roll: roll, made: map[string]action.ToolHashes{}}
	e.tool = action.Action{Source: "c", Name: "act", Risk: "read", Review: action.ReviewTrust, Hashes: action.ToolHashes{Behaviour: "b1", Text: "t1"}}
	e.tool.Hash = hashOf(&e.tool)
	s := &action.Session{ID: "s1", CreatedBy: "u1"}
	for range 30 {
		e.step()
		p := policy.New(e.rules)
		d := p.Decide(noon, s, &e.tool)
		drifted := e.reviewed == nil || !e.counts(*e.reviewed, e.tool.Hashes)
		if e.held != nil && e.held.hash == e.tool.Hash && d.Mode != deny && !e.counts(e.held.seen, e.tool.Hashes) {
			t.Errorf("a call runs that was approved for %v: %s", e.held.seen, e.story())
		}
		if o := e.rules.Overrides; len(o) == 1 && o[0].Mode == deny && (d.Mode != deny || d.Source != action.LayerOrganization) {
			t.Errorf("a denied tool is %s by %s: %s", d.Mode, d.Source, e.story())
		}
		d = p.WithGrants(noon, d, s, &e.tool, []byte(`{}`), e.grants)
		if !drifted || d.Mode != allow {
			continue
		}
		if e.tool.Review == action.ReviewRequired || len(d.Grants) == 0 {
			t.Errorf("a drifted tool runs by %s: %s", d.Source, e.story())
		}
		for _, id := range d.Grants {
			if was, ok := e.made[id]; !ok || !e.counts(was, e.tool.Hashes) {
				t.Errorf("a drifted tool runs by grant %s, made for %v: %s", id, was, e.story())
			}
		}
	}
}

func (e *edits) story() string { return "\n" + strings.Join(e.log, "\n") }
