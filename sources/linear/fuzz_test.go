package linear_test

import (
	"errors"
	"testing"
	"time"

	"sallyport/action"
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
