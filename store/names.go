package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"sallyport/action"
)

const (
	maxName       = 200  // bytes of the name of a group, task, gate or source
	maxActionName = 128  // bytes of an action's name
	maxActions    = 1000 // names in one list of policy
)

// checkName refuses a name of a thing that people could not read, or would
// take for a pattern.
func checkName(field, thing, name string) error {
	if name == "" {
		return invalid(field, fmt.Sprintf("Name the %s.", thing))
	}
	if len(name) > maxName || !plain(name) {
		return invalid(field, fmt.Sprintf("The name of the %s has at most %d bytes, no control characters and no *.", thing, maxName))
	}
	return nil
}

// plain reports whether a name is a line of text that means just itself.
func plain(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '*' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// checkActions refuses a list that does not consist of exact action names.
func checkActions(field string, names []string) error {
	if len(names) > maxActions {
		return invalid(field, fmt.Sprintf("A list has at most %d actions; leave some out.", maxActions))
	}
	for i, name := range names {
		if name == "" || len(name) > maxActionName || !plain(name) {
			return invalid(fmt.Sprintf("%s/%d", field, i), fmt.Sprintf(
				"An action is named exactly, as its source names it: at most %d bytes, no control characters and no *.", maxActionName))
		}
	}
	return nil
}

// parseKey reads a policy key that somebody wrote.
func parseKey(field, text string) (action.Key, error) {
	key, err := action.ParseKey(text)
	var e *action.Error
	if errors.As(err, &e) {
		there := *e
		there.Field = field
		return key, &there
	}
	every := func(part string) bool { return part == "*" } // ParseKey sees to where one may stand
	if len(key.Source) > maxName || len(key.Action) > maxActionName || !every(key.Source) && !plain(key.Source) || !every(key.Action) && !plain(key.Action) {
		return key, invalid(field, fmt.Sprintf(
			"The source of a policy key has at most %d bytes, its action %d, and neither has control characters.", maxName, maxActionName))
	}
	return key, nil
}

// checkKey refuses a key that is not the one that its text means.
func checkKey(field string, key action.Key) error {
	parsed, err := parseKey(field, key.String())
	if err == nil && parsed != key {
		err = invalid(field, "The action of a policy key has no colon: the key is split at its last one.")
	}
	return err
}

// first returns the first of the errors that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkFuture refuses an end that would be over at once.
func checkFuture(ends *time.Time, now time.Time) error {
	if ends != nil && !now.Before(*ends) {
		return invalid("/expires_at", "This time is over; give one in the future, or leave it out.")
	}
	return nil
}

// checkRate refuses a rate that lets nothing through, or has no window.
func checkRate(at string, r action.Rate) error {
	switch {
	case r.Calls < 1:
		return invalid(at+"/calls", "A rate is of at least one call.")
	case r.Seconds < 1 || r.Seconds > 86_400:
		return invalid(at+"/seconds", "The window of a rate is 1 to 86400 seconds.")
	}
	return nil
}

// checkTimeout refuses a time for a call that no source is given.
func checkTimeout(seconds int) error {
	if most := int(action.MaxTimeout / time.Second); seconds < 0 || seconds > most {
		return invalid("/timeout_seconds", fmt.Sprintf("A call is given 1 to %d seconds; 0 for the usual time.", most))
	}
	return nil
}

// checkSource refuses a connector that does not exist: it might come to exist
// later, with other tools than were meant. Modules cannot be told from typing
// errors here; a rule for none of them is of no effect.
func checkSource(ctx context.Context, tx bun.Tx, organization, source string) error {
	id, ok := strings.CutPrefix(source, "connector:")
	if !ok {
		return nil
	}
	_, err := connectorRowOf(ctx, tx, organization, id)
	return err
}
