package slack_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/slack"
)

// FuzzAnswer reads anything as an answer: only what says ok is a success, and
// no wait is without end.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "", []byte(`{"ok":true}`))
	f.Add(200, "-1", []byte(`{"ok":false,"error":"ratelimited"}`))
	f.Add(200, "", []byte(`{"ok":false,"error":"missing_scope","needed":5}`))
	f.Add(429, "9999999999", []byte(`[]`))
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		resp := &outbound.Response{Status: status, Header: http.Header{"Retry-After": {after}}, Body: body}
		if wait, _ := slack.Limited(resp); wait < 0 || wait > 24*time.Hour {
			t.Errorf("waits %v", wait)
		}
		err := slack.Success(resp, status%2 == 0)
		var said struct{ OK bool }
		if err == nil && (json.Unmarshal(body, &said) != nil || !said.OK) {
			t.Error("a success that Slack does not speak of")
		}
		if r := new(sources.Refusal); err != nil && !errors.As(err, &r) && !errors.Is(err, action.ErrOutcomeUnknown) {
			t.Errorf("the error is %v", err)
		}
	})
}

// FuzzDelivery reads anything as a delivery: what it tells is bounded, can be
// told apart, and is of a type that there is a trigger for.
func FuzzDelivery(f *testing.F) {
	f.Add([]byte(callback(`{"type":"message","channel":"C1","user":"U1","text":"x","files":[null]}`)), `{"contains":["x"]}`)
	f.Add([]byte(callback(`{"type":"reaction_added","reaction":"eyes","item":{"type":"message"}}`)), `{"reactions":["eyes"]}`)
	f.Add([]byte(`{"type":"url_verification","challenge":"x"}`), `{}`)
	f.Add([]byte(`{"type":"event_callback","event_id":"E","event_time":-1,"event":{"type":"app_uninstalled"}}`), ``)
	f.Fuzz(func(t *testing.T, body []byte, config string) {
		got, err := parse(string(body))
		if err != nil && len(got.Events) > 0 {
			t.Errorf("%+v beside %v", got, err)
		}
		if echo := slack.Triggers().Webhook.Challenge(&event.Delivery{Body: body}); len(echo) > 4000 {
			t.Errorf("echoes %d bytes", len(echo))
		}
		for _, e := range got.Events {
			if e.Key == "" || len(e.Key) > 100 || len(e.Context) > 64<<10 || !json.Valid(e.Context) || len([]rune(e.Title)) > 201 || strings.ContainsAny(e.Title, "\n\u202e") {
				t.Errorf("got %+v", e)
			}
			if y := e.OccurredAt.Year(); y > 9999 {
				t.Errorf("in the year %d", y)
			}
			trigger(t, e.Type).Matches(&e, json.RawMessage(config))
		}
	})
}
