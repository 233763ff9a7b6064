package linear_test

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
	"sallyport/sources/linear"
)

// FuzzAnswer reads anything as an answer: it ends as a refusal of ours or as
// not known, and never makes the gateway wait backwards or for ever.
func FuzzAnswer(f *testing.F) {
	for _, tt := range refused {
		f.Add(tt.status, []byte(tt.body))
	}
	f.Add(200, []byte(`{"errors":[{"extensions":{"code":"RATELIMITED","meta":{"rateLimitResult":{"duration":-1}}}}]}`))
	f.Add(200, []byte(`{"errors":[null]}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		resp := &outbound.Response{Status: status, Body: body}
		if wait, _ := linear.Limited(resp); wait < 0 || wait > 24*time.Hour {
			t.Errorf("waits %v", wait)
		}
		err := linear.Refused(resp)
		if r := new(sources.Refusal); !errors.As(err, &r) && !errors.Is(err, action.ErrOutcomeUnknown) {
			t.Errorf("the error is %v", err)
		} else if r.Message == "" && errors.As(err, &r) {
			t.Error("a refusal without a message")
		}
	})
}

// FuzzDelivery reads anything as a delivery: what it tells is bounded, can be
// told apart, and is of a type that there is a trigger for.
func FuzzDelivery(f *testing.F) {
	f.Add("", []byte(posted("Issue", "update", hookIssue, `,"updatedFrom":{"title":"x"}`)), "{}")
	f.Add(deliveryID, []byte(posted("Comment", "create", hookComment, "")), `{"teams":["ENG"],"authors":["x"]}`)
	f.Add(deliveryID, []byte(posted("Issue", "create", `{"id":"a","updatedAt":"2026-11-02T10:00:00Z","labels":{"nodes":[{}]},"assignee":null}`, "")), `{"labels":["x"]}`)
	f.Add("", []byte(`{"type":"OAuthApp","action":"revoked"}`), "7")
	f.Fuzz(func(t *testing.T, id string, body []byte, config string) {
		_ = linear.Triggers().Webhook.Verify(signed(string(body)), [][]byte{[]byte(hookSecret)}, sent(), time.Minute)
		d := &event.Delivery{Header: http.Header{"Linear-Delivery": {id}}, Body: body}
		got, err := linear.Triggers().Webhook.Parse(d)
		if err != nil && len(got.Events) > 0 {
			t.Errorf("events beside %v", err)
		}
		for _, e := range got.Events {
			if e.Key == "" || len(e.Key) > 200 || len(e.Context) > 64<<10 || !json.Valid(e.Context) || len([]rune(e.Title)) > 201 || strings.ContainsAny(e.Title, "\n\u202e") {
				t.Errorf("got %+v", e)
			}
			matching(t, e.Type)(&e, json.RawMessage(config))
		}
	})
}
