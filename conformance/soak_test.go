//go:build soak

package conformance_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// plainBinary builds the command once, without the race detector, whose memory grows
// by itself.
var plainBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "sallyport-plain")
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", path, "../cmd/sallyport")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w\n%s", err, out)
	}
	return path, nil
})

// TestSoak has two gateways work for as long as the variable SOAK says (`make
// soak`) while everything around them comes and goes: reads, writes, writes that
// are held and approved on either, a tool that drifts, restarts of the upstream, of
// Valkey and of one gateway, orderly and not. Then every caller was told the truth,
// every completed call had one effect, nothing is left waiting or executing, and
// the gateway that stayed has no more goroutines, memory and open files than before.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil {
		t.Fatalf("SOAK is how long it takes, such as SOAK=10m: %v", err)
	}
	c := newServers(t, true)
	c.program = plainBinary
	drift := c.driftingTool()
	c.upstream.takesTime()
	for range 2 {
		c.prepare("gateway", "--call-timeout", "5s", "--check-timeout", "5s", "--lease-margin", "1s", "--list-for", "3s")
	}
	c.begin()
	stays, leaves := c.gateways[0], c.gateways[1]

	// What a gateway gathers once (pools, caches, code that was never run) is no leak.
	warm := c.startLoadOf(leaves, soakPause)
	warm.disturb(drift, max(length/10, 5*time.Second))
	warm.settle(stays)
	before := c.measure(stays)

	l := c.startLoadOf(leaves, soakPause)
	rounds := l.disturb(drift, length)
	l.settle(stays)
	after := c.measure(stays)

	again := c.measure(leaves)
	t.Logf("%v with %d rounds of disturbances; effects %d", length, rounds, c.upstream.total())
	t.Logf("before   %v", before)
	t.Logf("after    %v", after)
	t.Logf("the one that was restarted: %v", again)
	// What each round leaves behind is seen whatever comes and goes.
	slack := float64(rounds)/2 + 6
	for _, now := range []usage{after, again} {
		for _, one := range []struct {
			what            string
			was, is, atMost float64
		}{
			{"goroutines", before.goroutines, now.goroutines, before.goroutines + slack},
			{"open files", before.files, now.files, before.files + slack},
			{"bytes of heap", before.heap, now.heap, 1.5*before.heap + 24<<20},
			{"resident bytes", before.resident, now.resident, 1.5*before.resident + 96<<20},
		} {
			if one.is > one.atMost {
				t.Errorf("%s: %.0f before, %.0f after, which is more than the %.0f that come and go", one.what, one.was, one.is, one.atMost)
			}
		}
	}
	if rounds == 0 {
		t.Error("nothing was disturbed; let SOAK be longer")
	}
}

// soakPause is how long each caller rests between two calls.
const soakPause = 60 * time.Millisecond

// driftingTool adds it to the upstream; what is returned changes it, and back.
func (c *cluster) driftingTool() (change func()) {
	var changed atomic.Bool
	c.upstream.mu.Lock()
	defer c.upstream.mu.Unlock()
	c.upstream.say = func(method string, _ *toolCall) string {
		if method != "tools/list" {
			return ""
		}
		more := ""
		if changed.Load() {
			more = `,"force":{"type":"boolean"}`
		}
		return strings.Replace(upstreamTools, `"tools":[`, fmt.Sprintf(`"tools":[{"name":%q,"description":"Shifts.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}%s}},"annotations":{"readOnlyHint":true}},`, loadDrift, more), 1)
	}
	return func() { changed.Store(!changed.Load()) }
}

// takesTime has one write in ten take a while once it happened, so that what
// executes meets what is restarted.
func (u *upstream) takesTime() {
	u.misbehave(func(w http.ResponseWriter, r *http.Request, c *toolCall) bool {
		if c.Params.Name != loadWrite && c.Params.Name != loadHold || rand.IntN(10) > 0 {
			return false
		}
		u.did(c)
		select {
		case <-time.After(300 * time.Millisecond):
			respond(w, c, resultOf(c))
		case <-r.Context().Done(): // its connection was cut
		}
		return true
	})
}

