package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestHeapMayGrowByRoom(t *testing.T) {
	for live, want := range map[uint64]int{
		0: most, 4 << 20: most, 16 << 20: 400, 32 << 20: 200, 63 << 20: 110, 64 << 20: 100, 110 << 20: 60, 128 << 20: 50, 160 << 20: 40, 1 << 30: 40,
	} {
		if got := growth(live); got != want {
			t.Errorf("%d bytes may grow by %d percent, not %d", live, got, want)
		}
	}
}

func TestRoomFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(goPercent)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Cleanup(giveRoom())
	percent := func() int {
		now := debug.SetGCPercent(goPercent)
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
	becomes("a large heap may grow by more than two fifths", func(p int) bool { return p == least })
	runtime.KeepAlive(held)
	becomes("a small one has no room", func(p int) bool { return p > goPercent })
}
