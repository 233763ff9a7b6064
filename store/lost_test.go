package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/store"
)

// lostCase is one write of the store and how to see that it was done once.
type lostCase struct {
	cut   string // the query that is cut
	spare int
	do    func(l *lostWorld) error
	check func(l *lostWorld) error
}

// lostWorld is a store whose connections break.
type lostWorld struct {
	*store.DB
	ctx context.Context
	s   action.Session
	d   *action.Draft // held
	v   action.Verdict
}

func newLostWorld(t *testing.T, url string) *lostWorld {
	db := open(t, store.Config{URL: url, FlushAfter: time.Hour, Log: slog.New(slog.NewTextHandler(testLog{t}, nil))})
	s, err := db.CreateSession(t.Context(), action.Session{Organization: store.DefaultOrganization, CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	l := &lostWorld{DB: db, ctx: t.Context(), s: s}
	l.d = l.held(`{"first":1}`)
	l.v = action.Verdict{Organization: s.Organization, ID: l.d.ID, By: "alice", Now: time.Now()}
	if _, err := db.Begin(t.Context(), l.d); err != nil {
		t.Fatal(err)
	}
	return l
}

// testLog fails the test that logs: nothing is lost for good.
type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Errorf("logged: %s", line)
	return len(line), nil
}

func (l *lostWorld) held(params string) *action.Draft {
	d := crashDraft(l.s, params)
	expires := time.Now().Add(time.Minute)
	d.Status, d.Mode, d.ExpiresAt, d.Joins, d.MaxPending = action.StatusPending, action.ModeRequireApproval, &expires, true, 2
	d.Executor, d.LeaseUntil, d.DeniedSince = "", time.Time{}, time.Now().Add(-time.Minute)
	return d
}

// fresh begins a draft that must be new.
func (l *lostWorld) fresh(d *action.Draft) error {
	b, err := l.Begin(l.ctx, d)
	if err == nil && (!b.Created || b.ID != d.ID) {
		err = fmt.Errorf("row %s (new %t), want %s", b.ID, b.Created, d.ID)
	}
	return err
}

func (l *lostWorld) approve() error {
	inv, err := l.Approve(l.ctx, l.v)
	if err == nil && (inv.Status != action.StatusApproved || inv.ApprovedBy != "alice") {
		err = fmt.Errorf("approved: %+v", inv)
	}
	return err
}

func (l *lostWorld) claim() error {
	rec, err := l.Claim(l.ctx, action.Claim{
		Organization: l.s.Organization, ID: l.d.ID, Executor: "e", Now: time.Now(), LeaseUntil: time.Now().Add(time.Minute),
	})
	if err == nil && (rec.Executor != "e" || rec.Status != action.StatusExecuting) {
		err = fmt.Errorf("claimed: %+v", rec)
	}
	return err
}

func (l *lostWorld) finish(id string) error {
	inv, recorded, err := l.Finish(l.ctx, &action.Finish{
		Organization: l.s.Organization, ID: id, Executor: "e", Status: action.StatusCompleted, Now: time.Now(), Result: []byte(`{}`),
	})
	if err == nil && (!recorded || inv.Status != action.StatusCompleted) {
		err = fmt.Errorf("finished: recorded %t, %+v", recorded, inv)
	}
	return err
}

// rows checks how many there are of a status.
func (l *lostWorld) rows(want int, status action.Status) error {
	p, err := l.ListInvocations(l.ctx, action.InvocationFilter{Organization: l.s.Organization, Statuses: []action.Status{status}})
	if err == nil && p.Total != want {
		err = fmt.Errorf("%d rows are %s, want %d", p.Total, status, want)
	}
	return err
}

func count(status action.Status, want int) func(*lostWorld) error {
	return func(l *lostWorld) error { return l.rows(want, status) }
}

var lostCases = map[string]lostCase{
	"a held call begins": {
		cut: "commit\x00", check: count(action.StatusPending, 2),
		do: func(l *lostWorld) error { return l.fresh(l.held(`{"a":1}`)) }, // the last that may wait
	},
	"its row is cut": {
		cut: "INSERT INTO open_calls", check: count(action.StatusPending, 2),
		do: func(l *lostWorld) error { return l.fresh(l.held(`{"a":1}`)) },
	},
	"a held call with a key begins": {
		cut: "commit\x00", check: count(action.StatusPending, 2),
		do: func(l *lostWorld) error {
			d := l.held(`{"a":1}`)
			d.IdempotencyKey = "k"
			return l.fresh(d)
		},
	},
	"a call that a person refused is refused again": {
		cut: "commit\x00", check: count(action.StatusDenied, 2),
		do: func(l *lostWorld) error { return l.fresh(l.held(`{"first":1}`)) },
	},
	"a write begins and joins nothing": {
		cut: "commit\x00", check: count(action.StatusExecuting, 1),
		do: func(l *lostWorld) error { return l.fresh(crashDraft(l.s, `{"a":1}`)) },
	},
	"a repeat joins": {
		cut: "commit\x00", check: count(action.StatusPending, 1),
		do: func(l *lostWorld) error {
			b, err := l.Begin(l.ctx, l.held(`{"first":1}`))
			if err == nil && (b.Created || b.ID != l.d.ID) {
				err = errors.New("it did not join")
			}
			return err
		},
	},
	"approve": {cut: "SET status = 'approved'", check: count(action.StatusApproved, 1), do: (*lostWorld).approve},
	"claim":   {cut: "SET status = 'executing'", check: count(action.StatusExecuting, 1), do: (*lostWorld).claim},
	"finish":  {cut: "executor = $16 RETURNING", check: count(action.StatusCompleted, 1), do: func(l *lostWorld) error { return l.finish(l.d.ID) }},
	"deny":    {cut: "DELETE FROM open_calls", check: count(action.StatusDenied, 1), do: func(l *lostWorld) error { _, err := l.Deny(l.ctx, l.v); return err }},
	"withdraw": {cut: "DELETE FROM open_calls", check: count(action.StatusDenied, 1), do: func(l *lostWorld) error {
		_, err := l.Withdraw(l.ctx, l.s.Organization, l.d.ID, time.Now())
		return err
	}},
	"a late end": {
		cut: "INSERT INTO \"invocation_events\"",
		do: func(l *lostWorld) error {
			_, recorded, err := l.Finish(l.ctx, &action.Finish{Organization: l.s.Organization, ID: l.d.ID, Executor: "e", Status: action.StatusCompleted, Now: time.Now()})
			if recorded {
				return errors.New("it was recorded")
			}
			return err
		},
		check: func(l *lostWorld) error {
			if list, err := l.Events(l.ctx, l.s.Organization, l.d.ID); err != nil || len(list) != 1 {
				return fmt.Errorf("events %+v, %w", list, err)
			}
			return nil
		},
	},
	"a read is queued and ends": {
		cut: "INSERT INTO invocations", check: count(action.StatusCompleted, 1),
		do: func(l *lostWorld) error {
			d := crashDraft(l.s, `{"r":1}`)
			d.Snapshot = true
			if err := l.fresh(d); err != nil {
				return err
			}
			return l.finish(d.ID)
		},
	},
	"a user is made": {
		cut: "commit\x00", check: func(l *lostWorld) error { _, err := l.User(l.ctx, l.s.Organization, "u"); return err },
		do: func(l *lostWorld) error {
			return l.CreateUser(l.ctx, action.User{ID: "u", Organization: l.s.Organization, Name: "Ada", Role: action.RoleOwner}, "me")
		},
	},
	"a session is revoked": {
		cut: "commit\x00", check: count(action.StatusDenied, 1),
		do: func(l *lostWorld) error {
			withdrew, err := l.RevokeSession(l.ctx, l.s.Organization, l.s.ID)
			if err == nil && len(withdrew) != 1 {
				err = fmt.Errorf("withdrew %d calls", len(withdrew))
			}
			return err
		},
	},
	"policy moves once": {
		cut: "commit\x00",
		do: func(l *lostWorld) error {
			return l.SetOverride(l.ctx, action.Override{Organization: l.s.Organization, Key: action.Key{Source: "*", Action: "*"}, Mode: action.ModeDeny, UpdatedBy: "alice"})
		},
		check: func(l *lostWorld) error {
			if v, err := l.PolicyVersion(l.ctx, l.s.Organization); err != nil || v != 2 {
				return fmt.Errorf("version %d, %w", v, err)
			}
			return nil
		},
	},
}

// prepare brings the held call where the case begins.
func (l *lostWorld) prepare(name string) error {
	switch name {
	case "claim", "finish":
		if err := l.approve(); err != nil || name == "claim" {
			return err
		}
		return l.claim()
	case "a call that a person refused is refused again", "a late end":
		_, err := l.Deny(l.ctx, l.v)
		return err
	}
	return nil
}

// TestRetryAfterLostConnection breaks the connection at each write: before the server
// sees it, while it does, and after it has done it. The caller must hear of
// its one success, and the row be there once.
func TestRetryAfterLostConnection(t *testing.T) {
	cases := maps.Clone(lostCases)
	maps.Copy(cases, lostGrantCases)
	maps.Copy(cases, lostAskCases)
	for how, moment := range map[cut]string{beforeIt: "before", afterIt: "after", withIt: "with"} {
		for name, c := range cases {
			t.Run(moment+"/"+name, func(t *testing.T) {
				t.Parallel()
				url := migrated(t)
				p := newProxy(t, url)
				l := newLostWorld(t, p.url)
				if err := l.prepare(name); err != nil {
					t.Fatal(err)
				}
				p.cutAt(c.cut, how, c.spare)
				if err := c.do(l); err != nil {
					t.Fatal(err)
				}
				if p.happened() != 1 {
					t.Fatalf("%q was cut %d times", c.cut, p.happened())
				}
				if err := c.check(l); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestRetryDoesNotClaimOtherVerdict: a retry must not take another's success for its
// own.
func TestRetryDoesNotClaimOtherVerdict(t *testing.T) {
	url := migrated(t)
	p := newProxy(t, url)
	l, other := newLostWorld(t, p.url), open(t, store.Config{URL: url})
	// The retry is held back until the other one has approved.
	p.cutAt("SET status = 'approved'", beforeIt, 0)
	arrived, release := p.holdAt("SET status = 'approved'")
	done := make(chan error, 1)
	v := l.v
	v.By = "bob"
	go func() { _, err := l.Approve(l.ctx, l.v); done <- err }()
	<-arrived
	_, err := other.Approve(t.Context(), v)
	release()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, action.ErrConflict) {
		t.Errorf("the second approval: %v", err)
	}
}

func TestDatabaseUnavailable(t *testing.T) {
	p := newProxy(t, migrated(t))
	db := open(t, store.Config{URL: p.url, RetryFor: 300 * time.Millisecond, FlushAfter: time.Millisecond})
	s, err := db.CreateSession(t.Context(), action.Session{Organization: store.DefaultOrganization, CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	p.l.Close()
	p.breakAll()
	started := time.Now()
	for name, call := range map[string]func() error{
		"begin":   func() error { _, err := db.Begin(t.Context(), crashDraft(s, uuid.NewString())); return err },
		"approve": func() error { _, err := db.Approve(t.Context(), action.Verdict{ID: "x", By: "a"}); return err },
		"load":    func() error { _, err := db.Load(t.Context(), s.Organization, "x"); return err },
		"session": func() error { _, err := db.Session(t.Context(), s.ID); return err },
		"policy":  func() error { _, err := db.PolicyVersion(t.Context(), s.Organization); return err },
		"list": func() error {
			_, err := db.ListInvocations(t.Context(), action.InvocationFilter{Organization: s.Organization})
			return err
		},
		"user": func() error {
			return db.CreateUser(t.Context(), action.User{ID: "u", Organization: s.Organization, Name: "A", Role: action.RoleOwner}, "me")
		},
		"finish": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, _, err := db.Finish(ctx, &action.Finish{Organization: s.Organization, ID: "x", Status: action.StatusCompleted, Now: time.Now()})
			return err
		},
	} {
		var e *action.Error
		err := call()
		if !errors.As(err, &e) || !errors.Is(err, action.ErrNotReady) || e.Code != "database_unavailable" || !strings.Contains(e.Message, "Try again") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := db.Ping(t.Context()); err == nil {
		t.Error("it answers")
	}
	if d := time.Since(started); d > 20*time.Second {
		t.Errorf("all that took %v", d)
	}
}
