package store_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store"
)

// A run that waits, as an event makes it.
const aRun = `
INSERT INTO automations (organization_id, id, name, enabled, instructions, created_by, created_at, updated_at) VALUES ('default', 'a', 'A', true, '', 'me', now(), now());
INSERT INTO events (id, organization_id, trigger_id, automation_id, provider, type, dedup_key, title, created_at) VALUES ('e', 'default', 't', 'a', 'github', 'issue', 'k', 'Bug', now());
INSERT INTO runs (id, organization_id, automation_id, event_id, trigger_id, status, attempt, created_at) VALUES ('r', 'default', 'a', 'e', 't', 'queued', 0, now());
INSERT INTO outbox (id, organization_id, run_id, status, attempt, next_at, created_at) VALUES ('o', 'default', 'r', 'pending', 0, now(), now());`

var lostRunClaim = event.Claim{Organization: store.DefaultOrganization, By: "worker", Lease: time.Minute, Life: time.Hour}

// TestRunsAfterLostConnection breaks the connection at the commits of a worker's claim and of
// its end: the run is claimed once, with one session, and ended once.
func TestRunsAfterLostConnection(t *testing.T) {
	for how, moment := range map[cut]string{beforeIt: "before", afterIt: "after", withIt: "with"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			url := migrated(t)
			p := newProxy(t, url)
			db := open(t, store.Config{URL: p.url})
			runSQL(t, url, aRun)

			p.cutAt("commit\x00", how, 0)
			w, err := db.ClaimRun(t.Context(), lostRunClaim)
			if err != nil || p.happened() != 1 {
				t.Fatalf("claiming: %v; %d cuts", err, p.happened())
			}
			sessions, err := db.ListSessions(t.Context(), action.SessionFilter{Organization: store.DefaultOrganization})
			if err != nil || sessions.Total != 1 || sessions.Items[0].ID != w.Run.Session {
				t.Fatalf("%d sessions (%v), want that of the run alone", sessions.Total, err)
			}
			if _, err := db.ClaimRun(t.Context(), lostRunClaim); !errors.Is(err, action.ErrNotFound) {
				t.Fatalf("claiming it a second time: %v", err)
			}

			p.cutAt("commit\x00", how, 0)
			ended, _, err := db.FinishRun(t.Context(), w.Run.Organization, w.Run.ID, w.Run.Claim, event.RunResult{Status: event.RunSucceeded})
			if err != nil || ended.Status != event.RunSucceeded || p.happened() != 1 {
				t.Fatalf("finishing: %v, %+v; %d cuts", err, ended, p.happened())
			}
			if r, err := db.Run(t.Context(), w.Run.Organization, w.Run.ID); err != nil || r.Status != event.RunSucceeded || r.Attempt != 1 {
				t.Errorf("in the end: %+v, %v", r, err)
			}
		})
	}
}

// TestClaimAfterLostResponse: who asked is gone before the answer. Nobody else
// gets the run until its lease is over.
func TestClaimAfterLostResponse(t *testing.T) {
	url := migrated(t)
	p := newProxy(t, url)
	db, other := open(t, store.Config{URL: p.url, RetryFor: 2 * time.Second}), open(t, store.Config{URL: url})
	runSQL(t, url, aRun)
	p.cutAt("commit\x00", afterIt, 0)
	p.l.Close() // it comes not back either
	if _, err := db.ClaimRun(t.Context(), lostRunClaim); !errors.Is(err, action.ErrUnavailable) {
		t.Fatalf("the claim that is lost: %v", err)
	}
	if p.happened() != 1 { // a busy machine may give up before the claim is sent
		t.Fatalf("%d cuts", p.happened())
	}
	if _, err := other.ClaimRun(t.Context(), lostRunClaim); !errors.Is(err, action.ErrNotFound) {
		t.Fatalf("claiming it a second time: %v", err)
	}
	if _, _, err := other.SweepRuns(t.Context(), other.Now().Add(2*time.Minute), 10); err != nil {
		t.Fatal(err)
	}
	if w, err := other.ClaimRun(t.Context(), lostRunClaim); err != nil || w.Run.Attempt != 2 {
		t.Errorf("claiming it when the lease is over: %+v, %v", w.Run, err)
	}
}

// runSQL has text executed beside the store.
func runSQL(t *testing.T, url, text string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}
