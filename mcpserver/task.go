package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/internal/hangup"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/token"
	"sallyport/mcpserver/wire"
)

// A pending call is a task for stateless clients that declare the Tasks extension. The
// task is the row of the invocation and has its id. Nothing else is stored, so any
// instance can answer for it, also after a restart.

// tasksExtension is the name of the extension.
const tasksExtension = "io.modelcontextprotocol/tasks"

// The statuses of a task. Denied, expired and failed calls are completed with a result
// that says so: failed is for JSON-RPC errors.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

const (
	// pollInterval is how often a client should poll a task: a source waits only some
	// seconds for its question to be delivered.
	pollInterval = 2 * time.Second
	// unattendedPollInterval is the same while the call of an unattended session is
	// pending.
	unattendedPollInterval = 5 * time.Second
)

// declaresTasks reports whether a request declares the extension.
func declaresTasks(meta []byte) bool {
	return wire.IsObject(wire.Member(wire.Member(token.DeclaredCapabilities(meta), "extensions"), tasksExtension))
}

// needsTasks is the error for clients that do not declare the extension.
func needsTasks() *wire.Error {
	return &wire.Error{
		Code: wire.CodeMissingCapability, Message: "Declare the extension " + tasksExtension + " in the capabilities of this request; only clients that do have tasks.",
		Data: []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}

// task is a call as clients see it in the Tasks extension.
type task struct {
	ID           string `json:"taskId"`
	Status       string `json:"status"`
	Message      string `json:"statusMessage,omitempty"`
	CreatedAt    string `json:"createdAt"`
	UpdatedAt    string `json:"lastUpdatedAt"`
	TTL          int64  `json:"ttlMs"`
	PollInterval int64  `json:"pollIntervalMs"`
}

// taskOf returns the task of a call that has not ended.
func (s *Server) taskOf(inv *action.Invocation, unattended bool) task {
	now, every := s.cfg.Now(), pollInterval
	if unattended && inv.Status == action.StatusPending {
		every = unattendedPollInterval
	}
	updated := inv.CreatedAt
	for _, t := range []*time.Time{inv.ApprovedAt, inv.StartedAt, inv.CompletedAt} {
		if t != nil {
			updated = *t
		}
	}
	t := task{
		ID: inv.ID, Status: taskWorking, Message: statusText(inv, now),
		CreatedAt: formatTime(inv.CreatedAt), UpdatedAt: formatTime(updated),
		TTL: s.taskLife(inv, unattended, now).Milliseconds(), PollInterval: every.Milliseconds(),
	}
	if inv.Status != action.StatusPending {
		t.Message += "; it can no longer be cancelled"
	}
	return t
}

// taskLife is how long after its creation a task is available with its full result,
// as far as that is known.
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

// taskNote is the _meta of a new task: what the model is to read at once. Claude Code
// reads its own key, and otherwise tells its model only that a background task runs;
// the other key is that of the protocol's first version of tasks.
func taskNote(inv *action.Invocation, now time.Time) []byte {
	note := pendingLead(inv, now) + fmt.Sprintf(" Do not repeat the call: your client delivers its result as that of a task. %s with invocation_id %q returns it, too.", toolWait, inv.ID)
	b := jsonlex.Quote([]byte(`{"com.anthropic/agent-task":{"modelImmediateResponse":`), note)
	b = jsonlex.Quote(append(b, `},"io.modelcontextprotocol/model-immediate-response":`...), note)
	return append(b, '}')
}

// formatTime formats a time for the Tasks extension.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// encode returns the task as a JSON object that starts with the raw members lead and
// ends with one more member, if name is not empty.
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

// taskDetails returns the state of a task with its questions, error or result. The
// result is the one that the call would have returned.
func (s *Server) taskDetails(who *action.Session, o *action.Outcome) []byte {
	inv := &o.Invocation
	t := s.taskOf(inv, who.Kind == action.Unattended)
	if o.Round != nil && len(o.Round.Questions) > 0 {
		t.Status, t.Message = taskInputRequired, o.Round.SourceName+" asks for input before "+callName(inv)+" goes on"
		return t.encode("", "inputRequests", appendQuestions(nil, o.Round, questionID(o.Round.ID, ""))) // unique within the task
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

// The methods of the Tasks extension.
const (
	methodTask       = "tasks/get"
	methodTaskUpdate = "tasks/update"
	methodTaskCancel = "tasks/cancel"
)

// tasks serves the methods of the Tasks extension. They read existing calls of the
// session, so they create no rows and do not count as calls.
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

// getTask returns the state of a task. The result of an ended task counts as
// delivered once it was sent.
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

// findTask returns the call of a task; false if it answered the request. Only tool
// calls are tasks.
func (s *Server) findTask(ctx context.Context, x *exchange, p *params, can action.ClientFeatures) (*action.Outcome, bool) {
	o, err := s.cfg.Gate.Peek(ctx, &x.who, p.task, can)
	if err == nil && isTool(&o.Invocation) {
		return o, true
	}
	s.sendTaskError(x, err)
	return o, false
}

// sendTaskError answers for a task that does not exist or cannot be read.
func (s *Server) sendTaskError(x *exchange, err error) {
	if err == nil || errors.Is(err, action.ErrNotFound) {
		x.sendError(wire.InvalidParams("Task not found in this session. Check taskId, or make the call again if it is still needed."))
		return
	}
	x.send(s.gateError(err, existingCallText))
}

// updateTask passes on replies to the questions of a task's source. Unknown and
// already answered questions are ignored.
func (s *Server) updateTask(ctx context.Context, x *exchange, p *params) {
	if !wire.IsObject(p.responses) {
		x.sendError(wire.InvalidParams("inputResponses must be an object."))
		return
	}
	if !s.allow(x, kindReply) {
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

// repliesTo returns the responses that answer a question of the round. The Gate
// keeps the bytes as they are.
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

// cancelTask withdraws a pending call. Running and ended calls stay as they are:
// cancellation is a request, and tasks/get reports its result.
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

// sendEmpty answers with an empty result.
func (s *Server) sendEmpty(x *exchange) { x.send(wire.Response{Result: []byte("{}")}) }
