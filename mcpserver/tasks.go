package mcpserver

import (
	"context"
	"errors"
	"net/http"

	"sallyport/action"
	"sallyport/internal/hangup"
)

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
		x.fail(needsTasks())
		return
	case p.task == "":
		x.fail(invalidParams("taskId is missing."))
		return
	case s.calls.draining():
		x.w.Header().Set("Retry-After", "2")
		plain(x.w, http.StatusServiceUnavailable, askLaterText)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerWithin)
	defer cancel()
	switch x.method {
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
	o, ok := s.lookAtTask(ctx, x, p, featuresOf(capabilitiesIn(p.meta)))
	if !ok {
		return
	}
	wanted := !hangup.Gone(x.r)
	sent := x.answer(newReply(x.w), message{result: s.detailed(&x.who, o)})
	if sent == nil && wanted && o.Invocation.Status.Terminal() {
		s.cfg.Gate.Delivered(o)
	}
}

// lookAtTask finds the call that a task is; false when it answered the request.
// What is no call of a tool is no task.
func (s *Server) lookAtTask(ctx context.Context, x *exchange, p *params, can action.ClientFeatures) (*action.Outcome, bool) {
	o, err := s.cfg.Gate.Look(ctx, &x.who, p.task, can)
	if err == nil && isTool(&o.Invocation) {
		return o, true
	}
	s.refuseTask(x, err)
	return o, false
}

// refuseTask answers for a task that is not there, or cannot be looked at.
func (s *Server) refuseTask(x *exchange, err error) {
	if err == nil || errors.Is(err, action.ErrNotFound) {
		x.fail(invalidParams("There is no such task in this session. Check taskId, or make the call again if it is still needed."))
		return
	}
	x.refuse(s.errorMessage(err, asItStands))
}

// updateTask hands on replies to what a task's source asks. What was not asked,
// or was answered already, changes nothing.
func (s *Server) updateTask(ctx context.Context, x *exchange, p *params) {
	if !isObject(p.responses) {
		x.fail(invalidParams("inputResponses must be an object."))
		return
	}
	if !s.mayReply(x) {
		x.fail(&problem{code: codeInternal, text: "This session replied too often within a minute; send this update again in a minute."})
		return
	}
	o, ok := s.lookAtTask(ctx, x, p, action.AskFeatures(action.AskKinds()))
	if !ok {
		return
	}
	if replies := repliesTo(o.Round, p.responses); len(replies) > 0 {
		_, err := s.cfg.Gate.Reply(ctx, &x.who, o.Round.ID, replies, false)
		if err != nil && !errors.Is(err, action.ErrNotFound) && !errors.Is(err, action.ErrGone) {
			x.refuse(s.errorMessage(err, asItStands))
			return
		}
	}
	s.acknowledge(x)
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
	for m := (members{text: responses}); m.next(); {
		key, ok := asked[string(m.key)]
		if _, twice := replies[key]; ok && !twice {
			replies[key] = action.Reply{Result: m.value}
		}
	}
	return replies
}

// cancelTask withdraws a call that is held. What runs, or has ended, stays as it
// is: to cancel is to ask, and tasks/get tells what came of it.
func (s *Server) cancelTask(ctx context.Context, x *exchange, p *params) {
	if _, ok := s.lookAtTask(ctx, x, p, 0); !ok {
		return
	}
	err := s.cfg.Gate.Withdraw(ctx, &x.who, p.task)
	if err != nil && !errors.Is(err, action.ErrConflict) {
		s.refuseTask(x, err)
		return
	}
	s.acknowledge(x)
}

func (s *Server) acknowledge(x *exchange) { x.refuse(message{result: []byte("{}")}) }
