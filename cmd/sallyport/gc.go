package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Between two collections the heap may grow by minGrowth, or by minPercent of the live
// heap where that is more. Go's default is 100 %.
//
// The heap of a gateway is usually small, and most objects live for one call. With the
// default it is collected many times a second, which takes a quarter of the CPU time
// (make bench, reads of 64 sessions on SQLite). A large heap holds thousands of pending
// calls and gets little garbage: with the default it takes twice the memory that it
// needs (bench/PROFILES.md, Held calls).
const (
	defaultPercent = 100 // of the Go runtime
	minPercent     = 40
	minGrowth      = 64 << 20
	maxPercent     = 800 // of an almost empty heap
)

// tuneCollector adjusts the GC percentage after each collection until stop is called,
// unless GOGC or GOMEMLIMIT is set.
func tuneCollector() (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	var stopped atomic.Bool
	percent := defaultPercent
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var collected func(*[16]byte)
	// The finalizer of an unreachable object runs after each collection.
	collected = func(again *[16]byte) {
		if stopped.Load() {
			return
		}
		runtime.SetFinalizer(again, collected)
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindUint64 {
			return
		}
		if next := growthPercent(sample[0].Value.Uint64()); next != percent { // SetGCPercent stops the world
			percent = next
			debug.SetGCPercent(next)
		}
	}
	runtime.SetFinalizer(new([16]byte), collected)
	return func() {
		stopped.Store(true)
		debug.SetGCPercent(defaultPercent)
	}
}

// growthPercent returns the GC percentage for a live heap of that size, a multiple of ten.
func growthPercent(live uint64) int {
	percent := (minGrowth/(live/100+1) + 9) / 10 * 10
	return int(min(max(percent, minPercent), maxPercent))
}
