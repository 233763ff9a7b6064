package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestHeapMayGrowByRoom(t *testing.T) {
	for live, want := range map[uint64]int{
		0: maxPercent, 4 << 20: maxPercent, 16 << 20: 400, 32 << 20: 200, 63 << 20: 110, 64 << 20: 100, 110 << 20: 60, 128 << 20: 50, 160 << 20: 40, 1 << 30: 40,
	} {
		if got := growthPercent(live); got != want {
			t.Errorf("%d bytes may grow by %d percent, not %d", live, got, want)
		}
	}
}

func TestRoomFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(defaultPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Cleanup(tuneCollector())
	percent := func() int {
		now := debug.SetGCPercent(defaultPercent)
		debug.SetGCPercent(now)
		return now
	}
	becomes := func(otherwise string, ok func(int) bool) {
		t.Helper()
		for end := time.Now().Add(maxWait); !ok(percent()); runtime.GC() {
			if time.Now().After(end) {
				t.Fatal(otherwise)
			}
		}
	}
	held := make([]byte, 256<<20)
	becomes("a large heap may grow by more than two fifths", func(p int) bool { return p == minPercent })
	runtime.KeepAlive(held)
	becomes("a small one has no room", func(p int) bool { return p > defaultPercent })
}
