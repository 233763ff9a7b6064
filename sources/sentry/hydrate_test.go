package sentry_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/sources"
	"sallyport/sources/sentry"
)

const (
	latestEvent = "/api/0/organizations/acme/issues/1170820242/events/latest/"
	acmeIssue   = "projects/acme/front-end/"
)

// ours is an issue of the organization that the connection is for.
func ours(t *testing.T) event.Event {
	t.Helper()
	return heard(t, "issue", strings.Replace(issueHook, "projects/test-org/front-end/", acmeIssue, 1))
}

func TestHydrate(t *testing.T) {
	s := serve(t, map[string]answer{"GET " + latestEvent: {body: saved(t, "answers", "event.json")}})
	c := s.conn(t, "", acme)
	before := ours(t)
	e := before
	if changed, err := sentry.Module().Hydrate(t.Context(), c, &e); !changed || err != nil {
		t.Fatal(changed, err)
	}
	var was, is map[string]any
	if err := errors.Join(json.Unmarshal(before.Context, &was), json.Unmarshal(e.Context, &is)); err != nil {
		t.Fatal(err)
	}
	was["environment"] = "production"
	was["event"] = map[string]any{
		"event_id": "0f0e0d0c0b0a09080706050403020100", "title": "TypeError: total is undefined", "type": "error", "culprit": "checkout/cart in sum", "location": "app/cart.js",
		"platform": "javascript", "datetime": "2026-11-20T21:14:03Z", "release": "web@1.4.2", "tags": map[string]any{"environment": "production", "browser": "Safari 26"},
	}
	was["exceptions"] = []any{
		map[string]any{"type": "TypeError", "value": "total is undefined", "mechanism": map[string]any{"type": "onerror", "handled": false}},
		map[string]any{"type": "RangeError", "value": "no rate"},
	}
	was["frames"] = []any{
		map[string]any{"filename": "app/cart.js", "function": "sum", "lineno": 42.0, "colno": 17.0, "in_app": true, "context_line": "return total.amount"},
		map[string]any{"filename": "node_modules/react.js", "function": "dispatch", "lineno": 900.0, "colno": 2.0, "in_app": false},
	}
	was["files"] = []any{"app/cart.js"}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("its context (-want +got):\n%s", diff)
	}
	done := e.Context
	if changed, err := sentry.Module().Hydrate(t.Context(), c, &e); changed || err != nil || len(s.asked) != 1 {
		t.Errorf("done again: %v, %v, asked %q", changed, err, s.asked)
	}
	e.Context = before.Context
	if diff := cmp.Diff(before, e); diff != "" {
		t.Errorf("it is another event (-before +after):\n%s", diff)
	}
	if e.Context = done; !triggerOf(t, "issue").Matches(&e, json.RawMessage(`{"projects":["front-end"],"minimum_level":"warning","actions":["created"]}`)) {
		t.Error("it does not pass any more")
	}
}

// TestNothingToHydrate asks nobody, or is told that there is nothing.
func TestNothingToHydrate(t *testing.T) {
	with := func(from, to string) event.Event {
		e := ours(t)
		if !strings.Contains(string(e.Context), from) {
			t.Fatalf("%s has no %s", e.Context, from)
		}
		e.Context = json.RawMessage(strings.ReplaceAll(string(e.Context), from, to))
		return e
	}
	for name, test := range map[string]struct {
		e        event.Event
		settings string
		asked    int
	}{
		"an alert":                            {heard(t, "event_alert", alertHook), acme, 0},
		"an issue of another organization":    {heard(t, "issue", issueHook), acme, 0},
		"a connection that does not know its": {ours(t), "", 0},
		"an issue without id":                 {with(`"id":"1170820242"`, `"x":""`), acme, 0},
		"an id that is a path":                {with(`"1170820242"`, `"../1"`), acme, 0},
		"a context that cannot be read":       {with(`{`, `[`), acme, 0},
		"an issue that is gone":               {ours(t), acme, 1},
		"an issue of nobody knows whom":       {with(`"organization":"acme"`, `"x":""`), acme, 1},
		"a name in capitals":                  {with(`"organization":"acme"`, `"organization":"ACME"`), acme, 1},
	} {
		s := serve(t, nil)
		before := test.e
		changed, err := sentry.Module().Hydrate(t.Context(), s.conn(t, "", test.settings), &test.e)
		if diff := cmp.Diff(before, test.e); changed || err != nil || len(s.asked) != test.asked || diff != "" {
			t.Errorf("%s: %v, %v, asked %q%s", name, changed, err, s.asked, diff)
		}
	}
}

// TestHydrateFails, and leaves the event as it is.
func TestHydrateFails(t *testing.T) {
	for name, test := range map[string]struct {
		answer answer
		is     func(error) bool
	}{
		"a dead credential": {answer{status: 401, body: `{"detail":"Invalid token"}`}, func(err error) bool {
			no := new(sources.Refusal)
			return errors.As(err, &no) && no.Credential
		}},
		"a scope that it lacks": {answer{status: 403, body: `{"detail":"no"}`}, func(err error) bool {
			no := new(sources.Refusal)
			return errors.As(err, &no) && strings.Contains(no.Message, "event:read")
		}},
		"not Sentry": {answer{body: `<html>`}, func(err error) bool { return errors.Is(err, action.ErrOutcomeUnknown) }},
	} {
		s := serve(t, map[string]answer{"GET " + latestEvent: test.answer})
		e := ours(t)
		if changed, err := sentry.Module().Hydrate(t.Context(), s.conn(t, "", acme), &e); changed || !test.is(err) || cmp.Diff(ours(t), e) != "" {
			t.Errorf("%s: %v, %v", name, changed, err)
		}
	}
}

// FuzzHydrate has a server answer anything.
func FuzzHydrate(f *testing.F) {
	f.Add(`{"id":"1"}`, `{"eventID":"a","entries":[{"type":"threads","data":{"values":[{"crashed":true,"stacktrace":{"frames":[{"inApp":true,"lineNo":{},"context":[[{},{}],[[],1],1]}]}}]}}]}`)
	f.Add(`{"event":1}`, `{"entries":[{"type":"message","data":{"formatted":"x"}},{"type":"stacktrace","data":{"frames":[1]}},null],"tags":[1]}`)
	f.Fuzz(func(t *testing.T, known, answer string) {
		e := event.Event{Type: "issue", Context: json.RawMessage(known)}
		if sentry.Hydrated(&e, []byte(answer)) && (len(e.Context) > 64<<10 || !json.Valid(e.Context)) {
			t.Errorf("%d bytes: %.200s", len(e.Context), e.Context)
		}
	})
}
