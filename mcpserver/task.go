package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/internal/hangup"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
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
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

const (
	// pollInterval is how often a client should ask for a task: a source waits some
	// seconds for somebody to take its question.
	pollInterval = 2 * time.Second
	// unattendedPollInterval is the same while nobody sits there who could decide soon.
	unattendedPollInterval = 5 * time.Second
)

// declaresTasks reports whether a request declares the extension.
func declaresTasks(meta []byte) bool {
	return wire.IsObject(wire.Member(wire.Member(token.DeclaredCapabilities(meta), "extensions"), tasksExtension))
}

// needsTasks refuses what only clients with tasks may ask for.
func needsTasks() *wire.Error {
	return &wire.Error{
		Code: wire.CodeMissingCapability, Message: "Declare the extension " + tasksExtension + " in the capabilities of this request; only clients that do have tasks.",
		Data: []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}

// task is what a client is told of a call that is one.
type task struct {
	ID           string `json:"taskId"`
	Status       string `json:"status"`
	Message      string `json:"statusMessage,omitempty"`
	CreatedAt    string `json:"createdAt"`
	UpdatedAt    string `json:"lastUpdatedAt"`
	TTL          int64  `json:"ttlMs"`
	PollInterval int64  `json:"pollIntervalMs"`
}

// taskOf tells of a call that has not ended.
func (s *Server) taskOf(inv *action.Invocation, unattended bool) task {
	now, every := s.cfg.Now(), pollInterval
	if unattended && inv.Status == action.StatusPending {
		every = unattendedPollInterval
	}
	t := task{
		ID: inv.ID, Status: taskWorking, Message: statusText(inv, now),
		CreatedAt: formatTime(inv.CreatedAt), UpdatedAt: formatTime(lastUpdated(inv)),
		TTL: s.taskLife(inv, unattended, now).Milliseconds(), PollInterval: every.Milliseconds(),
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

// lastUpdated is when the row last changed.
func lastUpdated(inv *action.Invocation) time.Time {
	for _, t := range []*time.Time{inv.CompletedAt, inv.StartedAt, inv.ApprovedAt} {
		if t != nil {
			return *t
		}
	}
	return inv.CreatedAt
}

// formatTime is a time as tasks have it.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// created answers a call with its task.
func (t *task) created() wire.Response {
	return wire.Response{Result: t.encode(`"resultType":"task",`, "", nil)}
}

// encode returns the task as an object that begins with raw members and ends with
// one more, if it has a name.
func (t *task) encode(lead, name string, value []byte) []byte {
	fields, _ := json.Marshal(t) // strings and numbers always encode
	b := append([]byte{'{'}, lead...)
	b = append(b, fields[1:len(fields)-1]...)
	if name != "" {
		b = jsonlex.Quote(append(b, ','), name)
		b = append(append(b, ':'), value...)
	}
	return append(b, '}')
}

// taskDetails is all that a client may know of a task: where it stands, and what
// goes with that. Its result is the one that the call would have been given.
func (s *Server) taskDetails(who *action.Session, o *action.Outcome) []byte {
	inv := &o.Invocation
	t := s.taskOf(inv, who.Kind == action.Unattended)
	if o.Round != nil && len(o.Round.Questions) > 0 {
		t.Status, t.Message = taskInputRequired, o.Round.SourceName+" asks something before "+callName(inv)+" goes on"
		return t.encode("", "inputRequests", taskQuestions(o.Round))
	}
	if !inv.Status.Terminal() {
		return t.encode("", "", nil)
	}
	t.Message = ""
	if inv.Status == action.StatusDenied && inv.DeniedReason == action.DeniedWithdrawn {
		t.Status, t.Message = taskCancelled, inv.Refusal(durationText(s.cfg.DenialHolds))
		return t.encode("", "", nil)
	}
	m := s.outcomeResponse(o, "", false, s.cfg.Now())
	if m.Error != nil {
		t.Status, t.Message = taskFailed, sourceName(inv)+" answered with an error"
		return t.encode("", "error", m.Error)
	}
	t.Status = taskCompleted
	rest, lead := statelessResult(methodCall, m.Result)
	return t.encode("", "result", append(lead, rest...))
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

// The methods of the Tasks extension.
const (
	methodTask       = "tasks/get"
	methodTaskUpdate = "tasks/update"
	methodTaskCancel = "tasks/cancel"
)

// tasks serves the methods of the Tasks extension. They look at calls that were
// made, so they have no row and no rate; a session sees its own only.
func (s *Server) tasks(x *exchange, p *params) {
	switch {
	case !declaresTasks(p.meta):
		x.sendError(needsTasks())
		return
	case p.task == "":
		x.sendError(wire.InvalidParams("taskId is missing."))
		return
	case s.calls.draining():
		x.w.Header().Set("Retry-After", "2")
		wire.WriteText(x.w, http.StatusServiceUnavailable, restartingStatusText)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
	defer cancel()
	switch x.Method {
	case methodTask:
		s.getTask(ctx, x, p)
	case methodTaskUpdate:
		s.updateTask(ctx, x, p)
	default:
		s.cancelTask(ctx, x, p)
	}
}

// getTask tells at once where a task stands. One that ended is delivered with its
// result, when that got out.
func (s *Server) getTask(ctx context.Context, x *exchange, p *params) {
	o, ok := s.findTask(ctx, x, p, token.Features(token.DeclaredCapabilities(p.meta)))
	if !ok {
		return
	}
	wanted := !hangup.Gone(x.r)
	sent := x.sendTo(wire.NewWriter(x.w), wire.Response{Result: s.taskDetails(&x.who, o)})
	if sent == nil && wanted && o.Invocation.Status.Terminal() {
		s.cfg.Gate.Delivered(o)
	}
}

// findTask finds the call that a task is; false when it answered the request.
// What is no call of a tool is no task.
func (s *Server) findTask(ctx context.Context, x *exchange, p *params, can action.ClientFeatures) (*action.Outcome, bool) {
	o, err := s.cfg.Gate.Look(ctx, &x.who, p.task, can)
	if err == nil && isTool(&o.Invocation) {
		return o, true
	}
	s.sendTaskError(x, err)
	return o, false
}

// sendTaskError answers for a task that is not there, or cannot be looked at.
func (s *Server) sendTaskError(x *exchange, err error) {
	if err == nil || errors.Is(err, action.ErrNotFound) {
		x.sendError(wire.InvalidParams("There is no such task in this session. Check taskId, or make the call again if it is still needed."))
		return
	}
	x.send(s.gateError(err, existingCallText))
}

// updateTask hands on replies to what a task's source asks. What was not asked,
// or was answered already, changes nothing.
func (s *Server) updateTask(ctx context.Context, x *exchange, p *params) {
	if !wire.IsObject(p.responses) {
		x.sendError(wire.InvalidParams("inputResponses must be an object."))
		return
	}
	if !s.allowReply(x) {
		x.sendError(&wire.Error{Code: wire.CodeInternal, Message: "This session replied too often within a minute; send this update again in a minute."})
		return
	}
	o, ok := s.findTask(ctx, x, p, action.AskFeatures(action.AskKinds()))
	if !ok {
		return
	}
	if replies := repliesTo(o.Round, p.responses); len(replies) > 0 {
		_, err := s.cfg.Gate.Reply(ctx, &x.who, o.Round.ID, replies, false)
		if err != nil && !errors.Is(err, action.ErrNotFound) && !errors.Is(err, action.ErrGone) {
			x.send(s.gateError(err, existingCallText))
			return
		}
	}
	s.sendEmpty(x)
}

// repliesTo picks those of the responses that answer a question of the round. The
// Gate keeps the bytes as they are now.
func repliesTo(round *action.Round, responses []byte) map[string]action.Reply {
	if round == nil {
		return nil
	}
	asked := make(map[string]string, len(round.Questions))
	for i := range round.Questions {
		asked[questionID(round.ID, round.Questions[i].Key)] = round.Questions[i].Key
	}
	replies := map[string]action.Reply{}
	for m := (wire.Members{Text: responses}); m.Next(); {
		key, ok := asked[string(m.Key)]
		if _, twice := replies[key]; ok && !twice {
			replies[key] = action.Reply{Result: m.Value}
		}
	}
	return replies
}

// cancelTask withdraws a call that is held. What runs, or has ended, stays as it
// is: to cancel is to ask, and tasks/get tells what came of it.
func (s *Server) cancelTask(ctx context.Context, x *exchange, p *params) {
	if _, ok := s.findTask(ctx, x, p, 0); !ok {
		return
	}
	err := s.cfg.Gate.Withdraw(ctx, &x.who, p.task)
	if err != nil && !errors.Is(err, action.ErrConflict) {
		s.sendTaskError(x, err)
		return
	}
	s.sendEmpty(x)
}

func (s *Server) sendEmpty(x *exchange) { x.send(wire.Response{Result: []byte("{}")}) }