// disturb has one thing after another go wrong for as long as that, each time
// waiting until calls are answered again, and returns how often all of them did.
// A tool drifts all the time, with callers of its own.
func (l *load) disturb(drift func(), length time.Duration) (rounds int) {
	l.t.Helper()
	l.soaking = true
	stays := l.gateways[0]
	var asked, done atomic.Int64
	for _, g := range l.gateways {
		a := newAgent(l.t, g.MCPURL, stays.mint(nil).Token)
		l.mu.Lock()
		l.agents = append(l.agents, a)
		l.mu.Unlock()
		l.work(func() {
			l.mu.Lock()
			l.n++
			n := l.n
			l.mu.Unlock()
			ctx, stop := context.WithTimeout(context.WithoutCancel(l.t.Context()), patience)
			defer stop()
			asked.Add(1)
			// It may change between the approval and the execution, and then is not
			// executed: what the rows say of that is checked with all others.
			if got, err := a.call(ctx, "up_"+loadDrift, fmt.Sprintf(`{"n":%d}`, n), nil); err == nil && got.did(fmt.Sprintf("%s %d", loadDrift, n)) {
				done.Add(1)
			}
		})
	}
	restart := func(end func()) {
		l.restarting.Lock()
		defer l.restarting.Unlock()
		end()
		l.leaving.start()
	}
	disturbances := []func(){
		drift,
		func() { l.upstream.restart(l.t) },
		func() { l.valkey.Kill(); l.more(10, toldResult); l.valkey.Start() },
		drift,
		func() { restart(l.leaving.stop) },
		func() { l.valkey.Stop(); l.more(10, toldResult); l.valkey.Start() },
		func() { restart(l.leaving.kill) },
	}
	every := max(length/80, 500*time.Millisecond)
	for end := time.Now().Add(length); time.Now().Before(end); {
		for _, disturbance := range disturbances {
			time.Sleep(every)
			disturbance()
			l.more(20, toldResult)
			if stays.ended() {
				l.t.Fatalf("the gateway that stays ended:\n%s", stays.logged())
			}
		}
		rounds++
	}
	l.t.Logf("the drifting tool was called %d times, and did its work %d times", asked.Load(), done.Load())
	if done.Load() == 0 {
		l.t.Error("the drifting tool never did its work")
	}
	return rounds
}

// settle ends the load, has what is still held approved, and checks everything.
func (l *load) settle(g *gateway) {
	l.t.Helper()
	l.end()
	for _, a := range l.agents {
		a.http.CloseIdleConnections()
	}
	await(l.t, "no call to be held", func() bool {
		l.approve(g)
		return len(g.invocations("status=pending")) == 0
	})
	l.check(g)
}

// usage is what a gateway uses while it has nothing to do.
type usage struct{ goroutines, files, heap, resident float64 }

func (u usage) String() string {
	return fmt.Sprintf("%.0f goroutines, %.0f open files, %.1f MiB of heap, %.1f MiB resident", u.goroutines, u.files, u.heap/(1<<20), u.resident/(1<<20))
}

// measure looks at a gateway until the numbers are as low as they get, and its heap
// was collected twice: soon after that the heap is what lives, and connections of
// those who left close. Being asked is what makes it collect.
func (c *cluster) measure(g *gateway) usage {
	c.t.Helper()
	var seen usage
	var first, collected float64
	end := time.Now().Add(patience)
	for i, quiet := 0, 0; quiet < 100 || collected < first+2; i++ {
		if time.Now().After(end) {
			c.t.Fatalf("the gateway is not quiet, or does not collect its heap (is GOGC off?), within %v", patience)
		}
		var now usage
		metrics := g.do("GET", "/metrics", nil).Body
		for name, into := range map[string]*float64{
			"go_gc_duration_seconds_count": &collected, "go_goroutines": &now.goroutines, "go_memstats_heap_alloc_bytes": &now.heap, "process_resident_memory_bytes": &now.resident,
		} {
			_, value, _ := bytes.Cut(metrics, []byte("\n"+name+" "))
			value, _, _ = bytes.Cut(value, []byte("\n"))
			var err error
			if *into, err = strconv.ParseFloat(string(value), 64); err != nil {
				c.t.Fatalf("/metrics does not tell %s: %v", name, err)
			}
		}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
		if err != nil {
			c.t.Fatal(err)
		}
		now.files = float64(len(open))
		if i == 0 {
			seen, first = now, collected
		}
		lower := usage{min(seen.goroutines, now.goroutines), min(seen.files, now.files), min(seen.heap, now.heap), min(seen.resident, now.resident)}
		quiet++
		if lower.goroutines < seen.goroutines || lower.files < seen.files || lower.heap < 0.98*seen.heap {
			quiet = 0
		}
		seen = lower
		time.Sleep(5 * time.Millisecond)
	}
	return seen
}
