package sentry_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources/sentry"
)

func TestLimits(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	const second = time.Second
	for _, c := range []struct {
		name             string
		status           int
		reset, remaining string
		low, high        time.Duration // both zero: no limit
	}{
		{"no limit", 403, "1800000030", "0", 0, 0},
		{"a window", 429, "1800000030", "0", 30 * second, 30 * second},
		{"a window, in fractions", 429, "1800000030.5", "0", 30 * second, 31 * second},
		{"requests at a time", 429, "1800000030", "12", second, 2 * second},
		{"nothing told", 429, "", "", second, 2 * second},
		{"a window that ended", 429, "1799999999", "0", second, 2 * second},
		{"nonsense", 429, "soon", "-", second, 2 * second},
		{"not a number", 429, "NaN", "0", second, 2 * second},
		{"a clock that is wrong", 429, "1e300", "0", time.Hour, time.Hour},
	} {
		r := &outbound.Response{Status: c.status, Header: http.Header{
			"Date":                          {at.Format(http.TimeFormat)},
			"X-Sentry-Rate-Limit-Reset":     {c.reset},
			"X-Sentry-Rate-Limit-Remaining": {c.remaining},
		}}
		wait, is := sentry.Limited(r)
		if is != (c.high > 0) || wait < c.low || wait > c.high {
			t.Errorf("%s: got %v, %v; want %v to %v", c.name, wait, is, c.low, c.high)
		}
	}
}

// TestLimitEndsACall shows that the time of reset reaches the caller.
func TestLimitEndsACall(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	s := serve(t, map[string]answer{"GET " + issues: {
		status: 429, body: `{"detail":"You are attempting to use this endpoint too frequently."}`,
		header: http.Header{
			"Date":                          {at.Format(http.TimeFormat)},
			"X-Sentry-Rate-Limit-Reset":     {"1800000600"},
			"X-Sentry-Rate-Limit-Remaining": {"0"},
		},
	}})
	_, err := run(t, s.conn(t, "", acme), "list_issues", `{}`)
	var e *action.Error
	if !errors.As(err, &e) || e.Code != "upstream_rate_limited" || e.RetryAfter != 10*time.Minute || len(s.asked) != 1 {
		t.Errorf("got %v (%+v) after %d requests", err, e, len(s.asked))
	}
}
