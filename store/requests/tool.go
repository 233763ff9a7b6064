package requests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/store/calls"
	"sallyport/store/database"
	"sallyport/store/inbound"
	"sallyport/store/sessions"
)

// toolRow is a call of one of the gateway's own tools, with its reply.
type toolRow struct {
	bun.BaseModel `bun:"table:session_tool_invocations"`

	Organization string              `bun:"organization_id,pk"`
	Session      string              `bun:"session_id,pk"`
	Tool         string              `bun:"tool,pk"`
	ID           string              `bun:"tool_call_id,pk"`
	Invocation   string              `bun:"invocation_id"`
	ParamsHash   string              `bun:"params_hash"`
	Subject      database.NullString `bun:"subject"`
	Outcome      string              `bun:"outcome"`
	Result       string              `bun:"result"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
}

// toolResult is the column result.
type toolResult struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data,omitempty"`
}

func (r *toolRow) reply() (action.ToolReply, error) {
	var res toolResult
	if err := json.Unmarshal([]byte(r.Result), &res); err != nil {
		return action.ToolReply{}, fmt.Errorf("reading the reply of %s to call %s: %w", r.Tool, r.ID, err)
	}
	return action.ToolReply{Invocation: r.Invocation, Failed: r.Outcome == "failed", Text: res.Text, Data: res.Data}, nil
}

// toolOperation is the work of one call of a tool. It validates before it writes: an
// [*action.Error] that it returns becomes the tool's reply, also to a repeat.
type toolOperation struct {
	// subject identifies work that a session does once; empty: it may be repeated.
	subject string
	run     func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error)
}

// ToolAnswered returns the stored reply to a call, found by its id or by its subject
// (empty: none), and nil for a new call. Errors: ErrConflict, with code
// "tool_call_reused" or "already_done", if the stored call differs; ErrTooMany if the
// quota is used up and the call does not join one in progress.
func (st *Store) ToolAnswered(ctx context.Context, c action.ToolCall, subject string) (*action.ToolReply, error) {
	now := st.db.Now()
	reply, err := storedReply(ctx, st.db.Read, &c, subject, now)
	if !errors.Is(err, action.ErrTooMany) {
		return reply, err
	}
	joins, failed := joinsCall(ctx, st.db.Read, &c, now)
	if joins || failed != nil {
		err = failed
	}
	return reply, err
}

// joinsCall reports whether the Begin of the calls store would join this call to an
// earlier one with the same id or params, which already counted against the quota.
func joinsCall(ctx context.Context, tx bun.IDB, c *action.ToolCall, now time.Time) (bool, error) {
	var rows []calls.InvocationRow
	const same = "i.organization_id = ?0 AND i.session_id = ?1 AND i.source_id = ?2 AND i.action = ?3 AND i.params_hash = ?4 AND i.joins = 1"
	err := tx.NewSelect().Model(&rows).Column("id", "status", "expires_at", "pickup_until").
		Where("id IN (SELECT k.invocation_id FROM idempotency_keys AS k WHERE k.organization_id = ?0 AND k.session_id = ?1 AND k.source_id = ?2 AND k.action = ?3 AND k.key = ?4)",
			c.Organization, c.Session, action.Platform, c.Tool, c.ID).
		WhereOr("id IN (SELECT i.id FROM open_calls AS i WHERE "+same+")",
			c.Organization, c.Session, action.Platform, c.Tool, c.ParamsHash).
		WhereOr("id IN (SELECT i.id FROM invocations AS i WHERE "+same+" AND i.delivered_at IS NULL AND i.pickup_until IS NOT NULL AND i.pickup_until > ?5 AND i.status IN ('completed', 'failed'))",
			c.Organization, c.Session, action.Platform, c.Tool, c.ParamsHash, database.NewTimestamp(now)).
		Scan(ctx)
	if err != nil {
		return false, fmt.Errorf("reading calls of %s in progress: %w", c.Tool, err)
	}
	return slices.ContainsFunc(rows, func(r calls.InvocationRow) bool { return r.CanAnswer(now) }), nil
}

func storedReply(ctx context.Context, tx bun.IDB, c *action.ToolCall, subject string, now time.Time) (*action.ToolReply, error) {
	r, err := findToolRow(ctx, tx, c, subject)
	if err != nil {
		return nil, err
	}
	switch {
	case r == nil:
		return nil, checkQuota(ctx, tx, c, now)
	case subject != "" && string(r.Subject) != "" && string(r.Subject) != subject:
		return nil, alreadyDoneError(r)
	case subject == "" && r.ParamsHash != c.ParamsHash, r.Subject == "" && r.ParamsHash != c.ParamsHash:
		return nil, action.NewError("tool_call_reused")
	}
	reply, err := r.reply()
	return &reply, err
}

