package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/database"
)

// call is one call of a tool in the session.
func (h *runHouse) call(session, tool, id, params string) action.ToolCall {
	return action.ToolCall{
		Organization: h.org, Session: session, Tool: tool, ID: id, Invocation: uuid.NewString(), ParamsHash: params,
		Quota: action.Rate{Calls: 10, Seconds: 3600},
	}
}

func (h *runHouse) completion(id string) action.Completion {
	return action.Completion{ID: id, Outcome: "succeeded", Message: "Done.", Record: json.RawMessage(`{"outcome":"succeeded"}`), ReplayFor: 15 * time.Minute}
}

func (h *runHouse) setupSession(group string) string {
	h.Helper()
	w, err := h.db.CreateWorkspace(h.ctx, action.Workspace{Organization: h.org, Name: uuid.NewString(), CreatedBy: "alice"})
	h.ok(err)
	s, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, Type: action.TypeSetup, Group: group, Workspace: w.ID, CreatedBy: "alice"})
	h.ok(err)
	return s.ID
}

func TestGatewayTools(t *testing.T) {
	playRuns(t, map[string]func(*runHouse){
		"64 same calls complete a run once":          completedOnce,
		"a repeated completion gets the same reply":  completedAgain,
		"a run that is not the session's":            completedElsewhere,
		"a completion and a person's cancel":         completedOrCancelled,
		"a setup is replaced as a whole":             setupReplaced,
		"a session has a quota of calls":             quotaOfTools,
		"a retry joins though the quota is used up":  quotaAndRetry,
		"calls that come at once are over the quota": quotaAtOnce,
	})
}

func completedOnce(h *runHouse) {
	h.queued()
	w := h.claim()
	var ended atomic.Int32
	var work sync.WaitGroup
	replies := make([]action.ToolReply, 64)
	for i := range replies {
		work.Go(func() {
			c := h.call(w.Run.Session, "automation_complete", "call-1", "same")
			reply, did, err := h.any(i).CompleteRun(h.ctx, c, h.completion("done"))
			if err != nil {
				h.Error(err)
			}
			if did != nil {
				ended.Add(1)
			}
			replies[i] = reply
		})
	}
	work.Wait()
	if ended.Load() != 1 {
		h.Fatalf("%d calls ended the run, and one should", ended.Load())
	}
	for _, r := range replies {
		h.equal([]any{r.Invocation, r.Text, string(r.Data)}, []any{replies[0].Invocation, replies[0].Text, string(replies[0].Data)}, "answers")
	}
	run, err := h.db.Run(h.ctx, h.org, w.Run.ID)
	h.ok(err)
	h.equal([]any{run.Status, run.Message, string(run.Result), run.Code}, []any{event.RunSucceeded, "Done.", `{"outcome":"succeeded"}`, ""}, "the run")
	s, err := h.db.Session(h.ctx, w.Run.Session)
	h.ok(err)
	if err := s.Live(h.db.db.Now()); err != nil {
		h.Fatalf("the session cannot hear its answer any more: %v", err)
	}
	h.refused(s.Working(h.db.db.Now()), action.ErrConflict, "session_completed")
	if left := s.ExpiresAt.Sub(*s.CompletedAt); left != 15*time.Minute {
		h.Fatalf("the session lives on for %s", left)
	}
}

func completedAgain(h *runHouse) {
	h.queued()
	w := h.claim()
	first, _, err := h.db.CompleteRun(h.ctx, h.call(w.Run.Session, "automation_complete", "call-1", "a"), h.completion("done"))
	h.ok(err)
	for _, c := range []action.ToolCall{h.call(w.Run.Session, "automation_complete", "call-1", "a"), h.call(w.Run.Session, "automation_complete", "call-2", "b"), h.call(w.Run.Session, "automation_complete", "", "c")} {
		kept, err := h.db.ToolAnswered(h.ctx, c, "done")
		h.ok(err)
		h.equal(kept.Invocation, first.Invocation, "what is answered again")
		again, did, err := h.db.CompleteRun(h.ctx, c, h.completion("done"))
		h.ok(err)
		if did != nil || again.Text != first.Text {
			h.Fatalf("it was done again: %v, %q", did, again.Text)
		}
	}
	_, err = h.db.ToolAnswered(h.ctx, h.call(w.Run.Session, "automation_complete", "call-3", "d"), "other")
	h.refused(err, action.ErrConflict, "already_done")
	_, _, err = h.db.CompleteRun(h.ctx, h.call(w.Run.Session, "automation_complete", "call-3", "d"), h.completion("other"))
	h.refused(err, action.ErrConflict, "already_done")
	_, _, err = h.db.FinishRun(h.ctx, h.org, w.Run.ID, w.Run.Claim, event.RunResult{Status: event.RunFailed, Code: "late", Message: "Late."})
	h.refused(err, action.ErrConflict, "claim_lost")
	same, _, err := h.db.FinishRun(h.ctx, h.org, w.Run.ID, w.Run.Claim, event.RunResult{Status: event.RunSucceeded})
	h.ok(err)
	h.equal(same.Message, "Done.", "the run, for a worker that says the same")
}

