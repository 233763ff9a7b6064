package policy

import (
	"slices"
	"time"

	"sallyport/action"
)

// platformTool denies the gateway's own tools in sessions of other types. It
// is a ceiling: policy cannot change the purpose of a session. Groups have no
// capabilities at the gateway, so no other ceiling applies.
func (p *Policy) platformTool(_ time.Time, s *action.Session, a *action.Action) action.Step {
	if a.Platform == nil {
		return action.Step{}
	}
	step := action.Step{Layer: action.LayerCeiling, Mode: action.ModeDeny}
	switch {
	case s.ID == "" && s.Type == "": // a placeholder for any session
		step.Mode, step.Note = "", "Whether the session has this tool depends on its type and run."
	case a.Platform.RunsOnly && !s.ForRun():
		step.Note = printable(a.Name) + " is only for sessions of automation runs."
	case a.Platform.SessionTypes != nil && !slices.Contains(a.Platform.SessionTypes, s.Type):
		step.Note = printable(a.Name) + " is only for sessions of type " + joinNames(a.Platform.SessionTypes, typeName) + "; this session is of type " + string(s.Type) + "."
	default:
		step.Mode, step.Note = "", "It affects only this gateway and is available to this session."
	}
	return step
}

func typeName(t action.SessionType) string { return string(t) }
