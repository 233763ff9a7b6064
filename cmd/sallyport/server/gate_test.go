package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/internal/redact"
	"sallyport/internal/vault"
	"sallyport/store"
	"sallyport/store/coord"
)

// These are the stories of the Gate over the real store. Its intervals are
// short, and what happens is waited for, never slept for.

const org = store.DefaultOrganization

// house is a Gate with everything around it but sockets.
type house struct {
	t       *testing.T
	db      *store.DB
	path    string // of the database, if it is a file
	hub     *coord.Hub
	catalog *shelf
	rules   *policies
	vault   *vault.Vault
	config  gate.Config
	gate    *gate.Gate
	end     func() // ends the gate as a process that is asked to would
	session action.Session
}

// shelf is a catalog whose actions tests put there.
type shelf struct {
	mu      sync.Mutex
	actions map[string]*action.Action
	next    *action.Action // takes its place after the next look
	offers  action.Offerings
}

func (s *shelf) Offerings(context.Context, string) (*action.Offerings, error) { return &s.offers, nil }

func (s *shelf) Find(_ context.Context, _, source, name string, _ bool) (*action.Action, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actions[source+":"+name]
	if s.next != nil {
		s.actions[s.next.Source+":"+s.next.Name], s.next = s.next, nil
	}
	if a != nil {
		return a, nil
	}
	return nil, action.Errorf(action.ErrNotFound, "unknown_action", "no such action")
}

func (s *shelf) List(context.Context, string) ([]*action.Action, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*action.Action
	for _, a := range s.actions {
		list = append(list, a)
	}
	return list, fmt.Sprint(len(list)), nil
}

func (s *shelf) put(a *action.Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions[a.Source+":"+a.Name] = a
}

// effects counts what actions did.
type effects struct{ n atomic.Int64 }

func (e *effects) run(_ context.Context, params json.RawMessage, _ action.Caller) (action.Result, error) {
	n := e.n.Add(1)
	return action.Result{Body: json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":"effect %d"}],  "big":12345678901234567890,"echo":%s}`, n, params))}, nil
}

func tool(name string, risk action.Risk, run action.Run) *action.Action {
	return &action.Action{
		Source: "notes", SourceName: "notes", Name: name, Tool: "notes_" + name, Risk: risk, Hash: "h1", Revision: "r1",
		Check: func(p json.RawMessage) error {
			if strings.Contains(string(p), `"wrong"`) {
				return &action.Error{Kind: action.ErrInvalid, Code: "invalid_params", Field: "/wrong", Message: "There is no field wrong."}
			}
			return nil
		},
		Run: run,
	}
}

func newHouse(t *testing.T, change ...func(*gate.Config)) *house {
	t.Helper()
	return newHouseOn(t, store.Config{Path: withTables(t, t.TempDir()+"/sallyport.db")}, change...)
}

func newHouseOn(t *testing.T, rows store.Config, change ...func(*gate.Config)) *house {
	t.Helper()
	h := &house{t: t, path: rows.Path, hub: coord.NewHub(), catalog: &shelf{actions: map[string]*action.Action{}}}
	ctx := t.Context()
	var err error
	h.db, err = store.Open(ctx, rows)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.db.Close() })
	h.vault, err = vault.New(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	h.rules = &policies{load: h.db.Rules, version: h.db.PolicyVersion, grants: h.db.GrantsFor, now: time.Now, clock: time.Now}
	h.config = gate.Config{
		Catalog: h.catalog, Decide: h.rules.Decide, View: h.rules.View, Sessions: &sessions{load: h.db.Session, now: time.Now}, Ledger: h.db,
		Limiter: coord.NewCounter(0, time.Now), Vault: h.vault, JSON: &redact.JSON{}, Hints: h.hub,
		Alone: true, NewID: func() string { return uuid.Must(uuid.NewV7()).String() },
		ApprovalURL: func(id string) string { return "http://gate.test/invocations/" + id },
		Timing:      gate.Timing{SweepEvery: 5 * time.Millisecond, ClaimGrace: time.Millisecond, PollEvery: 20 * time.Millisecond, HoldEvery: 10 * time.Millisecond},
		Log:         slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	}
	for _, f := range change {
		f(&h.config)
	}
	h.start()
	h.session = h.newSession(action.Interactive)
	return h
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// restart runs a new Gate in place of the last one.
func (h *house) restart() {
	h.t.Helper()
	h.end()
	h.start()
}

// start runs a new Gate over the rows, as a new process would. The last one
// goes on: one that is alone takes it for dead.
func (h *house) start() {
	h.t.Helper()
	h.config.Instance = uuid.NewString()
	gate, err := gate.New(h.config)
	if err != nil {
		h.t.Fatal(err)
	}
	h.gate = gate
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = gate.Run(ctx) })
	running.Go(func() {
		_ = runJobs(ctx, alone{}, h.config.Log, []job{{name: "sweep", every: 5 * time.Millisecond, once: true, do: gate.Sweep}})
	})
	h.end = sync.OnceFunc(func() {
		drained, end := context.WithTimeout(context.Background(), 10*time.Second)
		defer end()
		_ = gate.Drain(drained)
		stop()
		running.Wait()
	})
	h.t.Cleanup(h.end)
}

