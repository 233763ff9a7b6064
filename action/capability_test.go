package action_test

import (
	"testing"

	"sallyport/action"
)

func TestSpanNamesAWindow(t *testing.T) {
	for seconds, want := range map[int]string{
		1: "1 second", 45: "45 seconds", 60: "a minute", 90: "90 seconds", 300: "5 minutes", 3600: "an hour", 7200: "2 hours", 86400: "a day",
	} {
		if got := (action.Rate{Seconds: seconds}).Span(); got != want {
			t.Errorf("%d: %q, want %q", seconds, got, want)
		}
	}
}
