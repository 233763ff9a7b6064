package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/action/gate"
)

// These are the stories of callers who leave with a held call and come back for
// it by themselves, as clients with tasks do.

// leaves makes a call whose caller leaves at once when it is held.
func (h *house) leaves(name, params string, can action.ClientFeatures) action.Invocation {
	h.t.Helper()
	c := h.call(name, params)
	c.Waiting = action.Waiting{Polls: true, Features: can}
	return h.want(h.get(h.begin(h.t.Context(), c)), action.StatusPending).Invocation
}

func (h *house) look(id string, can action.ClientFeatures) *action.Outcome {
	h.t.Helper()
	out, err := h.gate.Peek(h.t.Context(), &h.session, id, can)
	if err != nil {
		h.t.Fatalf("looking at %s: %v", id, err)
	}
	return out
}

// looked waits until who comes back sees the call so.
func (h *house) looked(id string, status action.Status) (out *action.Outcome) {
	h.t.Helper()
	h.eventually("the call to be "+string(status), func() bool {
		out = h.look(id, 0)
		return out.Invocation.Status == status
	})
	return out
}

// asked waits until who comes back is asked.
func (h *house) lookedAsked(id string) *action.Round {
	h.t.Helper()
	var round *action.Round
	h.eventually("a question", func() bool {
		round = h.look(id, action.ClientElicitsForm).Round
		return round != nil
	})
	return round
}

// A call whose caller left is held as long as any, also over a restart, runs
// once, and is looked up with its bytes.
func TestCallerLeavesAndLooks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		e := &effects{}
		h.catalog.put(tool("write", action.RiskWrite, e.run))
		inv := h.leaves("write", `{"a":1}`, 0)
		if n := h.gate.Callers(inv.ID); n != 0 || h.look(inv.ID, 0).Invocation.ApprovalURL == "" {
			t.Errorf("%d callers wait, and the link is %q", n, h.look(inv.ID, 0).Invocation.ApprovalURL)
		}
		if again := h.leaves("write", `{"a":1}`, 0); again.ID != inv.ID {
			t.Errorf("a repeated call is another: %s", again.ID)
		}
		h.restart()
		h.approve(inv.ID)
		out := h.looked(inv.ID, action.StatusCompleted)
		joined := h.want(h.get(h.begin(t.Context(), h.call("write", `{"a":1}`))), action.StatusCompleted)
		if string(out.Answer.Body) != string(joined.Answer.Body) || len(out.Answer.Body) == 0 || e.n.Load() != 1 {
			t.Errorf("looked up %s, joined %s, %d effects", out.Answer.Body, joined.Answer.Body, e.n.Load())
		}
		h.gate.Delivered(out)
		if next := h.leaves("write", `{"a":1}`, 0); next.ID == inv.ID {
			t.Error("a call that was delivered when it was looked up is handed out again")
		}
	})
}

// Who leaves does not wait for a call either that was approved and runs.
func TestCallerLeavesWhatRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	q := newInquirer()
	let := q.quiet()
	h.catalog.put(q.tool("write", action.RiskWrite))
	inv := h.leaves("write", `{}`, 0)
	h.approve(inv.ID)
	<-q.begun
	c := h.call("write", `{}`)
	c.Waiting = action.Waiting{Polls: true}
	if out := h.want(h.get(h.begin(t.Context(), c)), action.StatusExecuting); out.Invocation.ID != inv.ID {
		t.Errorf("joined %s", out.Invocation.ID)
	}
	let()
	h.looked(inv.ID, action.StatusCompleted)
}

// What another session asks for is not there, held or ended, and nothing of it
// changes.
func TestLookAndWithdrawAreOfTheSession(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	inv := h.leaves("write", `{}`, 0)
	other := h.newSession(action.Interactive)
	_, looked := h.gate.Peek(t.Context(), &other, inv.ID, 0)
	withdrawn := h.gate.Withdraw(t.Context(), &other, inv.ID)
	if !errors.Is(looked, action.ErrNotFound) || !errors.Is(withdrawn, action.ErrNotFound) || h.row(inv.ID).Status != action.StatusPending {
		t.Errorf("another session: %v, %v, %s", looked, withdrawn, h.row(inv.ID).Status)
	}
}

// To withdraw ends a held call, of an unattended session too, and nothing else.
func TestWithdrawByItsSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		e := &effects{}
		h.catalog.put(tool("write", action.RiskWrite, e.run))
		for _, kind := range []action.SessionKind{action.Interactive, action.Unattended} {
			h.session = h.newSession(kind)
			inv := h.leaves("write", `{}`, 0)
			if err := h.gate.Withdraw(t.Context(), &h.session, inv.ID); err != nil {
				t.Fatal(err)
			}
			if row := h.row(inv.ID); row.Status != action.StatusDenied || row.DeniedReason != action.DeniedWithdrawn {
				t.Errorf("%s: withdrawn, it is %s %s", kind, row.Status, row.DeniedReason)
			}
			if _, err := h.db.Approve(t.Context(), h.verdict(inv.ID)); !errors.Is(err, action.ErrConflict) {
				t.Errorf("it is approved afterwards: %v", err)
			}
		}
		inv := h.leaves("write", `{"a":2}`, 0)
		h.approve(inv.ID)
		h.looked(inv.ID, action.StatusCompleted)
		if err := h.gate.Withdraw(t.Context(), &h.session, inv.ID); !errors.Is(err, action.ErrConflict) || e.n.Load() != 1 {
			t.Errorf("what ran is withdrawn: %v, %d effects", err, e.n.Load())
		}
	})
}

