package dashboard_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the heap grow further before it is collected: hundreds of servers
// are made and dropped, which leaves much garbage and few live objects.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
