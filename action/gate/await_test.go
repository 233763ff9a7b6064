package gate

import (
	"testing"
	"testing/synctest"
	"time"

	"sallyport/action"
)

// TestHeldCallsAreJittered: calls that are held together do not report progress
// together, and none is silent for longer than the interval.
func TestHeldCallsAreJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{Config: Config{Timing: Timing{HoldEvery: 4 * time.Second}}}
		firsts := map[time.Duration]bool{}
		for range 20 {
			c := g.startTimers(true, &action.Waiting{Patience: action.Forever})
			began := time.Now()
			<-c.tick
			first := time.Since(began)
			if first < 2*time.Second || first > 4*time.Second {
				t.Errorf("the first tick came after %v", first)
			}
			firsts[first] = true
			for range 2 {
				c.reset()
				began = time.Now()
				if <-c.tick; time.Since(began) != 4*time.Second {
					t.Errorf("a later tick came after %v", time.Since(began))
				}
			}
			c.stop()
		}
		if len(firsts) < 10 {
			t.Errorf("20 calls ticked at %d times", len(firsts))
		}
	})
}
