package policy_test

import (
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/policy"
)

func TestDrift(t *testing.T) {
	reviewed := action.ToolHashes{Behaviour: "b1", Text: "t1"}
	as := func(behaviour, text string) action.ToolHashes {
		return action.ToolHashes{Behaviour: behaviour, Text: text}
	}
	const trust, strict, required = action.ReviewTrust, action.ReviewStrict, action.ReviewRequired
	for _, tt := range []struct {
		name   string
		review action.ReviewRule
		now    action.ToolHashes
		unseen bool        // the tool is not in the reviewed list
		before action.Mode // what the organization says
		want   action.Mode
		by     action.Layer
		says   string // of the drift; empty: it is not asked
	}{
		{name: "not a connector's", now: as("b2", "t2"), unseen: true, before: allow, want: allow, by: action.LayerOrganization},
		{name: "as reviewed", review: trust, now: reviewed, before: allow, want: allow, by: action.LayerOrganization, says: "since its review or first listing"},
		{name: "as reviewed, strict", review: strict, now: reviewed, before: allow, want: allow, by: action.LayerOrganization, says: "since its review or first listing"},
		{name: "as reviewed, required", review: required, now: reviewed, before: allow, want: allow, by: action.LayerOrganization, says: "since its review or first listing"},

		{name: "changed", review: trust, now: as("b2", "t1"), before: allow, want: approve, by: action.LayerDrift, says: "The tool changed since the review, so a person must approve each call"},
		{name: "changed, strict", review: strict, now: as("b2", "t1"), before: allow, want: approve, by: action.LayerDrift, says: "changed"},
		{name: "changed, required", review: required, now: as("b2", "t1"), before: allow, want: deny, by: action.LayerDrift, says: "changed since the review, and its connector requires a review before any call"},
		{name: "changed, was approved", review: trust, now: as("b2", "t1"), before: approve, want: approve, by: action.LayerOrganization, says: "changed"},
		{name: "changed, was approved, required", review: required, now: as("b2", "t1"), before: approve, want: deny, by: action.LayerDrift, says: "changed"},
		{name: "changed, was denied", review: trust, now: as("b2", "t1"), before: deny, want: deny, by: action.LayerOrganization, says: "stays denied"},
		{name: "changed, was denied, required", review: required, now: as("b2", "t1"), before: deny, want: deny, by: action.LayerOrganization, says: "stays denied"},

		{name: "text changed", review: trust, now: as("b1", "t2"), before: allow, want: allow, by: action.LayerOrganization, says: "its texts changed, which this connector ignores"},
		{name: "text changed, strict", review: strict, now: as("b1", "t2"), before: allow, want: approve, by: action.LayerDrift, says: "The tool's texts changed since the review, so"},
		{name: "text changed, required", review: required, now: as("b1", "t2"), before: allow, want: deny, by: action.LayerDrift, says: "texts changed"},

		{name: "new", review: trust, now: reviewed, unseen: true, before: allow, want: approve, by: action.LayerDrift, says: "The tool has not been reviewed"},
		{name: "new, strict", review: strict, now: reviewed, unseen: true, before: allow, want: approve, by: action.LayerDrift, says: "The tool has not been reviewed"},
		{name: "new, required", review: required, now: reviewed, unseen: true, before: allow, want: deny, by: action.LayerDrift, says: "The tool has not been reviewed"},
		{name: "new, a read", review: trust, now: reviewed, unseen: true, before: none, want: approve, by: action.LayerDrift, says: "The tool has not been reviewed"},
		{name: "new without hashes", review: trust, now: as("", ""), unseen: true, before: allow, want: approve, by: action.LayerDrift, says: "The tool has not been reviewed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Others of the same connector, and the same tool of another one,
			// were reviewed as they are.
			rules := action.Rules{Reviewed: map[action.Key]action.ToolHashes{{Source: "c", Action: "other"}: tt.now, {Source: "d", Action: "act"}: tt.now}}
			if !tt.unseen {
				rules.Reviewed[action.Key{Source: "c", Action: "act"}] = reviewed
			}
			if tt.before != none {
				rules.Overrides = overrides(t, nil, map[string]action.Mode{"c:act": tt.before})
			}
			d := policy.New(rules).Decide(noon, &action.Session{}, &action.Action{Source: "c", Name: "act", Risk: "read", Hashes: tt.now, Review: tt.review})
			if d.Mode != tt.want || d.Source != tt.by {
				t.Errorf("%s by %s, want %s by %s", d.Mode, d.Source, tt.want, tt.by)
			}
			last := d.Steps[len(d.Steps)-1]
			if tt.says == "" {
				if last.Layer == action.LayerDrift {
					t.Errorf("drift was asked: %q", last.Note)
				}
				return
			}
			if last.Layer != action.LayerDrift || !strings.Contains(last.Note, tt.says) || (last.Mode != none) != (tt.by == action.LayerDrift) {
				t.Errorf("the last step is %+v, want %q", last, tt.says)
			}
		})
	}
}

