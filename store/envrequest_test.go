package store

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/store/requests"
)

func envKeys(names ...string) []action.EnvKey {
	keys := make([]action.EnvKey, len(names))
	for i, n := range names {
		keys[i] = action.EnvKey{Key: n, Type: "secret", Description: "the agent's words"}
	}
	return keys
}

func asksEnv(t *testing.T, db *DB, s action.Session, names ...string) action.EnvRequest {
	t.Helper()
	r, made, err := db.RequestEnv(t.Context(), s.Organization, s.ID, envKeys(names...))
	if err != nil || !made {
		t.Fatalf("%v, %v", made, err)
	}
	return r
}

func answersEnv(t *testing.T, db *DB, id, values string) {
	t.Helper()
	if _, err := db.DecideEnv(t.Context(), action.EnvVerdict{Organization: "default", ID: id, By: "ada", Sealed: []byte(values), Names: []string{"A"}}); err != nil {
		t.Fatal(err)
	}
}

func takes(t *testing.T, db *DB, s action.Session, key string) (values []string) {
	t.Helper()
	list, err := db.TakeEnv(t.Context(), s.Organization, s.ID, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		values = append(values, string(v.Sealed))
	}
	return values
}

func TestEnvRequestLifecycle(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, raw *sql.DB) {
		s := liveSession(t, db)
		r := asksEnv(t, db, s, "A", "B")
		same, made, err := db.RequestEnv(t.Context(), s.Organization, s.ID, envKeys("A", "B"))
		if diff := cmp.Diff(r, same); diff != "" || made || err != nil {
			t.Errorf("asking again for the same, %v %v:\n%s", made, err, diff)
		}
		if values := takes(t, db, s, "k0"); values != nil {
			t.Errorf("there are values before a person answered: %v", values)
		}
		answersEnv(t, db, r.ID, "sealed values")
		_, err = db.DecideEnv(t.Context(), action.EnvVerdict{Organization: "default", ID: r.ID, By: "bob", Note: "no"})
		refusedAs(t, err, action.ErrConflict, "already_decided")
		if diff := cmp.Diff([]string{"sealed values"}, takes(t, db, s, "k1")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"sealed values"}, takes(t, db, s, "k1")); diff != "" {
			t.Errorf("the answer was lost, and the same key asks again:\n%s", diff)
		}
		if values := takes(t, db, s, "k2"); values != nil {
			t.Errorf("handed out twice: %v", values)
		}
		if n, err := db.SweepEnv(t.Context(), db.db.Now(), 10); n != 0 || err != nil {
			t.Errorf("swept too early: %d, %v", n, err)
		}
		if n, err := db.SweepEnv(t.Context(), db.db.Now().Add(requests.EnvRepeatWindow), 10); n != 1 || err != nil {
			t.Errorf("not wiped: %d, %v", n, err)
		}
		if values := takes(t, db, s, "k1"); values != nil {
			t.Errorf("wiped values are there: %v", values)
		}
		var kept int
		if err := raw.QueryRowContext(t.Context(), `SELECT count(*) FROM env_requests WHERE sealed IS NOT NULL`).Scan(&kept); err != nil || kept != 0 {
			t.Errorf("%d rows hold values, %v", kept, err)
		}
		now, err := db.EnvRequest(t.Context(), "default", r.ID)
		if err != nil || now.Status != action.EnvTaken || now.TakenAt == nil || now.DecidedBy != "ada" {
			t.Errorf("%+v, %v", now, err)
		}
		events, err := db.PolicyEvents(t.Context(), action.PolicyEventFilter{Organization: "default", Kind: action.EventEnv, Subject: r.ID})
		want := fmt.Sprintf(`{"asked":["A","B"],"given":["A"],"session_id":%q,"status":"answered"}`, s.ID)
		if err != nil || len(events.Items) != 1 || string(events.Items[0].After) != want {
			t.Errorf("on record: %+v, %v", events.Items, err)
		}
	})
}

