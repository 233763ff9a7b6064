package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxTitle        = 120      // characters of the name of an automation, a trigger or a schedule
	maxName         = 200      // bytes of other names
	maxInstructions = 64 << 10 // bytes
	maxConfig       = 16 << 10 // bytes of a trigger's filters
	maxPoll         = 86_400   // seconds between two polls
)

// Invalid is the error of a Check, with the API's error code.
type Invalid struct{ code, field, message string }

func (e *Invalid) Error() string { return e.code + ": " + e.message }

// Details implements action.FieldError.
func (e *Invalid) Details() (code, field, message string) { return e.code, e.field, e.message }

func invalid(field, message string) error { return &Invalid{"invalid", field, message} }

// invalidField is invalid with the API's code for a field of a body.
func invalidField(field, message string) error { return &Invalid{"invalid_field", field, message} }

// Check validates the automation.
func (a *Automation) Check() error {
	if err := checkTitle("automation", a.Name); err != nil {
		return err
	}
	if len(a.Instructions) > maxInstructions || !utf8.ValidString(a.Instructions) || strings.ContainsRune(a.Instructions, 0) {
		return invalidField("/instructions", fmt.Sprintf("instructions must be text of at most %d bytes.", maxInstructions))
	}
	return nil
}

// checkTitle refuses names that look alike in lists or that look like
// patterns.
func checkTitle(thing, name string) error {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxTitle || !isLiteral(name) {
		return invalid("/name", fmt.Sprintf("The name of the %s has 1 to %d characters, no control characters and no *.", thing, maxTitle))
	}
	return nil
}

// isLiteral reports whether a name is one line of text without wildcards.
func isLiteral(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '*' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// Check validates the trigger, except whether its filters match the
// provider's schema, and compacts the filters.
func (t *Trigger) Check() error {
	polls := t.Kind == Polling
	switch {
	case !polls && t.Kind != Webhooks:
		return invalid("/trigger_type", "trigger_type must be webhook or polling.")
	case t.Provider == "" || len(t.Provider) > maxName || !isLiteral(t.Provider):
		return invalid("/provider", "Name the provider.")
	case t.Type == "" || len(t.Type) > maxName || !isLiteral(t.Type):
		return invalid("/event_type", "Name the type.")
	case polls && t.Integration == "":
		return invalid("/integration_id", "A polling trigger needs an integration. Name one.")
	case polls && (t.PollSeconds < 1 || t.PollSeconds > maxPoll):
		return invalid("/interval_seconds", fmt.Sprintf("The polling interval must be 1 to %d seconds.", maxPoll))
	case !polls && t.PollSeconds != 0:
		return invalidField("/interval_seconds", "A webhook is not polled; leave interval_seconds out, or set trigger_type to polling.")
	}
	if err := checkTitle("trigger", t.Name); err != nil {
		return err
	}
	return t.compactConfig()
}

func (t *Trigger) compactConfig() error {
	if len(t.Config) == 0 {
		t.Config = json.RawMessage("{}")
	}
	var short bytes.Buffer
	if json.Compact(&short, t.Config) != nil || short.Bytes()[0] != '{' {
		return invalidField("/config", "config must be a JSON object that fits the type's config_schema.")
	}
	if short.Len() > maxConfig || !utf8.Valid(short.Bytes()) {
		return invalid("/config", fmt.Sprintf("The filters of a trigger are a JSON object of at most %d bytes.", maxConfig))
	}
	t.Config = short.Bytes()
	return nil
}

// Check validates the schedule, except whether the expression has due times:
// the caller sets the next one. It clears the next time of a disabled
// schedule.
func (s *Schedule) Check() error {
	// The default name is the cron expression, so * is allowed here.
	if err := checkTitle("schedule", strings.ReplaceAll(s.Name, "*", "x")); err != nil {
		return err
	}
	switch {
	case s.Cron == "" || !isOneLine(s.Cron):
		return invalid("/cron_expression", fmt.Sprintf("A schedule needs a cron expression of at most %d bytes.", maxName))
	case s.TimeZone == "" || !isOneLine(s.TimeZone):
		return invalid("/timezone", `A schedule needs the name of a time zone, such as "UTC" or "Europe/Berlin".`)
	case s.Missed != MissedOnce && s.Missed != MissedSkip:
		return invalid("/missed", "missed must be once or skip.")
	}
	if !s.Enabled {
		s.NextAt = nil
	}
	return nil
}

func isOneLine(text string) bool {
	return len(text) <= maxName && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
