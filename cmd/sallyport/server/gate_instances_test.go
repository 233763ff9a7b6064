package server

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/store/coord"
)

// These are the stories of two Gates over the same rows.

// twins are two houses on one database. Without hints each is on its own hub
// and knows that it hears nothing.
func twins(t *testing.T, hints bool, change ...func(*gate.Config)) (a, b *house) {
	t.Helper()
	together := func(c *gate.Config) {
		c.Alone, c.Hinted = false, func() bool { return hints }
		c.SweepEvery = 50 * time.Millisecond // slower than the other, which must not win by it
		c.ClaimGrace, c.ClaimGraceBlind = 300*time.Millisecond, time.Millisecond
		if !hints {
			c.ClaimGrace, c.ClaimGraceBlind = time.Millisecond, 600*time.Millisecond
		}
	}
	a = newHouse(t, append([]func(*gate.Config){together}, change...)...)
	b = &house{t: t, db: a.db, hub: a.hub, catalog: a.catalog, rules: a.rules, vault: a.vault, config: a.config, session: a.session}
	if !hints {
		b.hub = coord.NewHub()
		b.config.Hints = b.hub
	}
	b.config.SweepEvery = time.Millisecond
	b.start()
	return a, b
}

func TestHeldHereApprovedThere(t *testing.T) {
	t.Parallel()
	for name, hints := range map[string]bool{"with hints": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			a, b := twins(t, hints)
			e := &effects{}
			a.catalog.put(tool("write", action.RiskWrite, e.run))
			done := a.begin(t.Context(), a.call("write", `{}`))
			inv := b.pending()
			b.approve(inv.ID)
			a.want(a.get(done), action.StatusCompleted)
			if rec, err := a.db.Load(t.Context(), org, inv.ID); err != nil || rec.Executor != a.config.Instance || e.n.Load() != 1 {
				t.Errorf("run %d times by %s, want once by %s, where the caller waits (%v)", e.n.Load(), rec.Executor, a.config.Instance, err)
			}
		})
	}
}

func TestAnotherInstanceRunsForOneThatIsGone(t *testing.T) {
	t.Parallel()
	a, b := twins(t, false)
	e := &effects{}
	a.catalog.put(tool("write", action.RiskWrite, e.run))
	ctx, leave := context.WithCancelCause(t.Context())
	done := a.begin(ctx, a.call("write", `{}`))
	inv := b.pending()
	leave(action.ErrCallerGone)
	a.get(done)
	if err := a.gate.Drain(t.Context()); err != nil { // from now on it claims nothing
		t.Fatal(err)
	}
	b.approve(inv.ID)
	b.eventually("the other instance to run it", func() bool { return b.row(inv.ID).Status == action.StatusCompleted })
	if out := b.want(b.get(b.begin(t.Context(), b.call("write", `{}`))), action.StatusCompleted); !out.Repeated || out.Invocation.ID != inv.ID || e.n.Load() != 1 {
		t.Errorf("the caller who came back got %s, repeated %v, after %d effects", out.Invocation.ID, out.Repeated, e.n.Load())
	}
}

// blackout is a ledger whose rows can be out of reach.
type blackout struct {
	action.Ledger
	dark atomic.Bool
}

func (l *blackout) Load(ctx context.Context, organization, id string) (action.Record, error) {
	if l.dark.Load() {
		return action.Record{}, action.Errorf(action.ErrUnavailable, "database_unavailable", "not now")
	}
	return l.Ledger.Load(ctx, organization, id)
}

func TestHeldCallOutlivesABlackout(t *testing.T) {
	t.Parallel()
	rows := &blackout{}
	h := newHouse(t, func(c *gate.Config) {
		rows.Ledger = c.Ledger
		c.Ledger = rows
	})
	e := &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	done := h.begin(t.Context(), h.call("write", `{}`))
	inv := h.pending()
	rows.dark.Store(true)
	h.approve(inv.ID)
	select {
	case a := <-done:
		t.Fatalf("answered in the dark: %+v, %v", a.Invocation, a.err)
	case <-time.After(100 * time.Millisecond):
	}
	rows.dark.Store(false)
	h.want(h.get(done), action.StatusCompleted)
	if e.n.Load() != 1 {
		t.Errorf("%d effects", e.n.Load())
	}
}

// shifted is a clock that a test moves.
type shifted struct{ by atomic.Int64 }

func (s *shifted) now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

func (s *shifted) move(d time.Duration) { s.by.Add(int64(d)) }

