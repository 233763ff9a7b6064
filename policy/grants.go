package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

// maxListedMisses is how many grants that do not cover a call are named in a
// step.
const maxListedMisses = 3

// WithGrants allows a call that needs approval if grants cover it, and adds
// their IDs to the decision in the given order. Params must be canonical.
// Other decisions are returned unchanged.
func (p *Policy) WithGrants(now time.Time, d action.Decision, s *action.Session, a *action.Action, params []byte, grants []action.Grant) action.Decision {
	if d.Mode != action.ModeRequireApproval {
		return d
	}
	found := p.drift(a)
	w := call{now: now, session: s, action: p.withReviewedRisk(a, found), params: params, drifted: found.drifted(), noSelfGrants: !p.settings.SelfApproval}
	var first *action.Grant
	var ids, misses []string
	for i := range grants {
		g := &grants[i]
		if !w.appliesTo(g) {
			continue
		}
		if why := w.mismatch(g); why != "" {
			misses = append(misses, "grant "+printable(g.ID)+" "+why)
			continue
		}
		if first == nil {
			first = g
		}
		ids = append(ids, g.ID)
	}
	step := action.Step{Layer: action.LayerGrant, Note: noGrantNote(misses)}
	if first != nil {
		d.Mode, d.Source, d.Grants = action.ModeAllow, action.LayerGrant, ids
		step.Mode, step.Note = d.Mode, grantNote(first, len(ids)-1)
	}
	d.Steps = append(slices.Clip(d.Steps), step) // callers may share the earlier steps
	return d
}

// grantNote names the grant that is used first, and the calls it has left.
func grantNote(g *action.Grant, others int) string {
	left := "and has no call limit"
	if g.MaxCalls != nil {
		left = fmt.Sprintf("and has %d of %d calls left", *g.MaxCalls-g.UsedCalls, *g.MaxCalls)
	}
	note := "Grant " + printable(g.ID) + " covers this call " + left
	switch others {
	case 0:
		return note + "."
	case 1:
		return note + "; one more grant also covers it."
	}
	return fmt.Sprintf("%s; %d more grants also cover it.", note, others)
}

// noGrantNote says why none of the grants for such calls covers this one.
func noGrantNote(misses []string) string {
	if len(misses) == 0 {
		return "No grant exists for this call."
	}
	more := ""
	if n := len(misses) - maxListedMisses; n > 0 {
		misses, more = misses[:maxListedMisses], fmt.Sprintf("; and %d more do not cover it", n)
	}
	return "No grant covers this call: " + strings.Join(misses, "; ") + more + "."
}
