package slack_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"sallyport/action"
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
		err := slack.Success(resp)
		var said struct{ OK bool }
		if err == nil && (json.Unmarshal(body, &said) != nil || !said.OK) {
			t.Error("a success that Slack does not speak of")
		}
		if r := new(sources.Refusal); err != nil && !errors.As(err, &r) && !errors.Is(err, action.ErrOutcomeUnknown) {
			t.Errorf("the error is %v", err)
		}
	})
}
