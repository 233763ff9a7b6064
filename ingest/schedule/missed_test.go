package schedule

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/ingest/event"
)

func TestOccurrence(t *testing.T) {
	for _, test := range []struct {
		name, cron, due, now string
		missed               event.Missed
		at, next             string // at: empty for none
		count                int
	}{
		{"on time", "0 * * * *", "10:00:00", "10:00:01", event.MissedOnce, "10:00:00", "11:00:00", 0},
		{"at the end of the grace", "0 * * * *", "10:00:00", "10:01:00", event.MissedSkip, "10:00:00", "11:00:00", 0},
		{"late within the grace, others came since", "*/10 * * * * *", "10:00:00", "10:00:35", event.MissedSkip, "10:00:00", "10:00:10", 0},
		{"one missed", "0 * * * *", "10:00:00", "10:30:00", event.MissedOnce, "10:00:00", "11:00:00", 0},
		{"one missed and skipped", "0 * * * *", "10:00:00", "10:30:00", event.MissedSkip, "", "11:00:00", 0},
		{"three missed", "0 * * * *", "10:00:00", "12:30:00", event.MissedOnce, "12:00:00", "13:00:00", 2},
		{"three missed, the last just now", "0 * * * *", "10:00:00", "12:00:00", event.MissedOnce, "12:00:00", "13:00:00", 2},
		{"three missed and skipped, the last in its grace", "0 * * * *", "10:00:00", "12:00:20", event.MissedSkip, "", "12:00:00", 0},
		{"a crowd missed", "*/10 * * * * *", "08:00:00", "12:00:05", event.MissedOnce, "12:00:00", "12:00:10", 1000},
		{"no time of the expression any more", "0 9 * * *", "08:00:00", "08:30:00", event.MissedOnce, "08:00:00", "09:00:00", 0},
	} {
		s, err := parseCron(test.cron, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		on := func(text string) time.Time {
			if text == "" {
				return time.Time{}
			}
			return parseTime(t, "2026-05-04T"+text+"Z")
		}
		got := s.occurrence(on(test.due), on(test.now), time.Minute, test.missed)
		want := occurrence{at: on(test.at), missed: test.count, next: on(test.next)}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(occurrence{})); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
	}
}

// A schedule's last year is looked through in no time.
func TestLastMissedTimeIsFoundQuickly(t *testing.T) {
	for expression, want := range map[string]string{
		"*/10 * * * * *": "2027-05-04T11:59:50Z",
		"0 0 29 2 *":     "2028-02-29T00:00:00Z",
		"0 0 1 1 *":      "2027-01-01T00:00:00Z",
		"*/10 * 9 5 5 *": "2026-05-05T09:59:50Z",
	} {
		s, err := parseCron(expression, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		due, now := parseTime(t, "2024-02-29T00:00:00Z"), parseTime(t, "2027-05-04T11:59:55Z")
		if expression == "0 0 29 2 *" {
			now = parseTime(t, "2031-01-01T00:00:00Z")
		}
		if got := s.last(due, now); !got.Equal(parseTime(t, want)) {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}