// findToolRow returns the row that answers a call, or nil. A row with a subject takes
// precedence over one with the call's id.
func findToolRow(ctx context.Context, tx bun.IDB, c *action.ToolCall, subject string) (*toolRow, error) {
	if c.ID == "" && subject == "" {
		return nil, nil
	}
	q := database.RowsOf[toolRow](tx, c.Organization).Where("session_id = ?", c.Session).Where("tool = ?", c.Tool).OrderExpr("subject IS NULL").Limit(1)
	if subject == "" {
		q = q.Where("tool_call_id = ?", c.ID)
	} else {
		q = q.Where("(tool_call_id = ? OR subject IS NOT NULL)", c.ID)
	}
	return database.Optional[toolRow](ctx, q)
}

// alreadyDoneError includes the stored reply.
func alreadyDoneError(r *toolRow) error {
	reply, err := r.reply()
	if err != nil {
		return err
	}
	return action.NewError("already_done", string(r.Subject), reply.Text)
}

// checkQuota refuses a call over the session's quota, with the time until the next one
// is allowed.
func checkQuota(ctx context.Context, tx bun.IDB, c *action.ToolCall, now time.Time) error {
	if c.Quota.Calls <= 0 {
		return nil
	}
	var last []toolRow
	err := tx.NewSelect().Model(&last).Column("created_at").Where("organization_id = ?", c.Organization).Where("session_id = ?", c.Session).
		Where("tool = ?", c.Tool).Order("created_at DESC").Offset(int64(c.Quota.Calls - 1)).Limit(1).Scan(ctx)
	if err != nil {
		return fmt.Errorf("counting calls of %s: %w", c.Tool, err)
	}
	if len(last) == 0 {
		return nil
	}
	wait := last[0].CreatedAt.Time.Add(c.Quota.Window()).Sub(now)
	if wait <= 0 {
		return nil
	}
	e := action.Errorf(action.ErrTooMany, "quota_reached", "A session can call %s %d times in %s. Try again in %s.",
		c.Tool, c.Quota.Calls, c.Quota.Span(), wait.Round(time.Second)+time.Second)
	e.RetryAfter = wait
	return e
}

// callTool runs the operation of a call once, and stores its reply in the same
// transaction. Errors, which store nothing: ErrUnauthenticated or ErrConflict if the
// session accepts no new work; ErrTooMany if it is over its quota.
func (st *Store) callTool(ctx context.Context, c action.ToolCall, w toolOperation) (reply action.ToolReply, err error) {
	for range inbound.MaxConflictTries {
		err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) (err error) {
			reply, err = st.callToolOnce(ctx, tx, c, w)
			return err
		})
		if !errors.Is(err, inbound.ErrRunChanged) {
			break
		}
	}
	return reply, err
}

func (st *Store) callToolOnce(ctx context.Context, tx bun.IDB, c action.ToolCall, w toolOperation) (reply action.ToolReply, err error) {
	if err := lockSession(ctx, tx, &c); err != nil {
		return reply, err
	}
	if c.ID, err = toolCallID(ctx, tx, &c); err != nil {
		return reply, err
	}
	now := st.db.Now()
	stored, err := storedReply(ctx, tx, &c, w.subject, now)
	if err != nil {
		return reply, err
	}
	if stored != nil {
		return *stored, nil
	}
	s, err := sessions.ReadSession(ctx, tx, c.Organization, c.Session)
	if err != nil {
		return reply, err
	}
	if err := s.Working(now); err != nil {
		return reply, err
	}
	reply, err = w.run(ctx, tx, &s, now)
	var refused *action.Error
	switch {
	case errors.Is(err, inbound.ErrRunChanged), err != nil && !errors.As(err, &refused), refused != nil && (refused.Code == "upload_incomplete" || refused.Code == "too_many_requests"):
		return reply, err // a retry may succeed, so this is not stored as the reply
	case err != nil:
		reply, w.subject = errorReply(refused), ""
	}
	reply.Invocation = c.Invocation
	return reply, insertToolRow(ctx, tx, &c, w.subject, &reply, now)
}

// errorReply is the reply of a tool that refused a call.
func errorReply(e *action.Error) action.ToolReply {
	data, err := json.Marshal(struct {
		Code  string `json:"code"`
		Field string `json:"field,omitempty"`
	}{e.Code, e.Field})
	if err != nil {
		data = nil
	}
	return action.ToolReply{Failed: true, Text: e.Message, Data: data}
}

