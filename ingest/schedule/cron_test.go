package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // time zones must not depend on the machine

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"

	"sallyport/action"
	"sallyport/ingest/event"
)

func TestTimesAcrossDaylightSaving(t *testing.T) {
	for _, test := range []struct {
		name, cron, zone, after string
		want                    []string // by the zone's clocks
	}{
		{"left out", "30 2 * * *", "Europe/Berlin", "2026-03-28T03:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"left out, on one day of the year", "30 2 29 3 *", "Europe/Berlin", "2026-03-01T00:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2027-03-29T02:30:00+02:00"}},
		{"several left out are one", "*/20 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"left out, and the end of the gap", "0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"from the end of the gap on", "30 2 * * *", "Europe/Berlin", "2026-03-29T03:00:00+02:00", []string{"2026-03-30T02:30:00+02:00"}},
		{"twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T03:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"twice, seen from between", "30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", []string{"2026-10-26T02:30:00+01:00"}},
		{"each quarter over the gap", "*/15 * * * *", "Europe/Berlin", "2026-03-29T01:40:00+01:00", []string{"2026-03-29T01:45:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:15:00+02:00"}},
		{"each half hour when they come twice", "*/30 * * * *", "Europe/Berlin", "2026-10-25T02:00:00+02:00", []string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"every hour in words", "@hourly", "Europe/Berlin", "2026-10-25T01:30:00+02:00", []string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"every second hour names hours", "0 */2 * * *", "Europe/Berlin", "2026-10-25T01:30:00+02:00", []string{"2026-10-25T02:00:00+02:00", "2026-10-25T04:00:00+01:00"}},
		{"New York, left out", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00-05:00", []string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"New York, twice", "15 1 * * 0", "America/New_York", "2026-11-01T00:00:00-04:00", []string{"2026-11-01T01:15:00-04:00", "2026-11-08T01:15:00-05:00"}},
		{"New York, with seconds", "30 0 9 * * 1-5", "America/New_York", "2026-03-06T09:00:30-05:00", []string{"2026-03-09T09:00:30-04:00"}},
		{"half an hour left out", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"behind half an hour left out", "0 4 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", []string{"2026-10-04T04:00:00+11:00"}},
		{"half an hour twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", []string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"each quarter over half an hour", "*/15 * * * *", "Australia/Lord_Howe", "2026-10-04T01:40:00+10:30", []string{"2026-10-04T01:45:00+10:30", "2026-10-04T02:30:00+11:00"}},
		{"midnight left out in Cairo", "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00+02:00", []string{"2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"}},
		{"midnight left out in Beirut", "@daily", "Asia/Beirut", "2026-03-28T12:00:00+02:00", []string{"2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"}},
		{"a day left out", "0 9 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", []string{"2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"}},
		{"only that day", "0 0 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2011-12-31T00:00:00+14:00", "2012-12-30T00:00:00+14:00"}},
		{"every hour of that day", "0 * 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2012-12-30T00:00:00+14:00"}},
		{"leap days", "0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"the last day of a leap year", "0 8 * * *", "Europe/Berlin", "2044-12-30T12:00:00Z", []string{"2044-12-31T08:00:00+01:00", "2045-01-01T08:00:00+01:00"}},
		{"every hour of that night", "0 * * * *", "Europe/Berlin", "2044-12-31T21:30:00Z", []string{"2044-12-31T23:00:00+01:00", "2045-01-01T00:00:00+01:00", "2045-01-01T01:00:00+01:00"}},
		{"a fraction of a second before", "0 0 * * *", "UTC", "2026-01-01T23:59:59.999Z", []string{"2026-01-02T00:00:00Z"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			zone, err := time.LoadLocation(test.zone)
			if err != nil {
				t.Fatal(err)
			}
			list, err := Times(test.cron, test.zone, parseTime(t, test.after), len(test.want))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, at := range list {
				if at.Location() != time.UTC {
					t.Errorf("%s is not in UTC", at)
				}
				got = append(got, at.In(zone).Format(time.RFC3339))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTimesRejects(t *testing.T) {
	for _, test := range []struct {
		cron, zone, field, says string
	}{
		{"", "UTC", "/cron_expression", "Write 5 fields"},
		{"* * * *", "UTC", "/cron_expression", "Write 5 fields"},
		{"0 0 0 * * * *", "UTC", "/cron_expression", "Write 5 fields"},
		{"60 * * * *", "UTC", "/cron_expression", "Write 5 fields"},
		{"0 0 * * 7", "UTC", "/cron_expression", "0 (Sunday)"},
		{"@reboot", "UTC", "/cron_expression", "@daily"},
		{"@every 5m", "UTC", "/cron_expression", "*/15"},
		{"TZ=UTC", "UTC", "/cron_expression", "timezone"},
		{"TZ=Europe/Berlin 0 0 * * *", "UTC", "/cron_expression", "timezone"},
		{"CRON_TZ=UTC 0 0 * * *", "UTC", "/cron_expression", "timezone"},
		{", * * * * *", "UTC", "/cron_expression", "no value"},
		{"0 0 , * ,", "UTC", "/cron_expression", "no value"},
		{"* * * * * *", "UTC", "/cron_expression", "every 10 seconds"},
		{"*/9 * * * * *", "UTC", "/cron_expression", "every 10 seconds"},
		{"0,55 * * * * *", "UTC", "/cron_expression", "every 10 seconds"},
		{"0 0 31 2 *", "UTC", "/cron_expression", "never"},
		{"0 0 31 4,6,9,11 *", "UTC", "/cron_expression", "never"},
		{"0 0 1" + strings.Repeat(",1", 200) + " * *", "UTC", "/cron_expression", "200 bytes"},
		{"0 0 * * *", "", "/timezone", "Europe/Berlin"},
		{"0 0 * * *", "Local", "/timezone", "Europe/Berlin"},
		{"0 0 * * *", "Mars/Olympus", "/timezone", "Europe/Berlin"},
		{"0 0 * * *", "../../etc/passwd", "/timezone", "Europe/Berlin"},
		{"0 0 * * *", "zone.tab", "/timezone", "Europe/Berlin"},
	} {
		_, err := Times(test.cron, test.zone, time.Unix(0, 0), 1)
		var e *action.Error
		if !errors.As(err, &e) || !errors.Is(err, action.ErrInvalid) || e.Field != test.field || !strings.Contains(e.Message, test.says) {
			t.Errorf("%q in %q: %v", test.cron, test.zone, err)
		}
	}
	for _, good := range []string{"*/10 * * * * *", "55 * * * * *", "0 0 1 1 ?", "0 9 * jan mon-fri", "@yearly", "0 0 29 2 *"} {
		if list, err := Times(good, "UTC", time.Unix(0, 0), 2); err != nil || len(list) != 2 {
			t.Errorf("%q: %v, %v", good, list, err)
		}
	}
}

// Due times are those at which a clock, looked at second by second, comes to a
// due time, or shows one.
func TestTimesMatchBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for _, where := range [][2]string{
		{"Europe/Berlin", "2026-03-28T20:00:00Z"},
		{"Europe/Berlin", "2026-10-24T20:00:00Z"},
		{"America/New_York", "2026-11-01T00:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T08:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-03T08:00:00Z"},
		{"Africa/Cairo", "2026-04-23T16:00:00Z"},
		{"Africa/Cairo", "2026-10-29T16:00:00Z"},
		{"Pacific/Apia", "2011-12-30T00:00:00Z"},
	} {
		from := parseTime(t, where[1])
		for range 25 {
			expression := randomCron(random)
			s, err := parseCron(expression, where[0])
			if err != nil {
				t.Fatal(expression, err)
			}
			want := bruteForce(s, from, from.Add(16*time.Hour))
			got := []time.Time{}
			for at := s.next(from); !at.IsZero() && !at.After(from.Add(16*time.Hour)); at = s.next(at) {
				got = append(got, at)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in %s after %s:\n%s", expression, where[0], where[1], diff)
			}
		}
	}
}

// randomCron returns an expression whose minutes are in fives.
func randomCron(random *rand.Rand) string {
	minute := []string{"*/5", "0", "5-50/15", "30", "0,25", "*/20"}
	hour := []string{"*", "*/2", "1-4", "2", "0", "3,1", "0-23", "23,0"}
	days := []string{"* * *", "* * 0", "*/2 * *", "30 * 6", "29,4,30 * *"}
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	return fmt.Sprintf("%s %s %s", pick(minute), pick(hour), pick(days))
}

// bruteForce looks at the clock each five minutes, which is as often as gaps end.
func bruteForce(s cronSchedule, from, to time.Time) []time.Time {
	const step = 5 * time.Minute
	all, seen := []time.Time{}, wallTime(from.Add(-48*time.Hour).In(s.zone))
	for at := from.Add(-48 * time.Hour); !at.After(to); at = at.Add(step) {
		wall := wallTime(at.In(s.zone))
		due := s.everyHour && isDue(s.fields, wall)
		for ; seen.Before(wall); seen = seen.Add(step) {
			due = due || !s.everyHour && isDue(s.fields, seen.Add(step))
		}
		if due && at.After(from) {
			all = append(all, at.UTC())
		}
	}
	return all
}

func isDue(f *cron.SpecSchedule, wall time.Time) bool {
	in := func(set uint64, n int) bool { return set&(1<<n) != 0 }
	day, weekday := in(f.Dom, wall.Day()), in(f.Dow, int(wall.Weekday()))
	const star = 63
	either := day || weekday
	if in(f.Dom, star) || in(f.Dow, star) {
		either = day && weekday
	}
	return in(f.Minute, wall.Minute()) && in(f.Hour, wall.Hour()) && either && in(f.Month, int(wall.Month())) && in(f.Second, wall.Second())
}

func FuzzTimes(f *testing.F) {
	f.Add("30 2 * * *", "Europe/Berlin", int64(1774746000))
	f.Add("*/10 * * * * *", "Australia/Lord_Howe", int64(1775314800))
	f.Add("0 0 30 * *", "Pacific/Apia", int64(1322697600))
	f.Add("TZ=", "Local", int64(0))
	f.Add("@every 1s", "", int64(-1))
	f.Add("0 8 * * *", "Europe/Berlin", int64(2366798400))
	f.Add(", * * * * *", "UTC", int64(0))
	f.Add("0 0 29 2 1-6/2", "Asia/Beirut", int64(1<<33))
	f.Fuzz(func(t *testing.T, expression, zone string, after int64) {
		from := time.Unix(after%(1<<34), 0)
		list, err := Times(expression, zone, from, 50)
		var e *action.Error
		if err != nil && (!errors.As(err, &e) || e.Field == "" || list != nil) {
			t.Fatalf("%v with %v", err, list)
		}
		if !slices.IsSortedFunc(list, func(a, b time.Time) int {
			if a.Before(b) {
				return -1
			}
			return 1
		}) {
			t.Fatalf("not one after the other: %v", list)
		}
		for i, at := range list {
			if !at.After(from) {
				t.Fatalf("%s is not after %s", at, from)
			}
			// No more than the seconds allow, and one for a gap.
			if i >= 7 && at.Sub(list[i-7]) < time.Minute {
				t.Fatalf("too many: %v", list[i-7:i+1])
			}
		}
	})
}

func parseTime(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

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
