package action

import (
	"fmt"
	"time"
)

// Check refuses a mode, or a key, that does not exist.
func (o *Override) Check() error {
	if !o.Mode.Valid() {
		return invalid("/mode", "A mode is allow, deny or require_approval.")
	}
	return first(checkOptional("/automation_id", "automation", o.Automation), o.Key.check("/key"))
}

// check refuses a key that is not the one that its text means.
func (k Key) check(field string) error {
	parsed, err := checkedKey(field, k.String())
	if err == nil && parsed != k {
		err = invalid(field, "The action of a policy key has no colon: the key is split at its last one.")
	}
	return err
}

// checkedKey reads a policy key that somebody wrote into a field.
func checkedKey(field, text string) (Key, error) {
	key, err := ParseKey(text)
	if err != nil {
		there := *Public(err)
		there.Field = field
		return key, &there
	}
	every := func(part string) bool { return part == "*" } // ParseKey checks where one may stand
	if len(key.Source) > maxName || len(key.Action) > maxActionName || !every(key.Source) && !literal(key.Source) || !every(key.Action) && !literal(key.Action) {
		return key, invalid(field, fmt.Sprintf(
			"The source of a policy key has at most %d bytes, its action %d, and neither has control characters.", maxName, maxActionName))
	}
	return key, nil
}

// check refuses a rate that lets nothing through, or has no window.
func (r Rate) check(at string) error {
	switch {
	case r.Calls < 1:
		return invalid(at+"/calls", "A rate is of at least one call.")
	case r.Seconds < 1 || r.Seconds > 86_400:
		return invalid(at+"/seconds", "The window of a rate is 1 to 86400 seconds.")
	}
	return nil
}

// Check refuses a quota that counts nothing.
func (q *Quota) Check() error {
	if !q.Per.Valid() {
		return invalid("/per", "A quota counts per session, group, creator or organization.")
	}
	return first(q.Key.check("/key"), q.Rate.check(""))
}

// Check refuses a capability that could not be used.
func (c *Capability) Check(now time.Time) error {
	switch {
	case !c.Level.Valid():
		return invalid("/level", "A level is 0 (none), 1 (read), 2 (write) or 3 (production).")
	case c.Level == LevelProduction && c.Gate == "":
		return invalid("/required_gate", "Level 3 (production) needs a gate that a person opens for each task; name one, such as Security.")
	}
	err := first(
		CheckName("/group", "group", c.Group), CheckName("/provider", "provider", c.Provider),
		checkActions("/allowed_actions", c.AllowedActions), checkActions("/denied_actions", c.DeniedActions),
		checkFuture(c.ExpiresAt, now), checkOptional("/required_gate", "gate", c.Gate),
	)
	if err != nil || c.Rate == nil {
		return err
	}
	return c.Rate.check("/rate")
}

// Check refuses an approval that opens nothing, and returns the keys of its
// actions; none: all that are behind the gate.
func (a *GateApproval) Check(now time.Time) (keys []Key, err error) {
	err = first(
		CheckName("/group", "group", a.Group), CheckName("/task", "task", a.Task), CheckName("/gate", "gate", a.Gate),
		checkFuture(a.ExpiresAt, now),
	)
	switch {
	case err != nil:
		return nil, err
	case a.Actions != nil && len(a.Actions) == 0:
		return nil, invalid("/actions", "Name the actions, or leave the list out for all that are behind the gate.")
	case len(a.Actions) > maxActions:
		return nil, invalid("/actions", fmt.Sprintf("An approval names at most %d actions; give several.", maxActions))
	}
	for i, text := range a.Actions {
		field := fmt.Sprintf("/actions/%d", i)
		if text == "*" {
			return nil, invalidField(field, "Name source:action or source:*; leave actions out for every action behind the gate.")
		}
		key, err := checkedKey(field, text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Check refuses settings that do not exist.
func (s *Settings) Check() error {
	if s.DenialLimit < 0 {
		return invalid("/denial_limit", "The limit of denials is at least 1; 0 for none.")
	}
	return nil
}