func TestTakeEnvConcurrently(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, _ *sql.DB) {
		s := liveSession(t, db)
		answersEnv(t, db, asksEnv(t, db, s, "A").ID, "v")
		var wait sync.WaitGroup
		var mu sync.Mutex
		got := 0
		for i := range 32 {
			wait.Go(func() {
				list, err := db.TakeEnv(t.Context(), s.Organization, s.ID, fmt.Sprint("k", i))
				mu.Lock()
				defer mu.Unlock()
				if got += len(list); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if got != 1 {
			t.Errorf("handed out %d times", got)
		}
	})
}

func TestEnvRequestsExpire(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, _ *sql.DB) {
		s, other := liveSession(t, db), liveSession(t, db)
		refused, waits, answered := asksEnv(t, db, s, "A"), asksEnv(t, db, s, "B"), asksEnv(t, db, s, "C")
		r, err := db.DecideEnv(t.Context(), action.EnvVerdict{Organization: "default", ID: refused.ID, By: "ada", Note: "Not that one."})
		if err != nil || r.Status != action.EnvRefused || r.Note != "Not that one." {
			t.Errorf("%+v, %v", r, err)
		}
		answersEnv(t, db, answered.ID, "v")
		if values := takes(t, db, other, "k"); values != nil {
			t.Errorf("another session took %v", values)
		}
		_, err = db.DecideEnv(t.Context(), action.EnvVerdict{Organization: "org2", ID: waits.ID, By: "zed", Sealed: []byte("v")})
		refusedAs(t, err, action.ErrNotFound, "env_request_not_found")
		if n, err := db.SweepEnv(t.Context(), db.db.Now().Add(requests.EnvRequestLifetime+time.Minute), 10); n != 2 || err != nil {
			t.Errorf("expired %d, %v", n, err)
		}
		_, err = db.DecideEnv(t.Context(), action.EnvVerdict{Organization: "default", ID: waits.ID, By: "ada", Sealed: []byte("v")})
		refusedAs(t, err, action.ErrGone, "request_expired")
		if values := takes(t, db, s, "k"); values != nil {
			t.Errorf("expired values: %v", values)
		}

		over := asksEnv(t, db, other, "A")
		if _, err := db.RevokeSession(t.Context(), "default", other.ID); err != nil {
			t.Fatal(err)
		}
		_, err = db.DecideEnv(t.Context(), action.EnvVerdict{Organization: "default", ID: over.ID, By: "ada", Sealed: []byte("v")})
		refusedAs(t, err, action.ErrConflict, "session_over")
		if n, err := db.SweepEnv(t.Context(), db.db.Now(), 10); n != 1 || err != nil {
			t.Errorf("of a session that is over %d, %v", n, err)
		}
	})
}

func TestEnvRequestLimit(t *testing.T) {
	onBothOpen(t, func(t *testing.T, db *DB, _ *sql.DB) {
		s := liveSession(t, db)
		for i := range requests.MaxEnvRequests {
			asksEnv(t, db, s, fmt.Sprint("A", i))
		}
		_, _, err := db.RequestEnv(t.Context(), s.Organization, s.ID, envKeys("Z"))
		refusedAs(t, err, action.ErrTooMany, "too_many_requests")
		for _, keys := range [][]action.EnvKey{nil, envKeys("1A"), envKeys("A", "A"), {{Key: "A", Type: "x"}}, {{Key: "A", Suggestions: []action.EnvSuggestion{{}}}}, make([]action.EnvKey, 51)} {
			if _, _, err := db.RequestEnv(t.Context(), s.Organization, s.ID, keys); action.Public(err).Code != "invalid_params" {
				t.Errorf("%v: %v", keys, err)
			}
		}
		page, err := db.ListEnvRequests(t.Context(), action.EnvFilter{Organization: s.Organization, Session: s.ID, Status: action.EnvPending, Limit: 3})
		if err != nil || len(page.Items) != 3 || page.Total != requests.MaxEnvRequests || page.Next == "" {
			t.Errorf("%+v, %v", page, err)
		}
		waiting, err := db.CountWaiting(t.Context(), s.Organization)
		if err != nil || waiting != (action.InboxCounts{Variables: requests.MaxEnvRequests}) {
			t.Errorf("%+v wait, %v", waiting, err)
		}
	})
}
