package schedule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/event"
	"sallyport/ingest/schedule"
	"sallyport/internal/redact"
	"sallyport/internal/vault"
)

// scheduleRows keeps schedules in memory.
type scheduleRows struct {
	ingest.Rows
	mu       sync.Mutex
	of       map[string]event.Schedule
	made     []event.Match
	away     bool
	refuse   string // the id of a schedule that cannot be written
	looks    int
	reported []event.Run
}

func (s *scheduleRows) DueSchedules(_ context.Context, now time.Time, limit int) (list []event.Schedule, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.away {
		return nil, errors.New("away")
	}
	for _, one := range s.of {
		if one.NextAt != nil && !one.NextAt.After(now) {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b event.Schedule) int { return a.NextAt.Compare(*b.NextAt) })
	return list[:min(limit, len(list))], nil
}

func (s *scheduleRows) FireSchedule(_ context.Context, one event.Schedule, next *time.Time, m *event.Match) ([]event.Run, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.of[one.ID]
	switch {
	case one.ID == s.refuse, strings.HasPrefix(one.ID, "refused "):
		return nil, false, errors.New("refused")
	case kept.NextAt == nil || !kept.NextAt.Equal(*one.NextAt):
		return nil, false, nil
	}
	kept.NextAt, kept.LastAt = next, one.NextAt
	s.of[one.ID] = kept
	if m == nil {
		return nil, true, nil
	}
	s.made = append(s.made, *m)
	return []event.Run{{ID: m.Run}}, true, nil
}

func (s *scheduleRows) keys(schedule string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.made {
		if m.Record.Trigger == schedule {
			all = append(all, m.Record.Key)
		}
	}
	return all
}

func (s *scheduleRows) set(change func(*scheduleRows)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// newScheduleRows returns timers with a schedule per expression, by its index, that
// were put in at a time.
func newScheduleRows(t *testing.T, at time.Time, missed event.Missed, expressions ...string) *scheduleRows {
	t.Helper()
	s := &scheduleRows{of: map[string]event.Schedule{}}
	for i, expression := range expressions {
		times, err := schedule.Times(expression, "UTC", at, 1)
		if err != nil {
			t.Fatal(err)
		}
		id := strconv.Itoa(i)
		s.of[id] = event.Schedule{
			ID: id, Organization: "org", Automation: "auto", Name: "Nightly", Cron: expression, TimeZone: "UTC",
			Enabled: true, Missed: missed, NextAt: &times[0],
		}
	}
	return s
}

// testVault is a vault with a key of its own.
func testVault(t testing.TB) *vault.Vault {
	t.Helper()
	v, err := vault.New(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ascending returns ids that ascend.
func ascending() func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("id-%06d", n.Add(1)) }
}

// startSchedulers runs schedulers on s until the returned function is called.
func startSchedulers(t *testing.T, s *scheduleRows, instances int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	ids := ascending()
	for range instances {
		scheduler, err := schedule.NewScheduler(schedule.Config{
			Rows: s, Vault: testVault(t), JSON: &redact.JSON{}, NewID: ids,
			Began: func(runs []event.Run) { s.set(func(s *scheduleRows) { s.reported = append(s.reported, runs...) }) },
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := scheduler.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// In a synctest bubble it is midnight of 1 January 2000, UTC.
func TestSchedulersFireEachDueTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduleRows(t, time.Now(), event.MissedOnce, "*/10 * * * * *", "*/30 * * * *", "0 3 * * *")
		stop := startSchedulers(t, s, 3)
		time.Sleep(4*time.Hour + time.Second)
		synctest.Wait()
		stop()
		want := []string{}
		for at := time.Date(2000, 1, 1, 0, 0, 10, 0, time.UTC); !at.After(time.Now()); at = at.Add(10 * time.Second) {
			want = append(want, at.Format(time.RFC3339))
		}
		if diff := cmp.Diff(want, s.keys("0")); diff != "" {
			t.Error(diff)
		}
		if n := len(s.keys("1")); n != 8 {
			t.Errorf("%d half hours in four hours", n)
		}
		if diff := cmp.Diff([]string{"2000-01-01T03:00:00Z"}, s.keys("2")); diff != "" {
			t.Error(diff)
		}
		if len(s.reported) != len(s.made) {
			t.Errorf("told of %d runs, made %d", len(s.reported), len(s.made))
		}
	})
}

func TestEventsOfSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduleRows(t, time.Now().Add(-3*time.Hour), event.MissedOnce, "30 * * * *")
		one := s.of["0"]
		one.TimeZone = "Europe/Berlin"
		s.of["0"] = one
		stop := startSchedulers(t, s, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		if len(s.made) != 1 {
			t.Fatalf("made %d of three missed times", len(s.made))
		}
		m := s.made[0]
		due := time.Date(1999, 12, 31, 23, 30, 0, 0, time.UTC)
		want := event.Record{
			ID: m.Record.ID, Organization: "org", Trigger: "0", Automation: "auto", Provider: "schedule", Type: "schedule", Native: "30 * * * *",
			Key: "1999-12-31T23:30:00Z", OccurredAt: &due, Title: "Nightly at 2000-01-01 00:30:00 CET", CreatedAt: m.Record.CreatedAt, Redacted: m.Record.Redacted,
		}
		if diff := cmp.Diff(want, m.Record); diff != "" {
			t.Error(diff)
		}
		whole, err := testVault(t).Open(action.Ref{Organization: "org", Table: "events", Row: m.Record.ID, Column: "sealed"}, m.Sealed)
		if err != nil || m.Run == "" {
			t.Fatalf("run %q, context %v", m.Run, err)
		}
		const context = `{"schedule":{"id":"0","name":"Nightly"},"cron_expression":"30 * * * *","timezone":"Europe/Berlin","due_at":"1999-12-31T23:30:00Z","missed":2}`
		if string(whole) != context || !json.Valid(m.Record.Redacted) {
			t.Errorf("context %s, shown %s", whole, m.Record.Redacted)
		}
		if next := s.of["0"].NextAt; !next.Equal(due.Add(time.Hour)) {
			t.Errorf("next at %s", next)
		}
	})
}

func TestMissedTimesAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduleRows(t, time.Now().Add(-3*time.Hour), event.MissedSkip, "30 * * * *")
		stop := startSchedulers(t, s, 2)
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		stop()
		if diff := cmp.Diff([]string{"2000-01-01T00:30:00Z"}, s.keys("0")); diff != "" {
			t.Error(diff)
		}
	})
}

// Many schedules that fail keep none from coming due that is behind them.
func TestSchedulersContinueBehindFailedSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expressions := slices.Repeat([]string{"29 * * * *"}, 250)
		s := newScheduleRows(t, time.Now(), event.MissedOnce, append(expressions, "30 * * * *")...)
		for i := range expressions {
			one := s.of[strconv.Itoa(i)]
			delete(s.of, one.ID)
			one.ID = "refused " + strconv.Itoa(i)
			s.of[one.ID] = one
		}
		stop := startSchedulers(t, s, 1)
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		stop()
		if n := len(s.keys("250")); n != 1 {
			t.Errorf("it came due %d times", n)
		}
	})
}

// What is wrong with one schedule, or with the rows for a while, costs no other
// schedule a due time.
func TestSchedulersContinueAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduleRows(t, time.Now(), event.MissedOnce, "* * * * *", "* * * * *", "* * * * *")
		unreadable := s.of["1"]
		unreadable.TimeZone = "Mars/Olympus"
		s.of["1"] = unreadable
		s.refuse = "0"
		stop := startSchedulers(t, s, 2)
		defer stop()
		time.Sleep(90 * time.Second)
		var before, after int
		s.set(func(s *scheduleRows) { s.away, before = true, s.looks })
		time.Sleep(45 * time.Second)
		synctest.Wait()
		s.set(func(s *scheduleRows) { after = s.looks })
		if looks := after - before; looks > 20 {
			t.Errorf("looked %d times in 45 seconds while rows were away", looks)
		}
		s.set(func(s *scheduleRows) { s.away, s.refuse = false, "" })
		time.Sleep(75 * time.Second)
		synctest.Wait()
		each := []string{"2000-01-01T00:01:00Z", "2000-01-01T00:02:00Z", "2000-01-01T00:03:00Z"}
		if diff := cmp.Diff(each, s.keys("2")); diff != "" {
			t.Error(diff)
		}
		if last := s.keys("0"); len(last) == 0 || last[len(last)-1] != each[2] {
			t.Errorf("that which was refused made %v", last)
		}
		if diff := cmp.Diff(each[:1], s.keys("1")); diff != "" {
			t.Error(diff)
		}
		for _, m := range s.made {
			if m.Record.Trigger == "1" && (m.Record.Skip != event.SkipRunFailed || m.Record.Error == "" || m.Run != "") {
				t.Errorf("that which cannot be read made %+v", m)
			}
		}
	})
}
