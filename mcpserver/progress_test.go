package mcpserver

import (
	"testing"
	"time"

	"sallyport/action"
)

// What a caller reads while he waits is what happens.
func TestStatusText(t *testing.T) {
	now := time.Now()
	expires := now.Add(4*time.Minute + 10*time.Second)
	for status, want := range map[action.Status]string{
		action.StatusPending:   "Waiting for approval of Notes add: https://gate.test/1 (4m10s left)",
		action.StatusApproved:  "Notes add was approved and is about to run",
		action.StatusExecuting: "Notes add was approved and is being executed",
	} {
		inv := action.Invocation{SourceName: "Notes", Action: "add", Status: status, ApprovalURL: "https://gate.test/1", ExpiresAt: &expires}
		if got := statusText(&inv, now); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}
