package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// load is calls of all kinds at all gateways of a cluster, one after another
// in each of some sessions, until it is told to stop: reads, writes that
// policy allows, and writes that a person approves. It notes what each caller
// was told. Each call has a number of its own, so that it has one effect and
// one row.
type load struct {
	*cluster
	stop    chan struct{}
	workers sync.WaitGroup
	// leaving is a gateway that may go: its callers may find nobody there, and
	// then know nothing.
	leaving *gateway
	soaking bool // the upstream restarts and has a tool that drifts
	agents  []*agent
	pause   time.Duration // of each, between two things that it does
	// restarting keeps approvals from a gateway whose key is about to change.
	restarting sync.RWMutex

	mu       sync.Mutex
	n        int
	told     map[string][]string // effects, by what their callers were told
	odd      []string            // what no caller should be told
	approved []string            // effects whose approval was acknowledged
}

// The tools of a load: one that policy allows by itself, one that it is told to
// allow, and one that needs an approval.
const (
	loadRead  = "read"
	loadWrite = "write"
	loadHold  = "destroy"
)

// startLoad begins a load, with somebody who approves what is held, but for the
// calls of the cluster's own session.
func (c *cluster) startLoad(leaving *gateway) *load {
	c.t.Helper()
	return c.startLoadOf(leaving, 5*time.Millisecond) // the machine has more to do
}

// startLoadOf is startLoad with another pause.
func (c *cluster) startLoadOf(leaving *gateway, pause time.Duration) *load {
	c.t.Helper()
	c.loads++
	l := &load{cluster: c, stop: make(chan struct{}), leaving: leaving, pause: pause, n: 1_000_000*(c.loads-1) + 1000, told: make(map[string][]string)}
	c.gateways[0].mode(c.source+":"+loadWrite, "allow")
	c.gateways[0].mode(c.source+":"+loadHold, "require_approval")
	for _, g := range c.gateways {
		for _, tool := range []string{loadRead, loadWrite, loadHold, loadHold} {
			a := newAgent(c.t, g.MCPURL, g.mint(nil).Token)
			l.agents = append(l.agents, a)
			l.work(func() { l.call(g, a, tool) })
		}
		l.work(func() { l.approve(g) })
	}
	c.t.Cleanup(l.end)
	return l
}

// work does something again and again.
func (l *load) work(f func()) {
	l.workers.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			case <-time.After(l.pause):
				f()
			}
		}
	})
}

// end lets the last calls end; it may be called twice.
func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	// Who approves stops with the others: what is still held must not be left.
	done := make(chan struct{})
	go func() { l.workers.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
			l.approve(l.gateways[len(l.gateways)-1])
		}
	}
}

// call makes one call and notes what its caller was told.
func (l *load) call(g *gateway, a *agent, tool string) {
	l.mu.Lock()
	l.n++ // beyond the numbers of calls that are no part of the load
	effect := fmt.Sprintf("%s %d", tool, l.n)
	arguments := fmt.Sprintf(`{"n":%d}`, l.n)
	l.mu.Unlock()
	ctx, stop := context.WithTimeout(context.WithoutCancel(l.t.Context()), patience)
	defer stop()
	got, err := a.call(ctx, "up_"+tool, arguments, nil)
	words, odd := told(effect, got, err)
	if err != nil && g == l.leaving {
		odd = false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[words] = append(l.told[words], effect)
	if odd {
		l.odd = append(l.odd, fmt.Sprintf("%s: status %d, result %s, error %+v, %v", effect, got.Status, got.Raw, got.Error, err))
	}
}

// approve approves what is held, at any gateway. While the database is away
// that fails, and is tried again.
func (l *load) approve(g *gateway) {
	l.restarting.RLock()
	defer l.restarting.RUnlock()
	r, err := g.try("GET", "/api/v1/invocations?status=pending&limit=100", nil)
	if err != nil {
		return
	}
	var list invocationList
	_ = json.Unmarshal(r.Body, &list) // a problem instead is a list of none
	for _, i := range list.Items {
		if i.Session != l.session.ID && rand.IntN(2) == 0 { // leave some to the others
			if r, err := g.try("POST", "/api/v1/invocations/"+i.ID+"/approve", nil); err == nil && r.Status == http.StatusOK {
				l.mu.Lock()
				l.approved = append(l.approved, i.effect())
				l.mu.Unlock()
			}
		}
	}
}

// count says how many callers were told so.
func (l *load) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.told[words])
}

// more waits until so many more callers were told so.
func (l *load) more(n int, words string) {
	l.t.Helper()
	want := l.count(words) + n
	await(l.t, fmt.Sprintf("%d more callers to be told %s", n, words), func() bool { return l.count(words) >= want })
}