func completedElsewhere(h *runHouse) {
	h.queued()
	other := h.queued()
	w := h.claim()
	wrong := h.completion("done")
	wrong.Run = other
	c := h.call(w.Run.Session, "automation_complete", "call-1", "a")
	reply, did, err := h.db.CompleteRun(h.ctx, c, wrong)
	h.ok(err)
	if !reply.Failed || did != nil {
		h.Fatalf("the run of another session was completed: %+v", reply)
	}
	h.equal(string(reply.Data), `{"code":"other_run","field":"/run_id"}`, "why not")
	kept, err := h.db.ToolAnswered(h.ctx, c, "done")
	h.ok(err)
	h.equal(kept.Text, reply.Text, "a refusal that stays")
	c.Organization = uuid.NewString()
	_, _, err = h.db.CompleteRun(h.ctx, c, h.completion("done"))
	h.refused(err, action.ErrNotFound, "session_not_found")
	right := h.completion("done")
	right.Run = w.Run.ID
	_, did, err = h.db.CompleteRun(h.ctx, h.call(w.Run.Session, "automation_complete", "call-2", "b"), right)
	h.ok(err)
	h.equal(did.Run, w.Run.ID, "the run that ended")
	plain := h.setupSession("")
	reply, _, err = h.db.CompleteRun(h.ctx, h.call(plain, "automation_complete", "call-1", "a"), h.completion("done"))
	h.ok(err)
	h.equal(string(reply.Data), `{"code":"no_run"}`, "a session without a run")
}

func completedOrCancelled(h *runHouse) {
	for i := range 8 {
		h.queued()
		w := h.claim()
		var done, cancelled error
		var work sync.WaitGroup
		work.Go(func() {
			_, _, done = h.any(i).CompleteRun(h.ctx, h.call(w.Run.Session, "automation_complete", "call-1", "a"), h.completion("done"))
		})
		work.Go(func() { _, _, cancelled = h.any(i+1).CancelRun(h.ctx, h.org, w.Run.ID, "alice", "No.") })
		work.Wait()
		run, err := h.db.Run(h.ctx, h.org, w.Run.ID)
		h.ok(err)
		switch {
		case done == nil && cancelled != nil:
			h.equal([]any{run.Status, run.Code}, []any{event.RunSucceeded, ""}, "a completed run")
		case done != nil && cancelled == nil:
			h.equal([]any{run.Status, run.Code}, []any{event.RunFailed, event.RunCancelled}, "a cancelled run")
			h.refused(done, action.ErrUnauthenticated, "session_revoked")
		default:
			h.Fatalf("completing: %v, cancelling: %v; the run is %s", done, cancelled, run.Status)
		}
	}
}

func setupReplaced(h *runHouse) {
	s := h.setupSession("web")
	c := h.call(s, "save_service_commands", "call-1", "a")
	_, err := h.db.SaveServiceCommands(h.ctx, c, json.RawMessage(`[{"name":"a"},{"name":"b"}]`))
	h.ok(err)
	_, err = h.db.SaveServiceCommands(h.ctx, h.call(s, "save_service_commands", "call-2", "b"), json.RawMessage(`[{"name":"c"}]`))
	h.ok(err)
	_, err = h.db.SaveEnvFiles(h.ctx, h.call(s, "save_env_files", "call-2", "c"), json.RawMessage(`[{"path":".env"}]`))
	h.ok(err)
	_, err = h.db.SaveServiceCommands(h.ctx, c, json.RawMessage(`[{"name":"a"},{"name":"b"}]`)) // late, and done already
	h.ok(err)
	c.ParamsHash = "other"
	_, err = h.db.SaveServiceCommands(h.ctx, c, json.RawMessage(`[]`))
	h.refused(err, action.ErrConflict, "tool_call_reused")
	session, err := h.db.Session(h.ctx, s)
	h.ok(err)
	got, err := h.db.Workspace(h.ctx, h.org, session.Workspace)
	h.ok(err)
	h.equal([]string{string(got.ServiceCommands), string(got.EnvFiles), got.SetUpBy, got.UpdatedBy}, []string{`[{"name":"c"}]`, `[{"path":".env"}]`, s, s}, "the setup")
	coding, err := h.db.CreateSession(h.ctx, action.Session{Organization: h.org, CreatedBy: "alice"})
	h.ok(err)
	reply, err := h.db.SaveServiceCommands(h.ctx, h.call(coding.ID, "save_service_commands", "call-1", "a"), json.RawMessage(`[{"name":"x"}]`))
	h.ok(err)
	h.equal(string(reply.Data), `{"code":"setup_only"}`, "a session of another type")
}

