package store_test

import (
	"fmt"
	"sync/atomic"
	"time"
)

// holds tries to take a lock through any of the processes.
func (h *house) holds(i int, name, holder string, ttl time.Duration) bool {
	h.Helper()
	return must(h.any(i).Hold(h.ctx, name, holder, ttl))(h)
}

var leaseStories = map[string]func(*house){
	"a lock has one holder, who may renew it": func(h *house) {
		h.equal(h.holds(0, "sweep", "a", time.Hour), true, "a takes it")
		h.equal(h.holds(1, "sweep", "b", time.Hour), false, "b takes it")
		h.equal(h.holds(0, "sweep", "a", time.Hour), true, "a takes it again")
		h.equal(h.holds(1, "sweep", "b", time.Hour), false, "b takes it then")
		h.equal(h.holds(1, "other", "b", time.Hour), true, "b takes another one")
	},
	"a lock that is not renewed can be taken over": func(h *house) {
		h.equal(h.holds(0, "sweep", "a", time.Hour), true, "a takes it")
		h.equal(h.holds(0, "sweep", "a", 20*time.Millisecond), true, "a takes it for a moment")
		deadline := time.Now().Add(10 * time.Second)
		for !h.holds(1, "sweep", "b", time.Hour) {
			if time.Now().After(deadline) {
				h.Fatal("b never got it")
			}
			time.Sleep(5 * time.Millisecond)
		}
		h.equal(h.holds(0, "sweep", "a", time.Hour), false, "a takes it back")
	},
	"only the holder gives a lock back": func(h *house) {
		h.ok(h.db.Release(h.ctx, "sweep", "a")) // nobody has it
		h.equal(h.holds(0, "sweep", "a", time.Hour), true, "a takes it")
		h.ok(h.any(1).Release(h.ctx, "sweep", "b"))
		h.equal(h.holds(1, "sweep", "b", time.Hour), false, "b takes it")
		h.ok(h.db.Release(h.ctx, "sweep", "a"))
		h.ok(h.db.Release(h.ctx, "sweep", "a"))
		h.equal(h.holds(1, "sweep", "b", time.Hour), true, "b takes it then")
	},
	"of 16 callers one gets the lock": func(h *house) {
		for _, name := range []string{"new", "lapsed"} {
			if name == "lapsed" {
				h.equal(h.holds(0, name, "dead", time.Microsecond), true, "the dead one took it")
				time.Sleep(time.Millisecond)
			}
			var got atomic.Int64
			together(16, func(i int) {
				held, err := h.any(i).Hold(h.ctx, name, fmt.Sprint(i), time.Hour)
				if err != nil {
					h.Error(err)
				} else if held {
					got.Add(1)
				}
			})
			h.equal(got.Load(), int64(1), "holders of the "+name+" lock")
		}
	},
	"a lock needs a name, a holder and a time": func(h *house) {
		for _, try := range []struct {
			name, holder string
			ttl          time.Duration
		}{{"", "a", time.Hour}, {"sweep", "", time.Hour}, {"sweep", "a", 0}} {
			if held, err := h.db.Hold(h.ctx, try.name, try.holder, try.ttl); held || err == nil {
				h.Errorf("%+v: held %t, %v", try, held, err)
			}
		}
	},
}
