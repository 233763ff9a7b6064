package ingest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/ingest/event"
)

func TestPace(t *testing.T) {
	var p Pace
	now := time.Now()
	check := func(what string, want time.Duration) {
		t.Helper()
		if got := p.rest(10*time.Millisecond, restWithin, now).Round(time.Millisecond); got != want {
			t.Errorf("%s: a rest of %v, want %v", what, got, want)
		}
		some := 25
		if want > 0 {
			some = 8
		}
		if got := p.some(25, restWithin, now); got != some {
			t.Errorf("%s: %d of a batch, want %d", what, got, some)
		}
	}
	tell := func(d time.Duration) {
		for range 200 {
			now = now.Add(time.Millisecond)
			p.took(d, now)
		}
	}
	check("nothing came", 0)
	p.took(easily/4, now)
	tell(easily)
	check("there is room", 0)
	tell(2 * easily)
	check("it takes twice as long", 10*time.Millisecond)
	tell(time.Second)
	check("it takes for ever", 80*time.Millisecond)
	if got := p.rest(time.Minute, 0, now); got != longestRest {
		t.Errorf("a rest of %v after a minute's work, want %v", got, longestRest)
	}
	if got := p.some(25, restWithin+1, now); got != 25 {
		t.Errorf("%d of a batch when workers are behind", got)
	}
	if got := p.rest(time.Minute, restWithin+1, now); got != 0 {
		t.Errorf("a rest of %v when workers are behind", got)
	}
	now = now.Add(lately + 1)
	check("nothing came lately", 0)
	p.took(time.Second, now)
	tell(time.Millisecond)
	check("it is fast again", 0)
	p = Pace{}
	tell(5 * easily)
	check("the database takes so long by itself", 0)
	tell(21 * easily)
	check("it takes longer than that", 10*time.Millisecond)
	(*Pace)(nil).took(time.Second, now)
	if got := (*Pace)(nil).some(25, 0, now); got != 25 {
		t.Errorf("%d of a batch without a server", got)
	}
	if got := (*Pace)(nil).rest(time.Second, 0, now); got != 0 {
		t.Errorf("a rest of %v without a server", got)
	}
}

// While senders wait for long, workers rest between batches, and take up work
// again when they do not.
func TestWorkersRestWhileSendersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWorkshop(t)
		s.trigger(event.Trigger{ID: "t1"})
		for i := range 400 {
			s.post(event.Receipt{Trigger: "t1"}, fmt.Sprintf(`{"key":"k%d"}`, i))
		}
		var batches atomic.Int64
		s.refuse = func([]event.Settlement) error { time.Sleep(10 * time.Millisecond); batches.Add(1); return nil }
		c := s.config()
		c.Workers, c.Batch, c.Pace = 1, 10, &Pace{}
		stop := s.start(c)
		defer stop()
		c.Pace.took(time.Millisecond, time.Now())
		for range 100 {
			c.Pace.took(time.Second, time.Now())
			time.Sleep(time.Millisecond)
		}
		if busy := batches.Load(); busy > 2 {
			t.Errorf("%d batches of 10 ms within 100 ms while senders wait, want 2 at most", busy)
		}
		time.Sleep(2 * lately) // a rest ends, and nobody waits any more
		before := batches.Load()
		time.Sleep(100 * time.Millisecond)
		if idle := batches.Load() - before; idle < 9 {
			t.Errorf("%d batches of 10 ms within 100 ms when nobody waits", idle)
		}
	})
}
