package server

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/ingest/event"
	"sallyport/ingest/schedule"
	"sallyport/internal/redact"
	"sallyport/internal/vault"
	"sallyport/store"
)

// Three schedulers on the same rows, in one process or in three, make one run of
// each due time.
func TestSchedulersOnTheSameRows(t *testing.T) {
	t.Parallel()
	for _, where := range []struct {
		name   string
		config func(*testing.T) store.Config
		opened int
	}{
		{"SQLite", func(t *testing.T) store.Config {
			return store.Config{Path: withTables(t, filepath.Join(t.TempDir(), "rows.db"))}
		}, 1},
		{"PostgreSQL", func(t *testing.T) store.Config { return store.Config{URL: postgresTables(t)} }, 3},
	} {
		t.Run(where.name, func(t *testing.T) {
			config := where.config(t)
			var dbs []*store.DB
			for range where.opened {
				db, err := store.Open(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				dbs = append(dbs, db)
			}
			schedulersRace(t, dbs)
		})
	}
}

func schedulersRace(t *testing.T, dbs []*store.DB) {
	const org = store.DefaultOrganization
	a, err := dbs[0].CreateAutomation(t.Context(), event.Automation{Organization: org, Name: "Nightly", Enabled: true, CreatedBy: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 4, 12, 0, 45, 0, time.UTC)
	want := map[string]int{}
	for i := range 8 {
		due := now.Truncate(time.Minute)
		s, err := dbs[0].CreateSchedule(t.Context(), event.Schedule{
			Organization: org, Automation: a.ID, Name: fmt.Sprintf("Often %d", i), Cron: "*/10 * * * * *", TimeZone: "Europe/Berlin",
			Enabled: true, Missed: event.MissedOnce, NextAt: &due, CreatedBy: "ann",
		})
		if err != nil {
			t.Fatal(err)
		}
		for at := due; !at.After(now); at = at.Add(10 * time.Second) {
			want[s.ID+" "+at.Format(time.RFC3339)] = 1
		}
	}
	runs := runSchedulers(t, dbs, now, len(want))
	page, err := dbs[0].ListEvents(t.Context(), event.RecordFilter{Organization: org, Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range page.Items {
		if got[r.Trigger+" "+r.Key]++; r.Run == "" {
			t.Errorf("%s at %s has no run", r.Trigger, r.Key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || runs != len(want) {
		t.Errorf("%d runs were told of:\n%s", runs, diff)
	}
}

// runSchedulers lets three run at a time that stands still until there were as
// many runs as are due, and a round more; it returns how many they told of.
func runSchedulers(t *testing.T, dbs []*store.DB, now time.Time, due int) (runs int) {
	t.Helper()
	v, err := vault.New(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	all := make(chan struct{})
	began := func(list []event.Run) {
		mu.Lock()
		defer mu.Unlock()
		if runs += len(list); runs == due {
			close(all)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var running sync.WaitGroup
	for i := range 3 {
		s, err := schedule.NewScheduler(schedule.Config{
			Rows: dbs[i%len(dbs)], Vault: v, JSON: &redact.JSON{}, NewID: newID, Timing: schedule.Timing{Every: 10 * time.Millisecond}, Began: began, Now: func() time.Time { return now },
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = s.Run(ctx) })
	}
	select {
	case <-all:
	case <-ctx.Done():
	}
	time.Sleep(50 * time.Millisecond)
	stop()
	running.Wait()
	return runs
}
