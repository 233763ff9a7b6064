package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/dbtest"
	"sallyport/store"
	"sallyport/store/database"
)

// TestRestartsUnderLoad ends the server three times in the middle of calls,
// once in good order. Each call must go on, and what was acknowledged be there
// as it was acknowledged.
func TestRestartsUnderLoad(t *testing.T) {
	server := dbtest.NewPostgres(t)
	db := open(t, store.Config{URL: server.URL, FlushAfter: time.Millisecond})
	s, err := db.CreateSession(t.Context(), action.Session{Organization: store.DefaultOrganization, CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	cancel := make(chan struct{})
	var callers sync.WaitGroup
	var done atomic.Int64
	acknowledged := make([]map[string]action.Status, 8)
	for n := range acknowledged {
		acknowledged[n] = map[string]action.Status{}
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-cancel:
					return
				default:
				}
				if err := callOnce(context.Background(), db, s, fmt.Sprintf(`{"n":%d,"i":%d}`, n, i), i%3, acknowledged[n]); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	// work waits until n more calls have ended: however slow the machine is,
	// each end of the server comes in the middle of calls.
	work := func(n int64) {
		until := done.Load() + n
		for deadline := time.Now().Add(time.Minute); done.Load() < until && !t.Failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%d calls ended, %d were awaited", done.Load(), until)
				return
			}
		}
	}
	for _, end := range []func(){server.Kill, server.Stop, server.Kill} {
		work(20)
		end()
		time.Sleep(100 * time.Millisecond)
		server.Start()
	}
	work(20)
	close(cancel)
	callers.Wait()
	total := 0
	for _, own := range acknowledged {
		for id, want := range own {
			if rec, err := db.Load(t.Context(), s.Organization, id); err != nil || rec.Status != want {
				t.Errorf("%s is %q, was acknowledged as %s (%v)", id, rec.Status, want, err)
			}
			total++
		}
	}
	if total < 80 {
		t.Errorf("only %d calls were acknowledged", total)
	}
}

// callOnce does what a gateway does for one call: a write, a read, or one that
// is held, approved and claimed. It notes what it was told.
func callOnce(ctx context.Context, db *store.DB, s action.Session, params string, kind int, acknowledged map[string]action.Status) error {
	d := crashDraft(s, params)
	d.Snapshot, d.Joins = kind == 1, kind != 1
	if kind == 2 {
		expires := time.Now().Add(time.Minute)
		d.Status, d.Mode, d.ExpiresAt, d.Executor, d.LeaseUntil = action.StatusPending, action.ModeRequireApproval, &expires, "", time.Time{}
	}
	b, err := db.Begin(ctx, d)
	if err != nil || !b.Created || b.ID != d.ID {
		return fmt.Errorf("begin: new %t, %w", b.Created, err)
	}
	if kind != 1 {
		acknowledged[d.ID] = d.Status
	}
	if kind == 2 {
		if _, err := db.Approve(ctx, action.Verdict{Organization: s.Organization, ID: d.ID, By: "alice", Now: time.Now()}); err != nil {
			return fmt.Errorf("approve: %w", err)
		}
		acknowledged[d.ID] = action.StatusApproved
		if _, err := db.Claim(ctx, action.Claim{Organization: s.Organization, ID: d.ID, Executor: "e", Now: time.Now(), LeaseUntil: time.Now().Add(time.Minute)}); err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		acknowledged[d.ID] = action.StatusExecuting
	}
	_, recorded, err := db.Finish(ctx, &action.Finish{
		Organization: s.Organization, ID: d.ID, Executor: "e", Status: action.StatusCompleted, Now: time.Now(),
	})
	if err != nil || !recorded {
		return fmt.Errorf("finish: recorded %t, %w", recorded, err)
	}
	acknowledged[d.ID] = action.StatusCompleted
	return db.MarkDelivered(ctx, s.Organization, d.ID, time.Now())
}

