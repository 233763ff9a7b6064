package action

import (
	"encoding/json"
	"time"
)

// Completion is what the agent of a run says when it is done.
type Completion struct {
	ID      string // the agent's own, by which it may say so again
	Run     string // empty: that of its session
	Outcome string // succeeded, failed or needs_human
	Message string // for people, in short; redacted
	// Record is all that it said, an object; redacted, and kept as the run's result.
	Record json.RawMessage
	// Stays is how long the session is answered the same again.
	Stays time.Duration
}

// Completed is what a completion ended: for those who look, and wait.
type Completed struct {
	Run      string
	Status   Status // of the run
	Withdrew []Invocation
}
