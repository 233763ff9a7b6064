package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/canonical"
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

// call is a call that needs a grant.
type call struct {
	now          time.Time
	session      *action.Session
	action       *action.Action
	params       []byte
	drifted      bool
	noSelfGrants bool // grants of the session's creator do not count
}

// appliesTo reports whether the grant is for calls like this one: its scope
// includes the session, and it names the action or covers any.
func (w *call) appliesTo(g *action.Grant) bool {
	if g.Organization != w.session.Organization {
		return false
	}
	switch g.Scope {
	case action.ScopeOrganization:
	case action.ScopeSession:
		if g.Session != w.session.ID {
			return false
		}
	default:
		return false
	}
	if g.Any {
		return g.Source == "" || g.Source == w.action.Source
	}
	return g.Source == w.action.Source && g.Action == w.action.Name
}

// mismatch returns why a grant for such calls does not cover this one; empty
// if it does.
func (w *call) mismatch(g *action.Grant) string {
	if why := w.inactiveReason(g); why != "" {
		return why
	}
	switch {
	case w.noSelfGrants && g.CreatedBy == w.session.CreatedBy:
		return "was created by the session's creator, who cannot approve its calls"
	case w.session.Event != "" && g.Scope != action.ScopeSession:
		return "is for all sessions, but a session started by an inbound event needs its own"
	case g.Any && w.action.Risk.Level() >= action.LevelProduction:
		return "does not cover dangerous actions"
	case w.action.Danger != "":
		return "does not cover this call, because " + printable(w.action.Danger)
	case w.action.NoGrant != "":
		return "does not cover this call, because " + printable(w.action.NoGrant)
	case w.drifted && (g.Any || g.ToolHash == ""):
		return "does not cover the current version of the tool, which is not reviewed"
	case g.ToolHash != "" && g.ToolHash != w.action.Hash:
		return "was created for another definition of the action"
	}
	return w.pinMismatch(g)
}

// inactiveReason returns why the grant cannot cover any call; empty if it
// can.
func (w *call) inactiveReason(g *action.Grant) string {
	switch {
	case g.Usable(w.now):
		return ""
	case g.RevokedAt != nil:
		return "was revoked"
	case expired(g.ExpiresAt, w.now):
		return "expired on " + g.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return "is used up"
}

// pinMismatch returns which pinned param has another value in the call; empty
// if none has.
func (w *call) pinMismatch(g *action.Grant) string {
	for _, pointer := range slices.Sorted(maps.Keys(g.Pins)) {
		if value := canonical.At(w.params, pointer); value == nil || !bytes.Equal(value, g.Pins[pointer]) && !w.matchesPattern(pointer, value, g.Pins[pointer]) {
			return "is pinned to another value at " + printable(pointer)
		}
	}
	return ""
}

// matchesPattern reports whether the param may be pinned to a pattern, and matches
// it.
func (w *call) matchesPattern(pointer string, value, pin []byte) bool {
	var text, pattern string
	return slices.Contains(w.action.PinPatterns, pointer) && json.Unmarshal(value, &text) == nil && json.Unmarshal(pin, &pattern) == nil && action.MatchTool(pattern, text)
}
