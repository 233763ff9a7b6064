package policy

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/internal/canonical"
)

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
		if value := canonical.At(w.params, pointer); value == nil || !bytes.Equal(value, g.Pins[pointer]) {
			return "is pinned to another value at " + printable(pointer)
		}
	}
	return ""
}