// A ceiling's denial tells of drift too, so that whoever explains it sees all
// that stands in the way.
func TestDriftUnderACeiling(t *testing.T) {
	d := policy.New(action.Rules{}).Decide(noon, &action.Session{Group: "g"}, &action.Action{Source: "c", Name: "act", Risk: "read", Review: action.ReviewTrust})
	if d.Mode != deny || d.Source != action.LayerCeiling || len(d.Steps) != 2 || !strings.HasSuffix(d.Steps[1].Note, "and stays denied.") {
		t.Errorf("got %+v", d)
	}
}

// A tool that changed counts with the worse of the risks that it has and had,
// until somebody reviewed it.
func TestDriftedToolIsAsRiskyAsItWas(t *testing.T) {
	was := action.ToolHashes{Behaviour: "b1", Text: "t1"}
	key := action.Key{Source: "c", Action: "act"}
	for _, tt := range []struct {
		name      string
		then, now action.Risk
		hashes    action.ToolHashes
		group     bool // of level write
		want      action.Mode
		by        action.Layer
	}{
		{name: "a danger that calls itself a read", then: "danger", now: "read", hashes: behaves("b2"), want: deny, by: action.LayerInferred},
		{name: "a danger that says nothing any more", then: "danger", now: "write", hashes: behaves("b2"), want: deny, by: action.LayerInferred},
		{name: "a danger under a ceiling", then: "danger", now: "read", hashes: behaves("b2"), group: true, want: deny, by: action.LayerCeiling},
		{name: "a write that calls itself a read", then: "write", now: "read", hashes: behaves("b2"), want: approve, by: action.LayerInferred},
		{name: "a read that became a danger", then: "read", now: "danger", hashes: behaves("b2"), want: deny, by: action.LayerInferred},
		{name: "reviewed as milder", then: "danger", now: "read", hashes: was, want: allow, by: action.LayerInferred},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := policy.New(action.Rules{
				Reviewed: map[action.Key]action.ToolHashes{key: was}, Risks: map[action.Key]action.Risk{key: tt.then},
				Capabilities: []action.Capability{{Group: "g", Provider: "c", Level: action.LevelWrite}},
			})
			s, a := &action.Session{}, &action.Action{Source: "c", Name: "act", Risk: tt.now, Hashes: tt.hashes, Review: action.ReviewTrust}
			if tt.group {
				s.Group = "g"
			}
			if d := p.Decide(noon, s, a); d.Mode != tt.want || d.Source != tt.by {
				t.Errorf("%s by %s, want %s by %s", d.Mode, d.Source, tt.want, tt.by)
			}
			if a.Risk != tt.now {
				t.Error("the action that was given is written to")
			}
		})
	}
}

func behaves(behaviour string) action.ToolHashes {
	return action.ToolHashes{Behaviour: behaviour, Text: "t1"}
}
