package action

import (
	"cmp"
	"strings"
)

// Denied says why calls are denied for a reason: as a sentence for people, and
// in lists as who or what settled them.
func Denied(reason string) (sentence, by string) {
	switch reason {
	case DeniedHuman:
		return "Denied by a person.", "a person"
	case DeniedRepeated:
		return "Refused: the same call was denied a short while ago.", "same call was denied before"
	case DeniedOften:
		return "Refused: people denied this action again and again in this session.", "denied too often here"
	case DeniedWithdrawn:
		return "Withdrawn: its caller cancelled or left.", "withdrawn"
	case DeniedQuota:
		return "Refused: the session was at a limit of the gateway.", "a limit of the session"
	}
	return "Denied by policy.", "policy"
}

// Refusal tells an agent that its call was denied, why, and what to do. holds is
// how long a person's denial refuses the same call.
func (inv *Invocation) Refusal(holds string) string {
	note, why := "", ""
	if inv.DeniedNote != "" {
		why = " " + sentence(inv.DeniedNote)
		note = " Reason given:" + why
	}
	what, next := "", ""
	switch inv.DeniedReason {
	case DeniedHuman:
		what, next = "was denied by a person", "Do not repeat this call: for "+holds+" it is refused without asking again."
	case DeniedRepeated:
		what, next = "was refused without asking again, since a person denied the same call a short while ago", "Do not repeat it or look for a way around it; tell the user."
	case DeniedOften:
		note = cmp.Or(why, " People denied it again and again. Go on without it and tell the user.")
		what, next = "is refused in this session from now on, whatever its arguments", "Do not call it again."
	case DeniedWithdrawn:
		what, next = "was withdrawn before a person decided", "Call again only if it is still needed."
		note = cmp.Or(note, " Its caller cancelled or left.")
	case DeniedQuota:
		what, next = "was not done, since this session is at a limit of the gateway", "The same call may be made again then."
	default:
		layer := Layer("")
		if note = why; inv.Mode == ModeDeny { // otherwise it was held, and the layer is the one that held it
			layer = inv.ModeSource
		}
		what, next = "is denied by policy", "Do not repeat it; tell the user, for "+remedy(layer)+"."
		if layer != "" {
			what += " (layer: " + string(layer) + ")"
		}
	}
	return inv.name() + " " + what + "; nothing was executed." + note + " " + next
}

// remedy is what it takes for a denied action to be possible.
func remedy(layer Layer) string {
	switch layer {
	case LayerCeiling:
		return "only people can give this session what it lacks"
	case LayerDrift:
		return "an admin can review the tool"
	}
	return "an admin can change the policy"
}

func (inv *Invocation) name() string { return cmp.Or(inv.SourceName, inv.Source) + " " + inv.Action }

// sentence ends s as a sentence ends.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") {
		return s
	}
	return s + "."
}
