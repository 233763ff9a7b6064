package gate

import (
	"runtime"
	"testing"
	"time"
)

// The goroutine of an execution that ended runs the next one; few are kept, and
// none after a shutdown.
func TestExecutionsReuseGoroutines(t *testing.T) {
	w := newWork()
	idle := func(n int32) {
		t.Helper()
		for until := time.Now().Add(10 * time.Second); w.idle.Load() != n; runtime.Gosched() {
			if time.Now().After(until) {
				t.Fatalf("%d goroutines are idle; want %d", w.idle.Load(), n)
			}
		}
	}
	for range 10 {
		w.run(func() {})
		w.wg.Wait()
		idle(1)
	}
	hold := make(chan struct{})
	for range 3 * maxIdle {
		w.run(func() { <-hold })
	}
	close(hold)
	w.wg.Wait()
	idle(maxIdle)
	w.close()
	w.close()
	idle(0)
}