func TestAfterAGapNoCallerIsTakenForGone(t *testing.T) {
	t.Parallel()
	var clock shifted
	h := newHouse(t, func(c *gate.Config) {
		c.Now, c.HoldInteractive, c.SeenEvery = clock.now, 24*time.Hour, time.Hour
		c.AbandonAfter = 2 * time.Minute
	})
	h.catalog.put(tool("write", action.RiskWrite, (&effects{}).run))
	done := h.begin(t.Context(), h.call("write", `{}`))
	inv := h.pending()
	// The rows were out of reach for three hours; now every instance has two of
	// its intervals to say who waits, and does.
	clock.move(3 * time.Hour)
	h.gate.Sweep(t.Context())
	if got := h.row(inv.ID).Status; got != action.StatusPending {
		t.Fatalf("after the gap the call is %s", got)
	}
	h.approve(inv.ID)
	h.want(h.get(done), action.StatusCompleted)
}

func TestOldApprovalIsNotUsed(t *testing.T) {
	t.Parallel()
	var clock shifted
	e := &effects{}
	a, b := twins(t, false, func(c *gate.Config) {
		c.Now, c.ClaimWithin, c.HoldInteractive = clock.now, time.Minute, time.Hour
		c.ClaimGrace = time.Hour // nobody but the caller's own instance
		c.ClaimGraceBlind = time.Hour
	})
	a.catalog.put(tool("write", action.RiskWrite, e.run))
	ctx, leave := context.WithCancelCause(t.Context())
	done := a.begin(ctx, a.call("write", `{}`))
	inv := b.pending()
	leave(action.ErrCallerGone)
	a.get(done)
	b.approve(inv.ID)
	clock.move(2 * time.Minute)
	// Who comes back is told that it expired, and nothing runs.
	out, err := b.gate.Wait(t.Context(), &b.session, inv.ID, action.Waiting{Patience: action.Forever})
	if err != nil || out.Invocation.Status != action.StatusExpired || e.n.Load() != 0 {
		t.Errorf("status %s, %v, %d effects", out.Invocation.Status, err, e.n.Load())
	}
}

func TestUnprintableIdempotencyKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.catalog.put(tool("read", action.RiskRead, (&effects{}).run))
	for _, key := range []string{"\xff\xfe", "a\x00b", "line\nbreak"} {
		c := h.call("read", `{}`)
		c.IdempotencyKey = key
		var e *action.Error
		if _, err := h.gate.Call(t.Context(), &c); !errors.As(err, &e) || e.Code != "invalid_idempotency_key" {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

// Who is the last caller on his own instance does not see those elsewhere.
func TestCancelThereDoesNotEndTheWaitHere(t *testing.T) {
	t.Parallel()
	a, b := twins(t, true)
	e := &effects{}
	a.catalog.put(tool("write", action.RiskWrite, e.run))
	done := a.begin(t.Context(), a.call("write", `{}`))
	first := b.pending()
	ctx, leave := context.WithCancelCause(t.Context())
	joined := b.begin(ctx, b.call("write", `{}`))
	b.eventually("the other caller to wait", func() bool { return b.gate.Callers(first.ID) == 1 })
	leave(action.ErrCancelled)
	b.get(joined)
	b.eventually("a new row for who still waits", func() bool {
		rows := b.rows(action.StatusPending)
		return len(rows) == 1 && rows[0].ID != first.ID
	})
	b.approve(b.pending().ID)
	a.want(a.get(done), action.StatusCompleted)
	if e.n.Load() != 1 {
		t.Errorf("%d effects", e.n.Load())
	}
}

// unreachable is a ledger that cannot reach its rows.
type unreachable struct {
	action.Ledger
	away atomic.Bool
}

func (l *unreachable) gone() error {
	if !l.away.Load() {
		return nil
	}
	return action.Errorf(action.ErrUnavailable, "database_unavailable", "not now")
}

func (l *unreachable) Load(ctx context.Context, organization, id string) (action.Record, error) {
	if err := l.gone(); err != nil {
		return action.Record{}, err
	}
	return l.Ledger.Load(ctx, organization, id)
}

func (l *unreachable) Begin(ctx context.Context, d *action.Draft) (*action.BeginResult, error) {
	if err := l.gone(); err != nil {
		return nil, err
	}
	return l.Ledger.Begin(ctx, d)
}

// MarkAnswered is not answered before the rows are away.
func (l *unreachable) MarkAnswered(context.Context, string, string) error {
	for !l.away.Load() {
		time.Sleep(time.Millisecond)
	}
	return l.gone()
}

// Nobody is told that nothing happened when nobody can know.
func TestWhatIsToldWhileRowsAreOutOfReach(t *testing.T) {
	t.Parallel()
	rows := &unreachable{}
	h := newHouse(t, func(c *gate.Config) {
		rows.Ledger = c.Ledger
		c.Ledger = rows
	})
	h.catalog.put(tool("write", action.RiskWrite, (&effects{}).run))
	impatient := h.call("write", `{}`)
	impatient.Patience = 50 * time.Millisecond
	held := h.begin(t.Context(), impatient)
	id := h.pending().ID
	rows.away.Store(true)
	told := map[string]error{"whose patience is over": h.get(held).err}
	_, told["who asks where it stands"] = h.gate.Status(t.Context(), &h.session, id)
	_, told["who waits for it"] = h.gate.Wait(t.Context(), &h.session, id, action.Waiting{})
	for who, err := range told {
		var e *action.Error
		if !errors.As(err, &e) || !errors.Is(err, action.ErrNotReady) || e.Code != "database_unavailable" || e.Invocation != id || !strings.Contains(e.Message, "cannot be read") {
			t.Errorf("%s is told %v", who, err)
		}
	}
	var e *action.Error
	if _, err := h.gate.Call(t.Context(), new(h.call("write", `{"n":2}`))); !errors.As(err, &e) || !errors.Is(err, action.ErrNotReady) || !strings.Contains(e.Message, "not started") {
		t.Errorf("who calls anew is told %v", err)
	}
	h.rules.version = func(context.Context, string) (int64, error) { return 0, rows.gone() }
	h.rules.snapshots = nil
	if _, err := h.gate.Call(t.Context(), new(h.call("write", `{"n":3}`))); !errors.As(err, &e) || !strings.Contains(e.Message, "not started") {
		t.Errorf("whose call cannot be decided is told %v", err)
	}
}

// An executor that could not write down how a call ended gets a moment to do
// so when the rows are back, before its lease is taken for lapsed.
func TestLapsedLeaseIsSparedAfterAGap(t *testing.T) {
	t.Parallel()
	var clock shifted
	begun, end := make(chan struct{}), make(chan struct{})
	h := newHouse(t, func(c *gate.Config) { c.Now = clock.now })
	h.catalog.put(tool("write", action.RiskWrite, func(context.Context, json.RawMessage, action.Caller) (action.Result, error) {
		close(begun)
		<-end
		return action.Result{Body: json.RawMessage(`{"content":[]}`)}, nil
	}))
	done := h.begin(t.Context(), h.call("write", `{}`))
	id := h.pending().ID
	h.approve(id)
	<-begun
	clock.move(5 * time.Minute) // far over the lease
	h.gate.Sweep(t.Context())
	if got := h.row(id).Status; got != action.StatusExecuting {
		t.Fatalf("right after the gap the call is %s", got)
	}
	close(end)
	h.want(h.get(done), action.StatusCompleted)
}

// Rows that are away for a moment between the claim and the run cost nothing.
func TestLastCheckWaitsForRows(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	h := newHouse(t, func(c *gate.Config) {
		read := c.Sessions
		c.Sessions = reads(func(ctx context.Context, id string) (action.Session, error) {
			if left.Add(-1) >= 0 {
				return action.Session{}, action.Errorf(action.ErrUnavailable, "database_unavailable", "not now")
			}
			return read.Session(ctx, id)
		})
	})
	e := &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	done := h.begin(t.Context(), h.call("write", `{}`))
	id := h.pending().ID
	left.Store(3)
	h.approve(id)
	h.want(h.get(done), action.StatusCompleted)
	if e.n.Load() != 1 || left.Load() >= 0 {
		t.Errorf("%d effects, %d failures left", e.n.Load(), left.Load())
	}
}

// reads is how sessions are read.
type reads func(ctx context.Context, id string) (action.Session, error)

func (f reads) Session(ctx context.Context, id string) (action.Session, error) { return f(ctx, id) }

// ending is a ledger that has everybody look at a row between its end and the
// end of the run.
type ending struct {
	action.Ledger
	hub *coord.Hub
}

func (l *ending) Finish(ctx context.Context, f *action.Finish) (action.Invocation, bool, error) {
	inv, recorded, err := l.Ledger.Finish(ctx, f)
	l.hub.Publish(action.Hint{Kind: action.HintInvocation, Organization: f.Organization, Invocation: f.ID, Status: f.Status})
	time.Sleep(50 * time.Millisecond)
	return inv, recorded, err
}

// Whoever looks at a row in the moment when it has ended, and its run has not,
// waits for the run: the full answer of a read is nowhere else.
func TestRowEndsBeforeItsRun(t *testing.T) {
	t.Parallel()
	rows := &ending{}
	h := newHouse(t, func(c *gate.Config) {
		rows.Ledger = c.Ledger
		c.Ledger = rows
	})
	rows.hub = h.hub
	h.catalog.put(tool("read", action.RiskRead, (&effects{}).run))
	out := h.want(h.get(h.begin(t.Context(), h.call("read", `{}`))), action.StatusCompleted)
	if out.Answer.Body == nil {
		t.Error("the answer is lost")
	}
}
