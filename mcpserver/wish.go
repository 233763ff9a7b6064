package mcpserver

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
)

// Bounds of what an agent may ask a person to read.
const (
	maxReason   = 2000 // characters
	maxPins     = 20
	maxPinBytes = 8 << 10 // of all pins together
	mostCalls   = 1_000_000
	shortestFor = time.Minute
	longestFor  = 30 * 24 * time.Hour
)

// wish is what an agent asks for with grant_request.
type wish struct {
	tool, source string
	any          bool
	scope        action.GrantScope
	maxCalls     *int64
	lasts        time.Duration // zero: no expiry
	pins         map[string]json.RawMessage
	reason       string
}

// parseWish reads the arguments. Unlike the other tools it refuses what it does
// not know: a bound with a misspelt name would be none.
func parseWish(raw []byte) (*wish, error) {
	w := &wish{scope: action.ScopeSession}
	seen := map[string]bool{}
	m := members{text: raw}
	for m.next() {
		name := string(m.key)
		if seen[name] {
			return nil, badArgument(name, "It is given twice.")
		}
		seen[name] = true
		if isNull(m.value) {
			continue // what some models write for an argument that they leave out
		}
		if err := w.take(name, m.value); err != nil {
			return nil, err
		}
	}
	return w, w.whole()
}

// whole refuses a wish that names nothing, or two things.
func (w *wish) whole() error {
	switch {
	case w.any && w.tool != "":
		return badArgument("any", "Give tool or any, not both.")
	case !w.any && w.tool == "":
		return badArgument("tool", "Name the tool, as it is listed; or say any: true for all that are not dangerous.")
	case !w.any && w.source != "":
		return badArgument("source", "It goes with any; a tool is of one service anyway.")
	}
	return nil
}

func (w *wish) take(name string, value []byte) (err error) {
	switch name {
	case "tool":
		w.tool, err = wishText(name, value)
	case "source":
		w.source, err = wishText(name, value)
	case "any":
		if w.any = string(value) == "true"; !w.any && string(value) != "false" {
			return badArgument(name, "It must be true or false.")
		}
	case "scope":
		text, _ := wishText(name, value)
		if w.scope = action.GrantScope(text); !w.scope.Valid() {
			return badArgument(name, "It must be session or organization.")
		}
	case "max_calls":
		var n int64
		n, err = wishNumber(name, value, 1, mostCalls)
		w.maxCalls = &n
	case "expires_in_seconds":
		var n int64
		n, err = wishNumber(name, value, int64(shortestFor.Seconds()), int64(longestFor.Seconds()))
		w.lasts = time.Duration(n) * time.Second
	case "pins":
		w.pins, err = wishPins(value)
	case "reason":
		w.reason, err = wishReason(value)
	default:
		return badArgument(cut(name, 64), "There is no such argument. Those that there are: tool, any, source, scope, max_calls, expires_in_seconds, pins, reason.")
	}
	return err
}

func wishText(name string, value []byte) (string, error) {
	if !isString(value) {
		return "", badArgument(name, "It must be a string.")
	}
	return decodeString(value), nil
}

func wishNumber(name string, value []byte, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < least || n > most {
		return 0, badArgument(name, "It must be a whole number from %d to %d.", least, most)
	}
	return n, nil
}

func wishPins(value []byte) (map[string]json.RawMessage, error) {
	if !isObject(value) {
		return nil, badArgument("pins", `It must be an object of JSON Pointers and values, such as {"/channel": "C042"}.`)
	}
	if len(value) > maxPinBytes {
		return nil, badArgument("pins", "A person cannot read %d bytes; pin fewer or smaller values, of %d bytes in all.", len(value), maxPinBytes)
	}
	pins := map[string]json.RawMessage{}
	m := members{text: value}
	for m.next() {
		pointer := string(m.key)
		if _, ok := pins[pointer]; ok {
			return nil, badArgument("pins", "The pointer %q is given twice.", cut(pointer, 64))
		}
		pins[pointer] = m.value
	}
	if len(pins) > maxPins {
		return nil, badArgument("pins", "There are %d; pin at most %d arguments.", len(pins), maxPins)
	}
	return pins, nil
}

func wishReason(value []byte) (string, error) {
	text, err := wishText("reason", value)
	if err != nil {
		return "", err
	}
	if utf8.RuneCountInString(text) > maxReason {
		return "", badArgument("reason", "It must have at most %d characters.", maxReason)
	}
	odd := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, odd) {
		return "", badArgument("reason", "It must be plain text.")
	}
	return text, nil
}
