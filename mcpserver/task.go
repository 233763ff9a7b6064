package mcpserver

import (
	"encoding/json"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// A call that is held is a task for clients of the stateless era that declare the
// Tasks extension with it. The task is the invocation's row, and its id is the
// invocation's: nothing else is kept, so any instance answers for it, after a
// restart too. For other clients there are no tasks.

// tasksExtension is the name under which both sides declare it.
const tasksExtension = "io.modelcontextprotocol/tasks"

// The statuses of a task. A call that was denied, that expired, or whose tool
// failed is completed with a result that says so: failed is for JSON-RPC errors.
const (
	taskWorking   = "working"
	taskAsks      = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

const (
	// pollEvery is how often a client should ask for a task: a source waits some
	// seconds for somebody to take its question.
	pollEvery = 2 * time.Second
	// pollRarely is the same while nobody sits there who could decide soon.
	pollRarely = 5 * time.Second
)

// declaresTasks reports whether a request declares the extension.
func declaresTasks(meta []byte) bool {
	return isObject(member(member(capabilitiesIn(meta), "extensions"), tasksExtension))
}

// needsTasks refuses what only clients with tasks may ask for.
func needsTasks() *problem {
	return &problem{
		code: codeMissingCapability, text: "Declare the extension " + tasksExtension + " in the capabilities of this request; only clients that do have tasks.",
		data: []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}

// task is what a client is told of a call that is one.
type task struct {
	ID        string `json:"taskId"`
	Status    string `json:"status"`
	Message   string `json:"statusMessage,omitempty"`
	CreatedAt string `json:"createdAt"`
	UpdatedAt string `json:"lastUpdatedAt"`
	TTL       int64  `json:"ttlMs"`
	PollEvery int64  `json:"pollIntervalMs"`
}

// taskOf tells of a call that has not ended.
func (s *Server) taskOf(inv *action.Invocation, unattended bool) task {
	now, every := s.cfg.Now(), pollEvery
	if unattended && inv.Status == action.StatusPending {
		every = pollRarely
	}
	t := task{
		ID: inv.ID, Status: taskWorking, Message: heldText(inv, now),
		CreatedAt: instant(inv.CreatedAt), UpdatedAt: instant(updated(inv)),
		TTL: s.taskLife(inv, unattended, now).Milliseconds(), PollEvery: every.Milliseconds(),
	}
	if inv.Status != action.StatusPending {
		t.Message += "; it cannot be cancelled any more"
	}
	return t
}

// taskLife is how long after its creation a task can be asked for with its full
// result, as far as that is known now.
func (s *Server) taskLife(inv *action.Invocation, unattended bool, now time.Time) time.Duration {
	end, kept := now, s.cfg.Pickup
	if unattended {
		kept = s.cfg.UnattendedPickup
	}
	switch {
	case inv.CompletedAt != nil:
		end = *inv.CompletedAt
	case inv.ExpiresAt != nil && inv.ExpiresAt.After(now):
		end = *inv.ExpiresAt
	}
	return end.Sub(inv.CreatedAt) + kept
}

// updated is when the row last changed.
func updated(inv *action.Invocation) time.Time {
	for _, t := range []*time.Time{inv.CompletedAt, inv.StartedAt, inv.ApprovedAt} {
		if t != nil {
			return *t
		}
	}
	return inv.CreatedAt
}

// instant is a time as tasks have it.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// created answers a call with its task.
func (t *task) created() message {
	return message{result: t.with(`"resultType":"task",`, "", nil)}
}

// with returns the task as an object that begins with raw members and ends with
// one more, if it has a name.
func (t *task) with(lead, name string, value []byte) []byte {
	fields, _ := json.Marshal(t) // strings and numbers always encode
	b := append([]byte{'{'}, lead...)
	b = append(b, fields[1:len(fields)-1]...)
	if name != "" {
		b = jsonlex.Quote(append(b, ','), name)
		b = append(append(b, ':'), value...)
	}
	return append(b, '}')
}

// detailed is all that a client may know of a task: where it stands, and what
// goes with that. Its result is the one that the call would have been given.
func (s *Server) detailed(who *action.Session, o *action.Outcome) []byte {
	inv := &o.Invocation
	t := s.taskOf(inv, who.Kind == action.Unattended)
	if o.Round != nil && len(o.Round.Questions) > 0 {
		t.Status, t.Message = taskAsks, o.Round.SourceName+" asks something before "+nameOf(inv)+" goes on"
		return t.with("", "inputRequests", taskQuestions(o.Round))
	}
	if !inv.Status.Terminal() {
		return t.with("", "", nil)
	}
	t.Message = ""
	if inv.Status == action.StatusDenied && inv.DeniedReason == action.DeniedWithdrawn {
		t.Status, t.Message = taskCancelled, inv.Refusal(lasting(s.cfg.DenialHolds))
		return t.with("", "", nil)
	}
	m := s.outcomeMessage(o, "", false, s.cfg.Now())
	if m.fault != nil {
		t.Status, t.Message = taskFailed, source(inv)+" answered with an error"
		return t.with("", "error", m.fault)
	}
	t.Status = taskCompleted
	rest, lead := asModern(methodCall, m.result)
	return t.with("", "result", append(lead, rest...))
}

// taskQuestions are those of a round, under keys that no other round of the task
// has.
func taskQuestions(round *action.Round) []byte {
	b := []byte{'{'}
	for i := range round.Questions {
		q := &round.Questions[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(b, questionID(round.ID, q.Key)), `:{`...)
		b = append(appendQuestion(b, round.SourceName, q), '}')
	}
	return append(b, '}')
}