func (h *house) newSession(kind action.SessionKind) action.Session {
	h.t.Helper()
	s := action.Session{ID: uuid.NewString(), Organization: org, Kind: kind, Type: action.TypeCoding, CreatedBy: "test", CreatedAt: time.Now()}
	if _, err := h.db.CreateSession(h.t.Context(), s); err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *house) call(name, params string) action.Call {
	return action.Call{Session: h.session, Source: "notes", Action: name, Params: json.RawMessage(params), Waiting: action.Waiting{Patience: action.Forever}}
}

type answer struct {
	*action.Outcome
	err error
}

// begin makes a call that waits.
func (h *house) begin(ctx context.Context, c action.Call) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		out, err := h.gate.Call(ctx, &c)
		done <- answer{out, err}
	}()
	return done
}

// waitAtMost bounds every wait for something that must happen. It is long because
// it is only used up by a failure, or by a very slow machine.
const waitAtMost = time.Minute

// comes waits until f is true, and reports false when it never was.
func comes(f func() bool) bool {
	for end := time.Now().Add(waitAtMost); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// eventually waits until f is true.
func (h *house) eventually(what string, f func() bool) {
	h.t.Helper()
	if !comes(f) {
		h.t.Fatalf("never came: %s", what)
	}
}

func (h *house) rows(statuses ...action.Status) []action.Invocation {
	h.t.Helper()
	page, err := h.db.ListInvocations(context.Background(), action.InvocationFilter{Organization: org, Statuses: statuses, Limit: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	return page.Items
}

func (h *house) pending() action.Invocation {
	h.t.Helper()
	var inv action.Invocation
	h.eventually("a pending row", func() bool {
		rows := h.rows(action.StatusPending)
		if len(rows) > 0 {
			inv = rows[0]
		}
		return len(rows) > 0
	})
	return inv
}

func (h *house) verdict(id string) action.Verdict {
	return action.Verdict{Organization: org, ID: id, By: "alice"}
}

func (h *house) approve(id string) {
	h.t.Helper()
	if _, err := h.gate.Approve(context.Background(), h.verdict(id)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) row(id string) action.Invocation {
	h.t.Helper()
	rec, err := h.db.Load(context.Background(), org, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return rec.Invocation
}

func (h *house) get(done <-chan answer) answer {
	h.t.Helper()
	select {
	case a := <-done:
		return a
	case <-time.After(waitAtMost):
		h.t.Fatal("the caller was never answered")
		return answer{}
	}
}

func (h *house) want(a answer, status action.Status) *action.Outcome {
	h.t.Helper()
	if a.err != nil {
		h.t.Fatal(a.err)
	}
	if a.Invocation.Status != status {
		h.t.Fatalf("status %s (%+v, %s), want %s", a.Invocation.Status, a.Invocation.Error, a.Invocation.DeniedReason, status)
	}
	return a.Outcome
}

func TestReadRunsAtOnceAndIsWrittenDown(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("read", action.RiskRead, e.run))
	out := h.want(h.get(h.begin(t.Context(), h.call("read", `{"n": 9007199254740993, "api_key":"sk-canary"}`))), action.StatusCompleted)
	if want := `{"content":[{"type":"text","text":"effect 1"}],  "big":12345678901234567890,"echo":{"api_key":"sk-canary","n":9007199254740993}}`; string(out.Answer.Body) != want {
		t.Errorf("the answer was altered: %s", out.Answer.Body)
	}
	row := h.row(out.Invocation.ID)
	if row.Status != action.StatusCompleted || row.ModeSource != action.LayerInferred || row.DurationMS == nil {
		t.Errorf("row: %+v", row)
	}
	if kept := string(row.Params) + string(row.Result); strings.Contains(kept, "sk-canary") || !strings.Contains(kept, "9007199254740993") {
		t.Errorf("kept: %s", kept)
	}
	// Asking again asks again.
	h.want(h.get(h.begin(t.Context(), h.call("read", `{"n": 9007199254740993, "api_key":"sk-canary"}`))), action.StatusCompleted)
	if e.n.Load() != 2 {
		t.Errorf("%d reads ran, want 2", e.n.Load())
	}
}

func TestWriteIsHeldApprovedAndRunOnce(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	c := h.call("write", `{"b":2,"a":1}`)
	var held atomic.Int64
	c.OnHeld = func(inv *action.Invocation) {
		held.Add(1)
		if inv.ApprovalURL == "" || inv.ExpiresAt == nil {
			t.Errorf("held without link or end: %+v", inv)
		}
	}
	done := h.begin(t.Context(), c)
	inv := h.pending()
	if params, full, err := h.gate.Params(t.Context(), org, inv.ID); err != nil || !full || string(params) != `{"a":1,"b":2}` {
		t.Errorf("the approver sees %s, %v, %v", params, full, err)
	}
	h.eventually("several notes that the call is held", func() bool { return held.Load() > 2 })
	if e.n.Load() != 0 {
		t.Fatal("it ran before it was approved")
	}
	h.approve(inv.ID)
	out := h.want(h.get(done), action.StatusCompleted)
	if e.n.Load() != 1 || out.Invocation.ApprovedBy != "alice" || out.Invocation.ID != inv.ID {
		t.Errorf("%d effects, %+v", e.n.Load(), out.Invocation)
	}
	// Deciding again loses, and says to whom.
	if _, err := h.gate.Deny(t.Context(), h.verdict(inv.ID)); !errors.Is(err, action.ErrConflict) || !strings.Contains(err.Error(), "alice") {
		t.Errorf("a second decision: %v", err)
	}
	if _, err := h.gate.Approve(t.Context(), h.verdict(uuid.NewString())); !errors.Is(err, action.ErrNotFound) {
		t.Errorf("an unknown invocation: %v", err)
	}
	if params, full, err := h.gate.Params(t.Context(), org, inv.ID); err != nil || full {
		t.Errorf("full params outlived the call: %s, %v", params, err)
	}
}

func TestPolicyDenialHasARow(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("destroy", action.RiskDanger, e.run))
	out := h.want(h.get(h.begin(t.Context(), h.call("destroy", `{}`))), action.StatusDenied)
	row := h.row(out.Invocation.ID)
	if row.DeniedReason != action.DeniedPolicy || row.DeniedNote == "" || e.n.Load() != 0 {
		t.Errorf("row %+v, %d effects", row, e.n.Load())
	}
}

func TestHumanDenialHoldsForTheSameCall(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t, func(c *gate.Config) { c.DenialHolds = time.Hour }), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	done := h.begin(t.Context(), h.call("write", `{"a":1}`))
	v := h.verdict(h.pending().ID)
	v.Note = "not on a Friday"
	if _, err := h.gate.Deny(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	out := h.want(h.get(done), action.StatusDenied)
	if out.Invocation.DeniedReason != action.DeniedHuman || out.Invocation.DeniedNote != "not on a Friday" {
		t.Errorf("%+v", out.Invocation)
	}
	again := h.want(h.get(h.begin(t.Context(), h.call("write", `{"a": 1}`))), action.StatusDenied)
	if again.Invocation.DeniedReason != action.DeniedRepeated || again.Invocation.ID == out.Invocation.ID {
		t.Errorf("the repeat: %+v", again.Invocation)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	other := h.begin(ctx, h.call("write", `{"a":2}`))
	h.pending()
	cancel(action.ErrCancelled)
	if a := h.get(other); !errors.Is(a.err, action.ErrCancelled) {
		t.Errorf("another call: %v", a.err)
	}
}

func TestHeldCallExpires(t *testing.T) {
	t.Parallel()
	lines := &tape{}
	h, e := newHouse(t, func(c *gate.Config) {
		c.HoldInteractive, c.Log = 100*time.Millisecond, slog.New(slog.NewTextHandler(lines, nil))
	}), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	out := h.want(h.get(h.begin(t.Context(), h.call("write", `{}`))), action.StatusExpired)
	if _, err := h.gate.Approve(t.Context(), h.verdict(out.Invocation.ID)); !errors.Is(err, action.ErrGone) {
		t.Errorf("approving what expired: %v", err)
	}
	h.eventually("a count of the sweep", func() bool { return strings.Contains(lines.String(), `msg="overdue calls swept" expired=1`) })
	if e.n.Load() != 0 {
		t.Error("it ran")
	}
}

func TestTwoHundredIdenticalCallsAreOne(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	var all []<-chan answer
	for range 200 {
		all = append(all, h.begin(t.Context(), h.call("write", `{"same":true}`)))
	}
	inv := h.pending()
	h.eventually("all callers waiting", func() bool { return h.gate.Callers(inv.ID) == 200 })
	if n := len(h.rows()); n != 1 {
		t.Fatalf("%d rows, want 1", n)
	}
	h.approve(inv.ID)
	for _, done := range all {
		if out := h.want(h.get(done), action.StatusCompleted); !strings.Contains(string(out.Answer.Body), "effect 1") {
			t.Errorf("answered %s", out.Answer.Body)
		}
	}
	if e.n.Load() != 1 {
		t.Errorf("%d effects, want 1", e.n.Load())
	}
}

func TestNeverMoreThanTenPending(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all []<-chan answer
	for i := range 64 {
		all = append(all, h.begin(ctx, h.call("write", fmt.Sprintf(`{"i":%d}`, i))))
	}
	refused := 0
	h.eventually("54 refusals", func() bool {
		for _, done := range all {
			select {
			case a := <-done:
				if !errors.Is(a.err, action.ErrTooMany) {
					t.Errorf("got %+v, %v", a.Invocation, a.err)
				}
				refused++
			default:
			}
		}
		return refused == 54
	})
	if n := len(h.rows(action.StatusPending)); n != 10 {
		t.Errorf("%d pending, want 10", n)
	}
}

func TestCallerGoneAfterApproval(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	release := make(chan struct{})
	h.catalog.put(tool("write", action.RiskWrite, func(ctx context.Context, p json.RawMessage, f action.Caller) (action.Result, error) {
		<-release
		return e.run(ctx, p, f)
	}))
	ctx, cancel := context.WithCancelCause(t.Context())
	done := h.begin(ctx, h.call("write", `{"a":1}`))
	inv := h.pending()
	h.approve(inv.ID)
	h.eventually("the execution", func() bool { return h.row(inv.ID).Status == action.StatusExecuting })
	cancel(action.ErrCancelled) // too late: it runs
	if a := h.get(done); a.err == nil {
		t.Fatal("the caller was answered after it left")
	}
	close(release)
	h.eventually("the end", func() bool { return h.row(inv.ID).Status == action.StatusCompleted })

	// He comes back, and is handed what he missed, byte for byte.
	back := h.want(h.get(h.begin(t.Context(), h.call("write", `{"a":1}`))), action.StatusCompleted)
	if !back.Repeated || back.Invocation.ID != inv.ID || !strings.Contains(string(back.Answer.Body), `,  "big":12345678901234567890,`) {
		t.Errorf("got %+v %s", back.Invocation, back.Answer.Body)
	}
	h.gate.Delivered(back)

	// What was delivered is not handed out again: this is a new call.
	next := h.begin(t.Context(), h.call("write", `{"a":1}`))
	second := h.pending()
	if second.ID == inv.ID || e.n.Load() != 1 {
		t.Errorf("second %s, %d effects", second.ID, e.n.Load())
	}
	h.approve(second.ID)
	h.want(h.get(next), action.StatusCompleted)
}

func TestWithdrawal(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t, func(c *gate.Config) { c.AbandonAfter = time.Hour }), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	leave := func(params string, cause error) action.Invocation {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := h.begin(ctx, h.call("write", params))
		inv := h.pending()
		cancel(cause)
		if a := h.get(done); !errors.Is(a.err, cause) {
			t.Fatalf("left with %v", a.err)
		}
		return h.row(inv.ID)
	}
	if row := leave(`{"a":1}`, action.ErrCancelled); row.Status != action.StatusDenied || row.DeniedReason != action.DeniedWithdrawn {
		t.Errorf("after a cancel: %s %s", row.Status, row.DeniedReason)
	}
	if row := leave(`{"a":2}`, action.ErrCallerGone); row.Status != action.StatusPending {
		t.Errorf("after a timeout: %s", row.Status)
	}
}

func TestHoldStaysForTheOtherCaller(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	ctx, cancel := context.WithCancelCause(t.Context())
	one, two := h.begin(ctx, h.call("write", `{"a":1}`)), h.begin(t.Context(), h.call("write", `{"a":1}`))
	inv := h.pending()
	h.eventually("both callers waiting", func() bool { return h.gate.Callers(inv.ID) == 2 })
	cancel(action.ErrCancelled)
	h.get(one)
	h.approve(inv.ID)
	h.want(h.get(two), action.StatusCompleted)
}

func TestHoldStaysForWhoWasToldToComeBack(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	c := h.call("write", `{"a":1}`)
	c.Patience = time.Millisecond
	told := h.want(h.get(h.begin(t.Context(), c)), action.StatusPending)
	ctx, cancel := context.WithCancelCause(t.Context())
	again := h.begin(ctx, h.call("write", `{"a":1}`))
	h.eventually("a caller waiting", func() bool { return h.gate.Callers(told.Invocation.ID) == 1 })
	cancel(action.ErrCancelled)
	h.get(again)
	if row := h.row(told.Invocation.ID); row.Status != action.StatusPending {
		t.Errorf("%s %s", row.Status, row.DeniedReason)
	}
}

func TestHumanDenialEnds(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t, func(c *gate.Config) { c.DenialHolds = 20 * time.Millisecond }), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	done := h.begin(t.Context(), h.call("write", `{"a":1}`))
	if _, err := h.gate.Deny(t.Context(), h.verdict(h.pending().ID)); err != nil {
		t.Fatal(err)
	}
	denied := h.want(h.get(done), action.StatusDenied)
	h.eventually("the end of the denial", func() bool { return time.Since(*denied.Invocation.CompletedAt) > 40*time.Millisecond })
	done = h.begin(t.Context(), h.call("write", `{"a":1}`))
	h.approve(h.pending().ID)
	h.want(h.get(done), action.StatusCompleted)
}

func TestAbandonedHoldIsWithdrawn(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t, func(c *gate.Config) { c.AbandonAfter, c.SeenEvery = 200*time.Millisecond, 20*time.Millisecond }), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	ctx, cancel := context.WithCancelCause(t.Context())
	done := h.begin(ctx, h.call("write", `{"a":1}`))
	inv := h.pending()
	began := time.Now()
	h.eventually("twice the time", func() bool { return time.Since(began) > 400*time.Millisecond })
	if row := h.row(inv.ID); row.Status != action.StatusPending {
		t.Fatalf("withdrawn under a waiting caller: %s", row.Status)
	}
	cancel(action.ErrCallerGone)
	h.get(done)
	h.eventually("the withdrawal", func() bool { return h.row(inv.ID).DeniedReason == action.DeniedWithdrawn })

	// Who was told "pending" counts as waiting.
	c := h.call("write", `{"a":2}`)
	c.Patience = time.Millisecond
	told := h.want(h.get(h.begin(t.Context(), c)), action.StatusPending)
	began = time.Now()
	h.eventually("twice the time", func() bool { return time.Since(began) > 400*time.Millisecond })
	if row := h.row(told.Invocation.ID); row.Status != action.StatusPending {
		t.Errorf("withdrawn though its caller was told to come back: %s", row.Status)
	}
	h.approve(told.Invocation.ID)
	back := h.want(h.get(h.begin(t.Context(), c)), action.StatusCompleted)
	if back.Invocation.ID != told.Invocation.ID || e.n.Load() != 1 {
		t.Errorf("came back to %s, %d effects", back.Invocation.ID, e.n.Load())
	}
}

func TestWhatWasApprovedIsWhatRuns(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(h *house)
		status action.Status
		code   string
	}{
		"definition changed": {func(h *house) {
			a := tool("write", action.RiskWrite, nil)
			a.Hash = "h2"
			h.catalog.put(a)
		}, action.StatusFailed, action.FailedStale},
		"connector changed": {func(h *house) {
			a := tool("write", action.RiskWrite, nil)
			a.Revision = "r2"
			h.catalog.put(a)
		}, action.StatusFailed, action.FailedStale},
		"action gone": {func(h *house) {
			h.catalog.mu.Lock()
			defer h.catalog.mu.Unlock()
			delete(h.catalog.actions, "notes:write")
		}, action.StatusFailed, action.FailedStale},
		"denied now": {func(h *house) {
			o := action.Override{Organization: org, Key: action.Key{Source: "*", Action: "*"}, Mode: action.ModeDeny, UpdatedBy: "alice"}
			if err := h.db.SetOverride(context.Background(), o); err != nil {
				h.t.Fatal(err)
			}
		}, action.StatusDenied, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := newHouse(t), &effects{}
			h.catalog.put(tool("write", action.RiskWrite, e.run))
			done := h.begin(t.Context(), h.call("write", `{"a":1}`))
			inv := h.pending()
			tt.change(h)
			h.approve(inv.ID)
			out := h.want(h.get(done), tt.status)
			if tt.code != "" && (out.Invocation.Error == nil || out.Invocation.Error.Code != tt.code) {
				t.Errorf("error %+v, want %s", out.Invocation.Error, tt.code)
			}
			if e.n.Load() != 0 {
				t.Error("it ran")
			}
		})
	}
}