func insertToolRow(ctx context.Context, tx bun.IDB, c *action.ToolCall, subject string, reply *action.ToolReply, now time.Time) error {
	result, err := json.Marshal(toolResult{reply.Text, reply.Data})
	if err != nil {
		return fmt.Errorf("encoding the reply of %s: %w", c.Tool, err)
	}
	r := &toolRow{
		Organization: c.Organization, Session: c.Session, Tool: c.Tool, ID: c.ID, Invocation: c.Invocation, ParamsHash: c.ParamsHash,
		Subject: database.NullString(subject), Outcome: "completed", Result: string(result), CreatedAt: database.NewTimestamp(now),
	}
	if reply.Failed {
		r.Outcome = "failed"
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return fmt.Errorf("writing a call of %s: %w", c.Tool, err)
	}
	return nil
}

// lockSession serializes the tool calls of a session on databases with several
// writers.
func lockSession(ctx context.Context, tx bun.IDB, c *action.ToolCall) error {
	if !database.Shared(tx) {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT FROM sessions WHERE organization_id = ? AND id = ? FOR NO KEY UPDATE`, c.Organization, c.Session)
	if err != nil {
		return fmt.Errorf("locking the session for a call of %s: %w", c.Tool, err)
	}
	return nil
}

// toolCallID returns the agent's id of the call: the idempotency key of the
// invocation, or else the invocation's id.
func toolCallID(ctx context.Context, tx bun.IDB, c *action.ToolCall) (string, error) {
	if c.ID != "" {
		return c.ID, nil
	}
	var keys []string
	err := tx.NewSelect().Table("idempotency_keys").Column("key").Where("invocation_id = ?", c.Invocation).Order("created_at", "key").Limit(1).Scan(ctx, &keys)
	if err != nil {
		return "", fmt.Errorf("reading the id of a call of %s: %w", c.Tool, err)
	}
	if len(keys) > 0 {
		return keys[0], nil
	}
	return c.Invocation, nil
}

// Verify seals an upload and returns the reply to the call. Without an upload it
// returns a failed reply with the text fallback.
func (st *Store) Verify(ctx context.Context, c action.ToolCall, upload, folder, fallback string) (action.ToolReply, error) {
	return st.callTool(ctx, c, toolOperation{run: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
		if upload == "" {
			return action.ToolReply{Failed: true, Text: fallback}, nil
		}
		u, err := sealUpload(ctx, tx, action.UploadRef{Organization: s.Organization, Session: s.ID, ID: upload}, folder, now)
		if err != nil {
			return action.ToolReply{}, err
		}
		data, err := json.Marshal(map[string]any{
			"upload": u.ID, "prefix": u.Prefix, "file_count": u.Count, "bytes": u.Bytes, "manifest_sha256": u.Manifest, "sealed_at": u.SealedAt,
		})
		if err != nil {
			return action.ToolReply{}, fmt.Errorf("encoding the reply with evidence: %w", err)
		}
		files := "1 file is"
		if u.Count != 1 {
			files = fmt.Sprintf("%d files are", u.Count)
		}
		return action.ToolReply{Text: fmt.Sprintf("%s kept as evidence under %s, which people see with this session.", files, u.Prefix), Data: data}, nil
	}})
}

// RequestVariables is [Store.RequestEnv] as a call of a tool. created reports whether
// a new request was stored.
func (st *Store) RequestVariables(
	ctx context.Context, c action.ToolCall, keys []action.EnvKey, answer func(action.EnvRequest) (action.ToolReply, error),
) (reply action.ToolReply, created bool, err error) {
	if err := action.CheckEnvKeys(keys); err != nil {
		return reply, false, err
	}
	reply, err = st.callTool(ctx, c, toolOperation{run: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
		r, err := newEnvRow(s.Organization, s.ID, keys, now)
		if err != nil {
			return action.ToolReply{}, err
		}
		earlier, err := insertEnvRequest(ctx, tx, r, now)
		if created = err == nil && earlier == nil; err != nil {
			return action.ToolReply{}, err
		}
		if earlier != nil {
			r = earlier
		}
		return answer(r.request())
	}})
	return reply, created && err == nil, err
}

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
		return nil, action.Errorf(action.ErrForbidden, "no_run", "This session does not work on a run, so it cannot complete one.")
	case err != nil:
		return nil, err
	case named != "" && named != r.ID:
		return nil, action.Errorf(action.ErrForbidden, "other_run",
			"run_id names another run than that of this session. A session can complete only its own run: leave run_id out.").WithField("/run_id")
	case string(r.Session) != s.ID || r.Claim == "":
		return nil, action.Errorf(action.ErrConflict, "claim_lost", "This session no longer holds the run, which is %s. Stop working on it.", r.Status)
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
		event.RunSucceeded:  "The run is recorded as succeeded.",
		event.RunFailed:     "The run is recorded as failed.",
		event.RunNeedsHuman: "The run is recorded as needing a person, who continues from here.",
	}[event.RunStatus(r.Status)]
	return action.ToolReply{Text: said + " Stop now: this session accepts no more calls.", Data: data}, nil
}
