package store_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// turn claims the group that is due.
func (h *house) turn(worker string, lease time.Duration) event.PollGroup {
	h.Helper()
	g, found, err := h.db.ClaimPoll(h.ctx, worker, lease)
	if err != nil || !found {
		h.Fatalf("claimed %t, %v", found, err)
	}
	return g
}

func (h *house) group() event.PollGroup {
	h.Helper()
	return must(h.db.PollGroups(h.ctx, h.org.ID))(h)[0]
}

var clockStories = map[string]func(*house){
	"a poll is settled with its cursor or not at all": func(h *house) {
		t := h.trigger(h.polling(h.automation("Nightly"), h.connected(h.slack("T1")), 60))
		lost := h.turn("w", -time.Second)
		g := h.turn("w", time.Hour)
		look := event.PollOutcome{Group: lost, Cursor: []byte(`{"at":1}`), Matches: []event.Match{h.match(t, "a")}, NextAt: h.now.Add(-time.Second)}
		for worker, group := range map[string]event.PollGroup{"w": lost, "x": g} {
			look.Group = group
			_, err := h.db.SettlePoll(h.ctx, worker, look)
			h.refused(err, action.ErrConflict, "poll_lost")
		}
		h.equal(h.tally(), [4]int{}, "events, skipped ones, runs, deliveries")
		look.Group = g
		h.equal(len(must(h.db.SettlePoll(h.ctx, "w", look))(h)), 1, "runs")
		h.equal(h.tally(), [4]int{1, 0, 1, 1}, "events, skipped ones, runs, deliveries")
		got := h.group()
		h.equal([]any{string(got.Cursor), got.NextAt, got.LastAt != nil, got.Failures}, []any{`{"at":1}`, look.NextAt, true, 0}, "the group")
		_, err := h.db.SettlePoll(h.ctx, "w", look)
		h.refused(err, action.ErrConflict, "poll_lost")

		// A look that failed leaves the cursor; what was lost is remembered.
		for i := range 2 {
			failed := event.PollOutcome{Group: h.turn("w", time.Hour), NextAt: h.now.Add(-time.Second), LastError: "away", Lost: "a day"}
			must(h.db.SettlePoll(h.ctx, "w", failed))(h)
			got = h.group()
			h.equal([]any{string(got.Cursor), got.Failures, got.LastError, got.Lost, got.LostAt != nil}, []any{`{"at":1}`, i + 1, "away", "a day", true}, "the group")
		}
		look = event.PollOutcome{Group: h.turn("w", time.Hour), Cursor: []byte(`{"at":2}`), Matches: []event.Match{h.match(t, "a"), h.match(t, "b")}, NextAt: h.now}
		h.equal(len(must(h.db.SettlePoll(h.ctx, "w", look))(h)), 1, "runs of what was found again")
		got = h.group()
		h.equal([]any{string(got.Cursor), got.Failures, got.LastError, got.Lost}, []any{`{"at":2}`, 0, "", "a day"}, "the group")
	},
	"of 50 callers one fires the schedule": func(h *house) {
		s := h.schedule(h.automation("Nightly"))
		s.NextAt = new(h.now.Add(-time.Minute))
		s = must(h.db.CreateSchedule(h.ctx, s))(h)
		later := h.schedule(h.automation("Later"))
		must(h.db.CreateSchedule(h.ctx, later))(h)
		due := must(h.db.DueSchedules(h.ctx, h.now, 10))(h)
		h.equal(due, []event.Schedule{s}, "what is due")
		h.equal(len(must(h.db.DueSchedules(h.ctx, h.now.Add(2*time.Hour), 1))(h)), 1, "not more than asked")
		var won, began atomic.Int64
		next := h.now.Add(time.Hour)
		together(50, func(i int) {
			m := h.firing(s, fmt.Sprint(s.NextAt.Unix()))
			runs, fired, err := h.any(i).FireSchedule(h.ctx, due[0], &next, &m)
			if err != nil {
				h.Error(err)
			}
			if began.Add(int64(len(runs))); fired {
				won.Add(1)
			}
		})
		h.equal([]int64{won.Load(), began.Load()}, []int64{1, 1}, "winners and runs")
		h.equal(h.tally(), [4]int{1, 0, 1, 1}, "events, skipped ones, runs, deliveries")
		got := must(h.db.Schedule(h.ctx, h.org.ID, s.ID))(h)
		h.equal([]*time.Time{got.NextAt, got.LastAt}, []*time.Time{&next, s.NextAt}, "its times")

		// Without a match, for the last time, and when it was disabled meanwhile.
		_, fired, err := h.db.FireSchedule(h.ctx, got, nil, nil)
		h.equal([]any{fired, err}, []any{true, nil}, "fired")
		got = must(h.db.Schedule(h.ctx, h.org.ID, s.ID))(h)
		h.equal([]any{got.NextAt == nil, *got.LastAt, got.Enabled}, []any{true, next, true}, "its times")
		m := h.firing(got, "x")
		_, fired, err = h.db.FireSchedule(h.ctx, got, &next, &m)
		h.equal([]any{fired, err}, []any{false, nil}, "fired when nothing is due")
		off := must(h.db.DueSchedules(h.ctx, h.now.Add(2*time.Hour), 1))(h)[0]
		stale := off
		off.Enabled = false
		must(h.db.UpdateSchedule(h.ctx, off, "alice"))(h)
		_, fired, err = h.db.FireSchedule(h.ctx, stale, &next, &m)
		h.equal([]any{fired, err}, []any{false, nil}, "fired when it is disabled")

		// With other times its next one is another, though that is the same.
		changed := h.schedule(h.automation("Changed"))
		changed.NextAt = new(h.now.Add(-time.Minute))
		changed = must(h.db.CreateSchedule(h.ctx, changed))(h)
		stale, h.now = changed, h.now.Add(time.Second)
		changed.Cron = "0 8 * * *"
		changed = must(h.db.UpdateSchedule(h.ctx, changed, "alice"))(h)
		_, fired, err = h.db.FireSchedule(h.ctx, stale, &next, &m)
		h.equal([]any{fired, err}, []any{false, nil}, "fired when it was changed")
		_, fired, err = h.db.FireSchedule(h.ctx, changed, nil, nil)
		h.equal([]any{fired, err}, []any{true, nil}, "fired as it is now")
		h.equal(h.tally(), [4]int{1, 0, 1, 1}, "events, skipped ones, runs, deliveries")
	},
}

// firing is the event of a due time.
func (h *house) firing(s event.Schedule, key string) event.Match {
	m := h.match(event.Trigger{ID: s.ID, Automation: s.Automation, Provider: event.ScheduleProvider, Type: event.ScheduleProvider}, key)
	m.Record.Native = ""
	return m
}
