package policy

import (
	"slices"
	"time"

	"sallyport/action"
)

// platformTool denies tools of the gateway's own in sessions that they are not for. It is a
// ceiling: what a session was made for is not changed by policy. Groups have no
// capabilities at the gateway itself, so that it is the only one.
func (p *Policy) platformTool(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if a.Platform == nil {
		return action.Step{}
	}
	step := action.Step{Layer: action.LayerCeiling, Mode: action.ModeDeny}
	switch {
	case s.ID == "" && s.Type == "": // it stands for any session
		step.Mode, step.Note = "", "It depends on the session whether it has this tool."
	case a.Platform.RunsOnly && !s.ForRun():
		step.Note = printable(a.Name) + " is for sessions that work on an automation's run, and this one does not."
	case a.Platform.SessionTypes != nil && !slices.Contains(a.Platform.SessionTypes, s.Type):
		step.Note = printable(a.Name) + " is for sessions of type " + joinNames(a.Platform.SessionTypes, typeName) + ", and this one is of type " + string(s.Type) + "."
	default:
		step.Mode, step.Note = "", "It acts on this gateway alone, and the session is one that has it."
	}
	return step
}

func typeName(t action.SessionType) string { return string(t) }
