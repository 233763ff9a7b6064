package action

import (
	"fmt"
	"time"
)

// Check refuses a session that policy could not name or that could not begin,
// and fills in kind, type and status.
func (s *Session) Check() error {
	err := first(
		checkOptional("/group", "group", s.Group), checkOptional("/task", "task", s.Task),
		checkOptional("/automation_id", "automation", s.Automation), checkOptional("/event_id", "event", s.Event),
	)
	if err != nil {
		return err
	}
	if s.Kind == "" {
		s.Kind = Interactive
		if s.Automation != "" {
			s.Kind = Unattended
		}
	}
	if s.Type == "" {
		s.Type = TypeCoding
	}
	if s.Status == "" {
		s.Status = SessionPending
	}
	switch {
	case s.Group == PlainSetup:
		return invalid("/group", fmt.Sprintf("No group is called %q: it is the setup of sessions without a group. Leave the group out, or choose another name.", s.Group))
	case s.Kind != Interactive && s.Kind != Unattended:
		return invalid("/kind", "A session is interactive or unattended.")
	case s.Kind == Interactive && s.Automation != "":
		return invalidField("/kind", "A session of an automation is unattended; leave out kind.")
	case s.Type != TypeCoding && s.Type != TypeSetup && s.Type != TypeAutomation:
		return invalid("/type", "A session's type is coding, setup or automation.")
	case s.Status.Ended() || !s.Status.Valid():
		return invalid("/status", "A session begins pending, running or paused.")
	case !s.Tools.Valid():
		return invalid("/tools", "A session's list of tools is all or search.")
	}
	return CheckIdle(s.IdleTimeout)
}

// CheckIdle refuses an idle timeout that no session has.
func CheckIdle(d time.Duration) error {
	if d < 0 && d != NeverIdle || d > 0 && d%time.Second != 0 {
		return invalid("/idle_timeout", "An idle timeout is whole seconds above zero.")
	}
	return nil
}
