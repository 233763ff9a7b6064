package conformance_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// crowd is many held calls: ten of each session, the most it may have, at all
// gateways in turn.
type crowd struct {
	*cluster
	calls map[string]*calling // by effect
}

func newCrowd(c *cluster, sessions int) *crowd {
	c.t.Helper()
	w := &crowd{c, make(map[string]*calling)}
	for n := range sessions {
		s := c.gateways[0].mint(nil)
		for i := range 10 {
			g := c.gateways[(n+i)%len(c.gateways)]
			a := newAgent(c.t, g.MCPURL, s.Token)
			w.calls[fmt.Sprintf("write %d", 10*n+i)] = a.start(c.t, "up_write", fmt.Sprintf(`{"n":%d}`, 10*n+i))
		}
	}
	return w
}

// pending waits until all are held, and returns their rows.
func (w *crowd) pending() []invocation {
	w.t.Helper()
	var held []invocation
	await(w.t, fmt.Sprintf("%d calls to be held", len(w.calls)), func() bool {
		held = w.gateways[0].every("status=pending")
		return len(held) >= len(w.calls)
	})
	return held
}

// decide sends verdicts on each call at once, each to another gateway, and
// returns the statuses of the answers. A few calls are decided at a time, so
// that it is the verdicts on one call that race, and not the machine.
func (w *crowd) decide(held []invocation, verdicts ...string) map[string][]int {
	w.t.Helper()
	var mu sync.Mutex
	statuses := make(map[string][]int, len(held))
	var next atomic.Int64
	var deciders sync.WaitGroup
	for range 4 {
		deciders.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(held); n = int(next.Add(1)) - 1 {
				got := w.race(held[n].ID, n, verdicts)
				mu.Lock()
				statuses[held[n].effect()] = got
				mu.Unlock()
			}
		})
	}
	deciders.Wait()
	return statuses
}

// race sends all verdicts on one call.
func (w *crowd) race(id string, n int, verdicts []string) []int {
	statuses := make([]int, len(verdicts))
	start := make(chan struct{})
	var racers sync.WaitGroup
	for i, verdict := range verdicts {
		g := w.gateways[(n+i)%len(w.gateways)]
		racers.Go(func() {
			<-start
			r, err := g.try("POST", "/api/v1/invocations/"+id+"/"+verdict, nil)
			if err != nil {
				w.t.Errorf("%s: %v", verdict, err)
			}
			statuses[i] = r.Status
		})
	}
	close(start)
	racers.Wait()
	return statuses
}

// winner returns which verdict was taken; all others must have been refused
// because of it.
func (w *crowd) winner(effect string, statuses []int) int {
	w.t.Helper()
	winner := -1
	for i, status := range statuses {
		switch {
		case status == http.StatusOK && winner < 0:
			winner = i
		case status != http.StatusConflict:
			w.t.Errorf("the verdicts on %q were answered with %v", effect, statuses)
		}
	}
	if winner < 0 {
		w.t.Errorf("no verdict on %q was taken: %v", effect, statuses)
	}
	return winner
}

// Eight approvals of each of 300 calls race on three gateways, which then race
// to run them, because none leaves time to the one where the caller waits: each
// is approved once, runs once, and its caller is answered once.
func TestInstancesRaceToApprove(t *testing.T) {
	t.Parallel()
	w := newCrowd(newCluster(t, 3, true, "--claim-grace", "1ms", "--sweep-every", "10ms"), 30)
	held := w.pending()
	if len(held) != 300 {
		t.Fatalf("%d calls are held, not 300", len(held))
	}
	approve := []string{"approve", "approve", "approve", "approve", "approve", "approve", "approve", "approve"}
	for effect, statuses := range w.decide(held, approve...) {
		w.winner(effect, statuses)
	}
	for effect, call := range w.calls {
		if got := call.wait(); !got.did(effect) {
			t.Errorf("the caller of %q was answered with %+v, error %+v", effect, got, got.Error)
		}
		w.effects(effect, 1)
	}
	rows := w.gateways[1].every("")
	for _, i := range rows {
		if i.Status != "completed" {
			t.Errorf("%q is %s", i.effect(), i.Status)
		}
	}
	if len(rows) != 300 || w.upstream.total() != 300 {
		t.Errorf("there are %d rows and %d effects, not 300 each", len(rows), w.upstream.total())
	}
}

// One person approves and another denies, on two gateways in the same moment:
// one of them wins, the other is told so; what was denied never runs.
func TestInstancesRaceToDeny(t *testing.T) {
	t.Parallel()
	w := newCrowd(newCluster(t, 3, true), 10)
	verdicts := []string{"approve", "deny"}
	won := make(map[string]string)
	for effect, statuses := range w.decide(w.pending(), verdicts...) {
		if i := w.winner(effect, statuses); i >= 0 {
			won[effect] = verdicts[i]
		}
	}
	for _, call := range w.calls {
		call.wait()
	}
	approved, rows := 0, w.rows(w.gateways[2])
	for effect, call := range w.calls {
		if len(rows[effect]) != 1 {
			t.Fatalf("%q has the rows %+v", effect, rows[effect])
		}
		row, got := rows[effect][0], call.got
		if won[effect] == "approve" {
			approved++
			if !got.did(effect) || row.Status != "completed" {
				t.Errorf("%q, which was approved, is %+v, and its caller was answered with %+v", effect, row, got)
			}
			w.effects(effect, 1)
			continue
		}
		if !got.Result.IsError || !strings.Contains(got.text(), "denied by a person") || row.Status != "denied" || row.DeniedReason != "human" {
			t.Errorf("%q, which was denied, is %+v, and its caller was answered with %+v", effect, row, got)
		}
		w.effects(effect, 0)
	}
	if len(w.calls) != 100 || w.upstream.total() != approved {
		t.Errorf("%d of %d calls were approved, and %d effects happened", approved, len(w.calls), w.upstream.total())
	}
	t.Logf("%d approvals and %d denials won", approved, len(w.calls)-approved)
}
