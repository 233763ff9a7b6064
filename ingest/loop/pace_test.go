package loop

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	var p Pace
	now := time.Now()
	check := func(what string, want time.Duration) {
		t.Helper()
		if got := p.Pause(10*time.Millisecond, maxBacklog, now).Round(time.Millisecond); got != want {
			t.Errorf("%s: a rest of %v, want %v", what, got, want)
		}
		some := 25
		if want > 0 {
			some = 8
		}
		if got := p.BatchSize(25, maxBacklog, now); got != some {
			t.Errorf("%s: %d of a batch, want %d", what, got, some)
		}
	}
	tell := func(d time.Duration) {
		for range 200 {
			now = now.Add(time.Millisecond)
			p.Record(d, now)
		}
	}
	check("nothing came", 0)
	p.Record(easyLatency/4, now)
	tell(easyLatency)
	check("there is room", 0)
	tell(2 * easyLatency)
	check("it takes twice as long", 10*time.Millisecond)
	tell(time.Second)
	check("it takes for ever", 80*time.Millisecond)
	if got := p.Pause(time.Minute, 0, now); got != maxPause {
		t.Errorf("a rest of %v after a minute's work, want %v", got, maxPause)
	}
	if got := p.BatchSize(25, maxBacklog+1, now); got != 25 {
		t.Errorf("%d of a batch when workers are behind", got)
	}
	if got := p.Pause(time.Minute, maxBacklog+1, now); got != 0 {
		t.Errorf("a rest of %v when workers are behind", got)
	}
	now = now.Add(window + 1)
	check("nothing came lately", 0)
	p.Record(time.Second, now)
	tell(time.Millisecond)
	check("it is fast again", 0)
	p = Pace{}
	tell(5 * easyLatency)
	check("the database takes so long by itself", 0)
	tell(21 * easyLatency)
	check("it takes longer than that", 10*time.Millisecond)
	(*Pace)(nil).Record(time.Second, now)
	if got := (*Pace)(nil).BatchSize(25, 0, now); got != 25 {
		t.Errorf("%d of a batch without a server", got)
	}
	if got := (*Pace)(nil).Pause(time.Second, 0, now); got != 0 {
		t.Errorf("a rest of %v without a server", got)
	}
}
