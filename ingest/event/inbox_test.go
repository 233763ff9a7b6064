package event

import "testing"

func TestAnEventIsWhereItsRunIs(t *testing.T) {
	for _, c := range []struct {
		skip SkipReason
		run  RunStatus
		want string
	}{
		{SkipFilter, "", "skipped"},
		{SkipManual, RunSkipped, "skipped"},
		{"", RunSkipped, "skipped"}, // its automation was deleted
		{"", "", "queued"},
		{"", RunQueued, "queued"},
		{"", RunClaimed, "processing"},
		{"", RunRunning, "processing"},
		{"", RunNeedsHuman, "processing"},
		{"", RunSucceeded, "completed"},
		{"", RunFailed, "failed"},
	} {
		if got := (&Record{Skip: c.skip, RunStatus: c.run}).Status(); got != c.want {
			t.Errorf("skip %q, run %q: %s, want %s", c.skip, c.run, got, c.want)
		}
	}
}