// TestHangingServer: connections are open and nothing is answered.
func TestHangingServer(t *testing.T) {
	server := dbtest.NewPostgres(t)
	db := open(t, store.Config{URL: server.URL, RetryFor: 500 * time.Millisecond})
	s, err := db.CreateSession(t.Context(), action.Session{Organization: store.DefaultOrganization, CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	// The first one has a connection that was good a moment ago.
	for _, call := range []func() error{
		func() error { _, err := db.Load(t.Context(), s.Organization, "x"); return err },
		func() error { _, err := db.Begin(t.Context(), crashDraft(s, `{"a":1}`)); return err },
		func() error { _, err := db.Session(t.Context(), s.ID); return err },
	} {
		server.Pause()
		if err := call(); !errors.Is(err, action.ErrUnavailable) {
			t.Error(err)
		}
		server.Resume()
		recovers(t, func() error { _, err := db.Session(t.Context(), s.ID); return err })
	}
	if _, err := db.Begin(t.Context(), crashDraft(s, `{"a":2}`)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestReadsOfAHangingServer are asked by what runs for as long as the program,
// with a context that never ends.
func TestReadsOfAHangingServer(t *testing.T) {
	server := dbtest.NewPostgres(t)
	db := open(t, store.Config{URL: server.URL, RetryFor: 500 * time.Millisecond})
	ctx, org, now := context.Background(), store.DefaultOrganization, time.Now()
	reads := map[string]func() error{
		"unclaimed":    func() error { _, err := db.Unclaimed(ctx, now, 10); return err },
		"settled":      func() error { _, err := db.Settled(ctx, []string{"x"}); return err },
		"sweep":        func() error { _, err := db.Sweep(ctx, action.SweepRules{Now: now}); return err },
		"MCP sessions": func() error { _, err := db.SweepMCPSessions(ctx, now, 10); return err },
		"versions":     func() error { _, err := db.Versions(ctx); return err },
		"signals":      func() error { _, err := db.Signals(ctx, now, 10); return err },
		"ended":        func() error { _, err := db.MCPSessionEnded(ctx, org, "x"); return err },
		"connectors":   func() error { _, err := db.ListConnectors(ctx, org); return err },
		"overrides":    func() error { _, _, err := db.Overrides(ctx, org); return err },
		"policy":       func() error { _, err := db.PolicyVersion(ctx, org); return err },
		"organization": func() error { _, err := db.Organization(ctx, org); return err },
		"calls": func() error {
			_, err := db.ListInvocations(ctx, action.InvocationFilter{Organization: org})
			return err
		},
		"sessions": func() error { _, err := db.ListSessions(ctx, action.SessionFilter{Organization: org}); return err },
		"events":   func() error { _, err := db.Events(ctx, org, "x"); return err },
		"secrets":  func() error { _, err := db.ListSecrets(ctx, org); return err },
		"users":    func() error { _, err := db.ListUsers(ctx, org); return err },
		"API key":  func() error { _, _, err := db.APIKey(ctx, "x"); return err },
		"API keys": func() error { _, err := db.ListAPIKeys(ctx, org); return err },
		"login":    func() error { _, _, err := db.Login(ctx, "x"); return err },
	}
	ask := func() map[string]error {
		type answer struct {
			name string
			err  error
		}
		answers, all := make(chan answer, len(reads)), map[string]error{}
		for name, read := range reads {
			go func() { answers <- answer{name, read()} }()
		}
		for deadline := time.After(20 * time.Second); len(all) < len(reads); {
			select {
			case a := <-answers:
				all[a.name] = a.err
			case <-deadline:
				return all
			}
		}
		return all
	}
	ask() // all connections are good
	server.Pause()
	all := ask()
	server.Resume()
	for name := range reads {
		if err, answered := all[name]; !answered || !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("%s: answered %t, error %v", name, answered, err)
		}
	}
	recovers(t, func() error {
		var all error
		for name, err := range ask() {
			if errors.Is(err, action.ErrUnavailable) {
				all = errors.Join(all, fmt.Errorf("%s: %w", name, err))
			}
		}
		return all
	})
}

// recovers asks until the server, which was paused, answers. A server on a busy
// machine needs longer than one attempt to take connections again.
func recovers(t *testing.T, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("afterwards: %v", err)
			return
		}
	}
}

// TestConcurrentMigration, also where a transaction sees by default only what
// was there when it began, and by clocks that are hours off.
func TestConcurrentMigration(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			to := dbtest.Postgres(t)
			u, err := url.Parse(to)
			if err != nil {
				t.Fatal(err)
			}
			change(t, to, fmt.Sprintf("ALTER DATABASE %q SET default_transaction_isolation = '%s'", u.Path[1:], isolation))
			skewed := func() time.Time { return time.Now().Add(-5 * time.Hour) }
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if _, err := database.Migrate(t.Context(), store.Config{URL: to, MaxConns: 2, Now: skewed}); err != nil {
						t.Error(err)
					}
					db, err := store.Open(t.Context(), store.Config{URL: to, MaxConns: 2, Now: skewed})
					if err != nil {
						t.Error(err)
						return
					}
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			list, err := database.MigrationStatus(t.Context(), store.Config{URL: to})
			if err != nil || len(list) == 0 {
				t.Fatalf("%+v, %v", list, err)
			}
			for _, m := range list {
				if m.AppliedAt == nil || time.Since(*m.AppliedAt).Abs() > time.Hour {
					t.Errorf("%s was applied at %v", m.Name, m.AppliedAt)
				}
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	const password = "hunter2"
	u, err := url.Parse(dbtest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("postgres", password)
	gone := *u
	gone.Host = "127.0.0.1:1"
	none := *u
	none.Path = "/nowhere"
	for text, want := range map[string][]string{
		gone.String():                           {"127.0.0.1:1", u.Path[1:], "cannot be reached", "check that it is running"},
		none.String():                           {u.Host, `"nowhere"`, "does not exist"},
		"postgres://u:" + password + "@h:port/": {"has the form postgres://user:password@host"},
		"postgres://u:" + password + "@h/d?sslmode=maybe": {"has the form", "sslmode is invalid"},
		"mysql://u:" + password + "@h/d":                  {"has the form"},
		"host=h user=u password=" + password:              {"has the form"},
		"postgres://u:" + password + "%zz@h/d":            {"has the form"},
	} {
		for name, open := range map[string]func() error{
			"open":    func() error { _, err := store.Open(t.Context(), store.Config{URL: text}); return err },
			"migrate": func() error { _, err := database.Migrate(t.Context(), store.Config{URL: text}); return err },
			"status":  func() error { _, err := database.MigrationStatus(t.Context(), store.Config{URL: text}); return err },
		} {
			err := open()
			if err == nil || strings.Contains(err.Error(), password) {
				t.Errorf("%s of %s: %v", name, text, err)
				continue
			}
			for _, part := range want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s of %s: %v, want %s in it", name, text, err, part)
				}
			}
		}
	}
}