func quotaOfTools(h *runHouse) {
	s := h.setupSession("")
	for i := range 10 {
		_, err := h.db.SaveEnvFiles(h.ctx, h.call(s, "save_env_files", fmt.Sprint("call-", i), "a"), json.RawMessage(`[]`))
		h.ok(err)
	}
	over := h.call(s, "save_env_files", "call-10", "a")
	_, err := h.db.ToolAnswered(h.ctx, over, "")
	h.refused(err, action.ErrTooMany, "quota_reached")
	var e *action.Error
	if errors.As(err, &e); e.RetryAfter <= 59*time.Minute || e.RetryAfter > time.Hour || !strings.Contains(e.Message, "call save_env_files 10 times in an hour") {
		h.Fatalf("it refills in %s: %s", e.RetryAfter, e.Message)
	}
	kept, err := h.db.ToolAnswered(h.ctx, h.call(s, "save_env_files", "call-3", "a"), "")
	h.ok(err)
	if kept == nil {
		h.Fatal("a repeat is not answered")
	}
	_, err = h.db.ToolAnswered(h.ctx, h.call(s, "save_service_commands", "call-10", "a"), "") // another tool
	h.ok(err)
	_, err = h.db.db.Write.DB.ExecContext(h.ctx, `UPDATE session_tool_invocations SET created_at = ? WHERE session_id = ? AND tool_call_id = 'call-0'`, database.NewTimestamp(h.db.db.Now().Add(-61*time.Minute)), s)
	h.ok(err)
	_, err = h.db.SaveEnvFiles(h.ctx, over, json.RawMessage(`[]`))
	h.ok(err)
}

// quotaAndRetry: a call that is held, or whose answer was lost, is not refused to
// who repeats it; another one is.
func quotaAndRetry(h *runHouse) {
	s := h.setupSession("")
	keyed, bare := heldCall(h.org, s), heldCall(h.org, s)
	keyed.Source, keyed.Action, keyed.IdempotencyKey, keyed.ParamsHash = action.Platform, "save_env_files", "mine", "a"
	bare.Source, bare.Action, bare.ParamsHash = action.Platform, "save_env_files", "b"
	for _, d := range []*action.Draft{keyed, bare} {
		_, err := h.db.Begin(h.ctx, d)
		h.ok(err)
	}
	for i := range 10 {
		_, err := h.db.SaveEnvFiles(h.ctx, h.call(s, "save_env_files", fmt.Sprint("call-", i), "x"), json.RawMessage(`[]`))
		h.ok(err)
	}
	for _, retry := range []action.ToolCall{h.call(s, "save_env_files", "mine", "a"), h.call(s, "save_env_files", "mine", "other"), h.call(s, "save_env_files", "", "b")} {
		kept, err := h.db.ToolAnswered(h.ctx, retry, "")
		h.ok(err)
		h.equal(kept == nil, true, "a retry is not answered yet")
	}
	for _, c := range []action.ToolCall{h.call(s, "save_env_files", "", "c"), h.call(s, "save_env_files", "theirs", "c")} {
		_, err := h.db.ToolAnswered(h.ctx, c, "")
		h.refused(err, action.ErrTooMany, "quota_reached")
	}
	_, err := h.db.Deny(h.ctx, h.verdict(bare.ID))
	h.ok(err)
	_, err = h.db.ToolAnswered(h.ctx, h.call(s, "save_env_files", "", "b"), "")
	h.refused(err, action.ErrTooMany, "quota_reached")
}

func quotaAtOnce(h *runHouse) {
	s := h.setupSession("")
	var did, over atomic.Int32
	var work sync.WaitGroup
	for i := range 40 {
		work.Go(func() {
			_, err := h.any(i).SaveEnvFiles(h.ctx, h.call(s, "save_env_files", fmt.Sprint("call-", i), "a"), json.RawMessage(`[]`))
			switch {
			case err == nil:
				did.Add(1)
			case errors.Is(err, action.ErrTooMany):
				over.Add(1)
			default:
				h.Error(err)
			}
		})
	}
	work.Wait()
	h.equal([]int32{did.Load(), over.Load()}, []int32{10, 30}, "done, and refused")
}
