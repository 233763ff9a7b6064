package policy

import (
	"slices"
	"time"

	"sallyport/action"
)

// own denies tools of the gateway's own in sessions that they are not for. It is a
// ceiling: what a session was made for is not changed by policy. Groups have no
// capabilities at the gateway itself, so that it is the only one.
func (p *Policy) own(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if a.Own == nil {
		return action.Step{}
	}
	step := action.Step{Layer: action.LayerCeiling, Mode: action.ModeDeny}
	switch {
	case s.ID == "" && s.Type == "": // it stands for any session
		step.Mode, step.Note = "", "It depends on the session whether it has this tool."
	case a.Own.OfRun && !s.OfRun():
		step.Note = shown(a.Name) + " is for sessions that work on an automation's run, and this one does not."
	case a.Own.Types != nil && !slices.Contains(a.Own.Types, s.Type):
		step.Note = shown(a.Name) + " is for sessions of type " + each(a.Own.Types, typeName) + ", and this one is of type " + string(s.Type) + "."
	default:
		step.Mode, step.Note = "", "It acts on this gateway alone, and the session is one that has it."
	}
	return step
}

func typeName(t action.SessionType) string { return string(t) }