// The source of a call whose caller left knows what he can be asked, and its
// question waits for him, on any instance, until all of it is answered.
func TestWhoLeftIsAsked(t *testing.T) {
	t.Parallel()
	for name, hints := range map[string]bool{"with hints": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			a, b := twins(t, hints, func(c *gate.Config) { c.TakeWithin = time.Second })
			q := newInquirer([]action.Question{form("a"), form("b")}, []action.Question{form("a")})
			a.catalog.put(q.tool("write", action.RiskWrite))
			inv := a.leaves("write", `{}`, action.ClientElicitsForm)
			b.approve(inv.ID)
			first := b.lookedAsked(inv.ID)
			if can := q.caller.Features(); can != action.ClientElicitsForm || len(first.Questions) != 2 {
				t.Errorf("the source knows of %b, and asks %+v", can, first.Questions)
			}
			if out := a.look(inv.ID, action.ClientSamples); out.Round != nil {
				t.Error("a client is asked what it cannot be")
			}
			some := map[string]action.Reply{"a": result(`"one"`)}
			if _, err := a.gate.Reply(t.Context(), &a.session, first.ID, some, false); err != nil {
				t.Fatal(err)
			}
			left := a.lookedAsked(inv.ID)
			if left.ID != first.ID || len(left.Questions) != 1 || left.Questions[0].Key != "b" {
				t.Errorf("what is left of the round is %+v", left)
			}
			b.reply(left, result(`"two"`))
			second := b.lookedAsked(inv.ID)
			if second.ID == first.ID {
				t.Error("the rounds have one id")
			}
			a.reply(second, result(`"three"`))
			out := b.looked(inv.ID, action.StatusCompleted)
			if got := fmt.Sprint(heard(b, out)); got != `["one" "two" "three"]` || q.n.Load() != 1 {
				t.Errorf("the source heard %s in %d runs", got, q.n.Load())
			}
		})
	}
}

// Who was told where his call is decided leaves with it and is waited for; who
// joins the call of another was told nothing, so that it goes when its caller
// cancels.
func TestWhoWasToldOfAPage(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	told := h.call("write", `{"a":1}`)
	told.Waiting = action.Waiting{Patience: action.Forever, OnOpened: func(*action.Invocation) bool { return true }}
	out, err := h.gate.Call(t.Context(), &told)
	if rec, _ := h.db.Load(t.Context(), h.session.Organization, out.Invocation.ID); err != nil || out.Invocation.Status != action.StatusPending || !rec.Answered {
		t.Fatalf("who was told: %v, %s, answered %t", err, out.Invocation.Status, rec.Answered)
	}
	if _, err := h.gate.Deny(t.Context(), h.verdict(out.Invocation.ID)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	first := h.begin(ctx, h.call("write", `{"a":2}`))
	inv := h.pending()
	gone, leave := context.WithCancelCause(t.Context())
	joins := h.call("write", `{"a":2}`)
	joins.Waiting = told.Waiting
	second := h.begin(gone, joins)
	h.eventually("both to wait", func() bool { return h.gate.Callers(inv.ID) == 2 })
	leave(action.ErrCallerGone)
	h.get(second)
	cancel(action.ErrCancelled)
	h.get(first)
	if row := h.row(inv.ID); row.DeniedReason != action.DeniedWithdrawn {
		t.Errorf("the call of who cancelled is %s %s", row.Status, row.DeniedReason)
	}
}

// Opened is called for the call that is held, once, and for none that joins it or
// comes back for it.
func TestOpenedOnce(t *testing.T) {
	t.Parallel()
	h, e := newHouse(t), &effects{}
	h.catalog.put(tool("write", action.RiskWrite, e.run))
	opened := make(chan string, 10)
	waiting := action.Waiting{Patience: action.Forever, OnOpened: func(inv *action.Invocation) bool {
		opened <- inv.ID + inv.ApprovalURL
		return false
	}}
	c := h.call("write", `{}`)
	c.Waiting = waiting
	one := h.begin(t.Context(), c)
	inv := h.pending()
	two := h.begin(t.Context(), c)
	three := make(chan answer, 1)
	go func() {
		out, err := h.gate.Wait(context.Background(), &h.session, inv.ID, waiting)
		three <- answer{out, err}
	}()
	h.eventually("all to wait", func() bool { return h.gate.Callers(inv.ID) == 3 })
	h.approve(inv.ID)
	for _, done := range []<-chan answer{one, two, three} {
		h.want(h.get(done), action.StatusCompleted)
	}
	close(opened)
	var all []string
	for id := range opened {
		all = append(all, id)
	}
	if len(all) != 1 || !strings.HasPrefix(all[0], inv.ID+"http://gate.test/") {
		t.Errorf("opened %q", all)
	}
}

// What nobody can call through the gateway is refused before policy: no row is
// made, and nobody is asked.
func TestTaskOnlyAsksNobody(t *testing.T) {
	t.Parallel()
	m := newCallMetrics()
	h, e := newHouse(t, func(c *gate.Config) { c.Observer = m }), &effects{}
	a := tool("slow", action.RiskWrite, e.run)
	a.Check = func(json.RawMessage) error {
		return action.Errorf(action.ErrForbidden, "task_only", "It can only be called as a task.")
	}
	h.catalog.put(a)
	h.mode("slow", action.ModeRequireApproval)
	got := h.get(h.begin(t.Context(), h.call("slow", `{}`)))
	if !errors.Is(got.err, action.ErrForbidden) || action.Public(got.err).Code != "task_only" {
		t.Errorf("it is answered %+v", got)
	}
	if rows := h.rows(); len(rows) != 0 || e.n.Load() != 0 {
		t.Errorf("%d rows were made, and it ran %d times", len(rows), e.n.Load())
	}
	if lines := scraped(t, m.refused); !slices.Contains(lines, `sallyport_calls_refused_total{kind="forbidden"} 1`) {
		t.Errorf("counted is %q", lines)
	}
}