// late is a house where an approval is not taken up until a hint says so.
func late(t *testing.T) *house {
	return newHouse(t, func(c *gate.Config) { c.PollEvery, c.ClaimGrace = time.Hour, time.Hour })
}

func TestSessionEndsBetweenApprovalAndRun(t *testing.T) {
	t.Parallel()
	h, e := late(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	done := h.begin(t.Context(), h.call("write", `{"a":1}`))
	v := h.verdict(h.pending().ID)
	v.Now = time.Now()
	inv, err := h.db.Approve(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.db.RevokeSession(t.Context(), org, h.session.ID); err != nil {
		t.Fatal(err)
	}
	h.hub.Publish(action.Hint{Kind: action.HintInvocation, Organization: org, Invocation: inv.ID, Status: inv.Status})
	if out := h.want(h.get(done), action.StatusDenied); out.Invocation.DeniedReason != action.DeniedPolicy || e.n.Load() != 0 {
		t.Errorf("%+v, %d effects", out.Invocation, e.n.Load())
	}
}

func TestDenialBeforeTheRunBindsNoRepeat(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	set := func(m action.Mode) {
		o := action.Override{Organization: org, Key: action.Key{Source: "notes", Action: "write"}, Mode: m, UpdatedBy: "alice"}
		if err := h.db.SetOverride(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	done := h.begin(t.Context(), h.call("write", `{"a":1}`))
	inv := h.pending()
	set(action.ModeDeny)
	h.approve(inv.ID)
	h.want(h.get(done), action.StatusDenied)
	set(action.ModeAllow)
	if out := h.want(h.get(h.begin(t.Context(), h.call("write", `{"a":1}`))), action.StatusCompleted); out.Invocation.ID == inv.ID || e.n.Load() != 1 {
		t.Errorf("the repeat: %+v, %d effects", out.Invocation, e.n.Load())
	}
}

func TestUnattendedHoldOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t, func(c *gate.Config) { c.AbandonAfter, c.HoldInteractive = 50*time.Millisecond, 50*time.Millisecond }), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	h.session = h.newSession(action.Unattended)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := h.begin(ctx, h.call("write", `{"a":1}`))
	inv := h.pending()
	cancel(action.ErrCancelled)
	h.get(done)
	h.eventually("more than a hold and a silence", func() bool { return time.Since(inv.CreatedAt) > 300*time.Millisecond })
	if row := h.row(inv.ID); row.Status != action.StatusPending {
		t.Fatalf("%s %s", row.Status, row.DeniedReason)
	}
	h.approve(inv.ID)
	h.eventually("the execution", func() bool { return h.row(inv.ID).Status == action.StatusCompleted })
}

// A call decided on an action that changed meanwhile is decided on what it is
// now.
func TestActionChangesBetweenDecisionAndRow(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("act", action.RiskRead, e.run))
	c := h.call("act", `{"a":1}`)
	c.IdempotencyKey = "k" // so that the row checks the version
	h.want(h.get(h.begin(t.Context(), c)), action.StatusCompleted)
	o := action.Override{Organization: org, Key: action.Key{Source: "other", Action: "x"}, Mode: action.ModeDeny, UpdatedBy: "alice"}
	if err := h.db.SetOverride(t.Context(), o); err != nil { // the snapshot is old now
		t.Fatal(err)
	}
	h.catalog.next = tool("act", action.RiskDanger, e.run)
	c.IdempotencyKey = "k2"
	h.want(h.get(h.begin(t.Context(), c)), action.StatusDenied)
	if e.n.Load() != 1 {
		t.Errorf("%d effects, want 1", e.n.Load())
	}
}

func TestDrainWhileApproved(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			h, e := newHouse(t), &effects{}
			h.catalog.put(tool("write", action.RiskWrite, e.run))
			c := h.call("write", `{"a":1}`)
			told, release := make(chan struct{}), make(chan struct{})
			c.OnHeld = func(*action.Invocation) {
				select {
				case <-told:
				default:
					close(told)
					<-release
				}
			}
			done := h.begin(t.Context(), c)
			<-told
			drained := make(chan error, 1)
			go func() { drained <- h.gate.Drain(t.Context()) }()
			h.eventually("the refusal of new work", func() bool {
				_, err := h.gate.Wait(t.Context(), &h.session, "none", action.Waiting{})
				return errors.Is(err, action.ErrUnavailable)
			})
			h.approve(h.pending().ID)
			close(release)
			if a := h.get(done); a.err != nil || a.Invocation.Status.Terminal() {
				t.Fatalf("%s, %v", a.Invocation.Status, a.err)
			}
			if err := <-drained; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPolicyChangeBetweenDecisionAndRow(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	set := func(m action.Mode) {
		o := action.Override{Organization: org, Key: action.Key{Source: "notes", Action: "write"}, Mode: m, UpdatedBy: "alice"}
		if err := h.db.SetOverride(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	set(action.ModeAllow)
	h.want(h.get(h.begin(t.Context(), h.call("write", `{"a":1}`))), action.StatusCompleted)
	set(action.ModeDeny) // the snapshot still says allow
	h.want(h.get(h.begin(t.Context(), h.call("write", `{"a":2}`))), action.StatusDenied)
	if e.n.Load() != 1 {
		t.Errorf("%d effects, want 1", e.n.Load())
	}
}

func TestRevokedSessionWritesNothing(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	held := h.begin(t.Context(), h.call("write", `{"a":1}`))
	h.pending()
	if _, err := h.db.RevokeSession(t.Context(), org, h.session.ID); err != nil {
		t.Fatal(err)
	}
	if out := h.want(h.get(held), action.StatusDenied); out.Invocation.DeniedReason != action.DeniedWithdrawn {
		t.Errorf("the held call: %+v", out.Invocation)
	}
	// The token still looks good to whoever has an older snapshot.
	if a := h.get(h.begin(t.Context(), h.call("write", `{"a":2}`))); !errors.Is(a.err, action.ErrUnauthenticated) {
		t.Errorf("a write of a revoked session: %+v, %v", a.Invocation, a.err)
	}
}

func TestTimeoutOfAWriteIsUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *gate.Config) { c.CallTimeout = 30 * time.Millisecond })
	hang := func(ctx context.Context, _ json.RawMessage, _ action.Caller) (action.Result, error) {
		<-ctx.Done()
		return action.Result{}, fmt.Errorf("%w: %w", action.ErrOutcomeUnknown, ctx.Err())
	}
	h.catalog.put(tool("read", action.RiskRead, hang))
	h.catalog.put(tool("write", action.RiskWrite, hang))
	if out := h.want(h.get(h.begin(t.Context(), h.call("read", `{}`))), action.StatusFailed); out.Invocation.Error.Code != action.FailedReach || out.Invocation.Error.Fault != "upstream_timeout" {
		t.Errorf("a read: %+v", out.Invocation.Error)
	}
	done := h.begin(t.Context(), h.call("write", `{}`))
	h.approve(h.pending().ID)
	out := h.want(h.get(done), action.StatusFailed)
	if e := h.row(out.Invocation.ID).Error; e.Code != action.FailedUnknown || e.Fault != "upstream_timeout" || !strings.Contains(e.Message, "may or may not") {
		t.Errorf("a write: %+v", e)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	keyed := func(params string) action.Call {
		c := h.call("write", params)
		c.IdempotencyKey = "k1"
		return c
	}
	done := h.begin(t.Context(), keyed(`{"a":1}`))
	inv := h.pending()
	h.approve(inv.ID)
	out := h.want(h.get(done), action.StatusCompleted)
	h.gate.Delivered(out)
	again := h.want(h.get(h.begin(t.Context(), keyed(`{"a":1.0}`[:5]+`1}`))), action.StatusCompleted)
	if again.Invocation.ID != inv.ID || string(again.Answer.Body) != string(out.Answer.Body) || e.n.Load() != 1 {
		t.Errorf("the repeat: %s %s, %d effects", again.Invocation.ID, again.Answer.Body, e.n.Load())
	}
	if a := h.get(h.begin(t.Context(), keyed(`{"a":2}`))); !errors.Is(a.err, action.ErrConflict) {
		t.Errorf("other params under the same key: %+v, %v", a.Invocation, a.err)
	}
}

func TestRestartWhileHeld(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	ctx, die := context.WithCancelCause(t.Context())
	done := h.begin(ctx, h.call("write", `{"a":1}`))
	inv := h.pending()
	die(action.ErrCallerGone)
	h.get(done)
	h.restart()
	h.approve(inv.ID)
	h.eventually("the execution without a caller", func() bool { return h.row(inv.ID).Status == action.StatusCompleted })
	back := h.want(h.get(h.begin(t.Context(), h.call("write", `{"a":1}`))), action.StatusCompleted)
	if back.Invocation.ID != inv.ID || e.n.Load() != 1 {
		t.Errorf("came back to %s, %d effects", back.Invocation.ID, e.n.Load())
	}
}

func TestRestartWhileExecuting(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	begun, release := make(chan struct{}), make(chan struct{})
	h.catalog.put(tool("write", action.RiskWrite, func(ctx context.Context, p json.RawMessage, f action.Caller) (action.Result, error) {
		close(begun)
		<-release
		return e.run(ctx, p, f)
	}))
	first := h.begin(t.Context(), h.call("write", `{"a":1}`))
	inv := h.pending()
	h.approve(inv.ID)
	<-begun
	h.start() // the row's executor is dead to this one
	h.eventually("the verdict", func() bool { return h.row(inv.ID).Status == action.StatusFailed })
	if row := h.row(inv.ID); row.Error.Code != action.FailedUnknown {
		t.Errorf("row: %+v", row.Error)
	}
	back := h.want(h.get(h.begin(t.Context(), h.call("write", `{"a":1}`))), action.StatusFailed)
	if back.Invocation.ID != inv.ID || back.Invocation.Error.Code != action.FailedUnknown {
		t.Errorf("came back to %+v", back.Invocation)
	}
	// The first process was not dead after all: its finish changes no verdict,
	// and is added to the story.
	close(release)
	if out := h.want(h.get(first), action.StatusFailed); out.Answer.Body != nil {
		t.Errorf("the first caller was told %s", out.Answer.Body)
	}
	h.eventually("the late outcome", func() bool {
		events, err := h.db.Events(t.Context(), org, inv.ID)
		return err == nil && len(events) == 1
	})
	if row := h.row(inv.ID); row.Status != action.StatusFailed || e.n.Load() != 1 {
		t.Errorf("after the late finish: %+v, %d effects", row, e.n.Load())
	}
}

func TestDrainAnswersEveryCaller(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	done := h.begin(t.Context(), h.call("write", `{"a":1}`))
	inv := h.pending()
	if err := h.gate.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.want(h.get(done), action.StatusPending)
	if a := h.get(h.begin(t.Context(), h.call("write", `{"a":2}`))); !errors.Is(a.err, action.ErrUnavailable) {
		t.Errorf("a call while draining: %v", a.err)
	}
	h.restart()
	back := h.begin(t.Context(), h.call("write", `{"a":1}`))
	h.approve(inv.ID)
	if out := h.want(h.get(back), action.StatusCompleted); out.Invocation.ID != inv.ID || e.n.Load() != 1 {
		t.Errorf("came back to %s, %d effects", out.Invocation.ID, e.n.Load())
	}
}

func TestRefusedCallsLeaveNoRowAndOldOnesGoOn(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	done := h.begin(t.Context(), h.call("write", `{"a":1}`))
	inv := h.pending()
	h.gate.Refuse()
	late := h.call("write", `{"a":2}`)
	late.Patience = 0
	if _, err := h.gate.Call(t.Context(), &late); !errors.Is(err, action.ErrUnavailable) {
		t.Errorf("a new call: %v", err)
	}
	h.want(h.get(done), action.StatusPending)
	h.approve(inv.ID)
	h.eventually("the approved call to run without its caller", func() bool { return h.row(inv.ID).Status == action.StatusCompleted })
	if out, err := h.gate.Wait(t.Context(), &h.session, inv.ID, action.Waiting{}); err != nil || out.Answer.Body == nil {
		t.Errorf("who comes back gets %s, %v", out.Invocation.Status, err)
	}
	if n := len(h.rows()); n != 1 || e.n.Load() != 1 {
		t.Errorf("%d rows, %d effects", n, e.n.Load())
	}
}

func TestBadInputLeavesNoRow(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t, func(c *gate.Config) { c.Limiter = coord.NewCounter(8, time.Now) }), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	for params, kind := range map[string]error{
		`{"wrong":1}`:           action.ErrInvalid,
		`{"a":1,"a":2}`:         action.ErrInvalid,
		`[1]`:                   action.ErrInvalid,
		`{"a":`:                 action.ErrInvalid,
		`"` + "\xff" + `"`:      action.ErrInvalid,
		`{"a":"` + big() + `"}`: action.ErrTooLarge,
	} {
		if a := h.get(h.begin(t.Context(), h.call("write", params))); !errors.Is(a.err, kind) {
			t.Errorf("%.20s: %v, want %v", params, a.err, kind)
		}
	}
	if a := h.get(h.begin(t.Context(), h.call("nothing", `{}`))); !errors.Is(a.err, action.ErrNotFound) {
		t.Errorf("an unknown action: %v", a.err)
	}
	h.get(h.begin(t.Context(), h.call("nothing", `{}`)))
	a := h.get(h.begin(t.Context(), h.call("write", `{}`)))
	if e := (*action.Error)(nil); !errors.As(a.err, &e) || !errors.Is(a.err, action.ErrTooMany) || e.RetryAfter <= 0 {
		t.Errorf("the ninth call: %v", a.err)
	}
	if n := len(h.rows()); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func big() string { return strings.Repeat("x", 300<<10) }

func TestProgressReachesEveryCallerInOrder(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.catalog.put(tool("write", action.RiskWrite, func(_ context.Context, _ json.RawMessage, tell action.Caller) (action.Result, error) {
		for i := range 20 {
			tell.Progress(json.RawMessage(fmt.Sprintf(`{"progress":%d}`, i)))
		}
		return action.Result{Body: json.RawMessage(`{"content":[]}`)}, nil
	}))
	var seen [2][]string
	var all []<-chan answer
	for i := range seen {
		c := h.call("write", `{"a":1}`)
		c.OnProgress = func(p json.RawMessage) { seen[i] = append(seen[i], string(p)) }
		all = append(all, h.begin(t.Context(), c))
	}
	inv := h.pending()
	h.eventually("both callers waiting", func() bool { return h.gate.Callers(inv.ID) == 2 })
	h.approve(inv.ID)
	for i, done := range all {
		h.want(h.get(done), action.StatusCompleted)
		if len(seen[i]) != 20 || seen[i][0] != `{"progress":0}` || seen[i][19] != `{"progress":19}` {
			t.Errorf("caller %d saw %v", i, seen[i])
		}
	}
}
