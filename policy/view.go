package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
)

// View returns the properties of the session that decisions without params
// depend on: sessions with the same view get the same decisions. Names
// without rules are left out, and of a task only its approved gates count, so
// that many tasks share few views.
func (p *Policy) View(now time.Time, s *action.Session) string {
	var parts []string
	switch {
	case s.Automation == "":
	case len(p.automations[s.Automation]) == 0:
		parts = append(parts, "automation without overrides")
	default:
		parts = append(parts, "automation "+strconv.Quote(s.Automation))
	}
	if s.Type != "" && s.Type != action.TypeCoding {
		parts = append(parts, string(s.Type))
	}
	if s.ForRun() {
		parts = append(parts, "of a run")
	}
	if s.Event != "" {
		parts = append(parts, "event")
	}
	switch {
	case s.Group == "":
	case !p.groups[s.Group]:
		parts = append(parts, "group without capabilities")
	default:
		parts = append(parts, "group "+strconv.Quote(s.Group))
		parts = append(parts, p.openGates(now, s)...)
	}
	for _, id := range p.integrations.usable(s) {
		parts = append(parts, "connection "+strconv.Quote(id))
	}
	return strings.Join(parts, ", ")
}

// openGates returns the sorted approved gates of the session's task. Notes
// about other gates name the task, so the task itself counts once any gate is
// approved.
func (p *Policy) openGates(now time.Time, s *action.Session) []string {
	var open []string
	for at, approvals := range p.gates {
		if at.group != s.Group || at.task != s.Task || s.Task == "" {
			continue
		}
		for i, g := range approvals {
			if !expired(g.expiresAt, now) && (p.settings.SelfApproval || g.by != s.CreatedBy) {
				open = append(open, "gate "+strconv.Quote(at.name)+" by approval "+strconv.Itoa(i))
			}
		}
	}
	if len(open) > 0 {
		open = append(open, "task "+strconv.Quote(s.Task))
	}
	slices.Sort(open)
	return open
}
