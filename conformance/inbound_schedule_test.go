package conformance_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// schedule makes one of an automation.
func (a *api) schedule(automation, cron, missed string) (id string) {
	a.t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	a.must("POST", "/api/v1/schedules", map[string]any{"automation": automation, "cron_expression": cron, "missed": missed}, &made)
	return made.ID
}

// due returns the due times of a schedule that have a run, the latest first.
func (a *api) due(schedule string) (times []time.Time) {
	a.t.Helper()
	for _, e := range rowsOf[inboundEvent](a, inboundPath, "trigger="+schedule) {
		at, err := time.Parse(time.RFC3339, e.Key)
		if err != nil || e.Run == "" {
			a.t.Errorf("a due time has the event %+v, %v", e, err)
		}
		times = append(times, at)
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	return times
}

// rewinds has the time since a schedule was due be longer by so much, and waits
// until somebody saw to all of them, meanwhile.
func (c *cluster) rewinds(by string, meanwhile func()) {
	c.t.Helper()
	c.execute(`UPDATE schedules SET next_at = next_at - interval '` + by + `' WHERE next_at IS NOT NULL`)
	meanwhile()
	await(c.t, "the next times to lie ahead", func() bool {
		var overdue int
		c.query(`SELECT count(*) FROM schedules WHERE next_at < now() - interval '1 second'`, &overdue)
		return overdue == 0
	})
}

// Three processes look after twenty schedules that come due at once, three times
// each. Then one is killed while it writes, and one before it hears that it did,
// and others go on. Each due time has one run.
func TestInboundSchedulesOfMany(t *testing.T) {
	t.Parallel()
	c, people, takers := newIntake(t, 3, "--schedule-every", "50ms")
	automation := people.automation("often")
	var all []string
	for range 20 {
		all = append(all, people.schedule(automation, "*/10 * * * * *", "once"))
	}
	p := newTap(t, c.postgres.URL)
	victim := newGateway(t, "ingest", "--public-url", "http://127.0.0.1:1", "--schedule-every", "50ms", "--database-url", p.url)
	victim.env = keys()
	t.Cleanup(victim.finish)

	c.rewinds("30 seconds", func() {}) // within the minute in which a time is late, and not missed
	for _, g := range takers {
		g.kill()
	}
	for n, when := range []moment{atCommit, unheard} {
		victim.takes()
		all = append(all, people.schedule(automation, "*/10 * * * * *", "once")) // whose due times have no runs yet
		reached := p.at("INSERT INTO outbox", when)
		c.rewinds("30 seconds", func() {
			select {
			case <-reached:
			case <-time.After(patience):
				t.Fatalf("%s: no schedule is seen to", when)
			}
			victim.kill()
			takers[n].takes()
		})
		takers[n].kill()
	}
	events := 0
	for _, id := range all {
		due := people.due(id)
		events += len(due)
		if len(due) < 3 {
			t.Errorf("a schedule had runs at %v alone", due)
		}
		for i := range due[1:] {
			if later := due[i].Sub(due[i+1]); later != 10*time.Second {
				t.Errorf("after %s, a schedule has its next run %s later", due[i+1], later)
			}
		}
	}
	if runs := len(rowsOf[runRow](people.api, runsPath, "")); runs < events {
		t.Errorf("%d events have %d runs", events, runs)
	}
}

// For years none of three processes was up: a schedule has one run for all that
// was missed, or none, as it says.
func TestInboundSchedulesMissed(t *testing.T) {
	t.Parallel()
	c, people, takers := newIntake(t, 3, "--schedule-every", "50ms")
	automation := people.automation("yearly")
	once, skip := people.schedule(automation, "0 0 1 1 *", "once"), people.schedule(automation, "0 0 1 1 *", "skip")
	for _, g := range takers {
		g.kill()
	}
	c.rewinds("3 years", func() {
		for _, g := range takers {
			g.spawn()
		}
	})
	for _, g := range takers {
		g.wakes()
	}
	year := time.Date(time.Now().UTC().Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	if got := people.due(once); len(got) != 1 || !got[0].Equal(year) {
		t.Errorf("for the years that were missed there are runs of %v, not one of %v", got, year)
	}
	if got := people.due(skip); len(got) != 0 {
		t.Errorf("there are runs of %v, which were to be skipped", got)
	}
	if events, runs := rowsOf[inboundEvent](people.api, inboundPath, ""), rowsOf[runRow](people.api, runsPath, ""); len(events) != 1 || len(runs) != 1 {
		t.Errorf("there are %d events and %d runs: %s", len(events), len(runs), fmt.Sprint(runs))
	}
	var context struct {
		Context struct{ Missed int }
	}
	people.must("GET", inboundPath+"/"+rowsOf[inboundEvent](people.api, inboundPath, "")[0].ID, nil, &context)
	if context.Context.Missed != 2 && context.Context.Missed != 3 {
		t.Errorf("it is said that %d times were missed", context.Context.Missed)
	}
}
