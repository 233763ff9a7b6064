package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Before it is collected the heap may grow by room, and by two fifths of what it
// holds where that is more. Go's own rule is: by as much as it holds.
//
// The heap of a gateway is mostly small, and what is in it lives for one call: by
// Go's rule it is collected many times a second, which takes a quarter of the
// processor time (make bench, reads of 64 sessions on SQLite). A large one holds
// thousands of calls that wait and make little garbage: by Go's rule it takes
// twice the memory that they need (bench/PROFILES.md, Held calls).
const (
	goPercent = 100 // what Go starts with
	least     = 40
	room      = 64 << 20
	most      = 800 // of a heap that holds next to nothing
)

// giveRoom applies that until stop is called, unless the environment says how the
// heap is to be collected.
func giveRoom() (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	var stopped atomic.Bool
	percent := goPercent
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var collected func(*[16]byte)
	// What nothing refers to is finalized after each collection.
	collected = func(again *[16]byte) {
		if stopped.Load() {
			return
		}
		runtime.SetFinalizer(again, collected)
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindUint64 {
			return
		}
		if next := growth(sample[0].Value.Uint64()); next != percent { // which stops the world for a moment
			percent = next
			debug.SetGCPercent(next)
		}
	}
	runtime.SetFinalizer(new([16]byte), collected)
	return func() {
		stopped.Store(true)
		debug.SetGCPercent(goPercent)
	}
}

// growth is by how many percent a heap may grow that holds so much, in full tens.
func growth(live uint64) int {
	percent := (room/(live/100+1) + 9) / 10 * 10
	return int(min(max(percent, least), most))
}
