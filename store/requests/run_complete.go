package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
	"sallyport/store/inbound"
)

// codeReportedByAgent is the code of a run that its own agent reported as failed or in
// need of a human.
const codeReportedByAgent = "reported_by_agent"

// CompleteRun ends the run of a session, once, as its agent reports, and returns the
// reply to the call. ended is nil if an earlier call was answered, or this one was
// refused. The session stays valid for e.Stays but accepts no new work. Errors are
// those of callTool.
func (st *Store) CompleteRun(ctx context.Context, c action.ToolCall, e action.Completion) (reply action.ToolReply, ended *action.CompletionResult, err error) {
	reply, err = st.callTool(ctx, c, toolOperation{subject: e.ID, run: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
		ended = nil
		r, err := claimedRun(ctx, tx, s, e.Run)
		if err != nil {
			return action.ToolReply{}, err
		}
		end := inbound.RunEnd{
			Status: event.RunStatus(e.Outcome), Delivery: event.DeliveryDelivered, Finished: true, SessionUntil: now.Add(e.ReplayFor),
			Result: event.RunResult{Status: event.RunStatus(e.Outcome), Message: e.Message, Result: e.Record},
			Note:   "The run was completed by its agent.",
		}
		if end.Status != event.RunSucceeded {
			end.Result.Code = codeReportedByAgent
		}
		if err := inbound.ValidateResult(&end.Result, event.RunSucceeded, event.RunFailed, event.RunNeedsHuman); err != nil {
			return action.ToolReply{}, err
		}
		withdrew, err := st.inbound.EndRun(ctx, tx, r, end, now)
		if err != nil {
			return action.ToolReply{}, err
		}
		ended = &action.CompletionResult{Run: r.ID, Status: action.Status(r.Status), Withdrawn: withdrew}
		return completedReply(r, &e, now)
	}})
	if err != nil {
		ended = nil
	}
	return reply, ended, err
}

// claimedRun returns the run that the session works on. The agent may pass its id.
func claimedRun(ctx context.Context, tx bun.IDB, s *action.Session, named string) (*inbound.RunRow, error) {
	r, err := inbound.FirstRun(ctx, func(into any) *bun.SelectQuery { return inbound.SelectRunOfSession(tx, into, s.Organization, s.ID) })
	switch {
	case action.Public(err).Code == "run_not_found" && err != nil:
		return nil, action.Errorf(action.ErrForbidden, "no_run", "This session works on no run, so there is none to complete.")
	case err != nil:
		return nil, err
	case named != "" && named != r.ID:
		return nil, action.Errorf(action.ErrForbidden, "other_run",
			"This session works on another run than the one that run_id names, and completes only its own: leave run_id out.").WithField("/run_id")
	case string(r.Session) != s.ID || r.Claim == "":
		return nil, action.Errorf(action.ErrConflict, "claim_lost", "The run is no more this session's: it is %s by now. Stop working on it.", r.Status)
	}
	return r, nil
}

func completedReply(r *inbound.RunRow, e *action.Completion, now time.Time) (action.ToolReply, error) {
	data, err := json.Marshal(struct {
		Run        string    `json:"run_id"`
		Completion string    `json:"completion_id"`
		Outcome    string    `json:"outcome"`
		At         time.Time `json:"completed_at"`
	}{r.ID, e.ID, e.Outcome, database.NewTimestamp(now).Time.UTC()})
	if err != nil {
		return action.ToolReply{}, fmt.Errorf("encoding the reply to a completion: %w", err)
	}
	said := map[event.RunStatus]string{
		event.RunSucceeded:  "It is recorded that the run succeeded.",
		event.RunFailed:     "It is recorded that the run failed.",
		event.RunNeedsHuman: "It is recorded that a person is needed, who goes on from here.",
	}[event.RunStatus(r.Status)]
	return action.ToolReply{Text: said + " Stop now: this session does nothing more.", Data: data}, nil
}
