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
	"sallyport/store/calls"
	"sallyport/store/database"
	"sallyport/store/inbound"
	"sallyport/store/sessions"
)

// toolRow is one call of a tool of the gateway's own, and what it answered.
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
		return action.ToolReply{}, fmt.Errorf("reading what %s answered to call %s: %w", r.Tool, r.ID, err)
	}
	return action.ToolReply{Invocation: r.Invocation, Failed: r.Outcome == "failed", Text: res.Text, Data: res.Data}, nil
}

// toolWork is what one call of a tool does. It looks before it writes, and an
// [*action.Error] that it returns without having written is the tool's answer,
// which a repeat gets too.
type toolWork struct {
	// subject of what the tool does once in a session; empty: it may do it again.
	subject string
	do      func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error)
}

// ToolAnswered returns what the session was answered to a call, by its id or by
// its subject (empty: it has none); nil: it is a new one. ErrConflict, with code
// "tool_call_reused" or "already_done", for what is another call; ErrTooMany when
// the quota is used up by earlier ones, and the call joins none that is under way.
func (st *Store) ToolAnswered(ctx context.Context, c action.ToolCall, subject string) (*action.ToolReply, error) {
	now := st.db.Now()
	reply, err := toolAnswered(ctx, st.db.Read, &c, subject, now)
	if !errors.Is(err, action.ErrTooMany) {
		return reply, err
	}
	joins, looked := toolJoins(ctx, st.db.Read, &c, now)
	if joins || looked != nil {
		err = looked
	}
	return reply, err
}

// toolJoins tells whether [DB.Begin] would have the call join one that was made
// already, by its id or by its params: that one began within the quota.
func toolJoins(ctx context.Context, tx bun.IDB, c *action.ToolCall, now time.Time) (bool, error) {
	var rows []calls.InvocationRow
	const same = "i.organization_id = ?0 AND i.session_id = ?1 AND i.source_id = ?2 AND i.action = ?3 AND i.params_hash = ?4 AND i.joins = 1"
	err := tx.NewSelect().Model(&rows).Column("id", "status", "expires_at", "pickup_until").
		Where("id IN (SELECT k.invocation_id FROM idempotency_keys AS k WHERE k.organization_id = ?0 AND k.session_id = ?1 AND k.source_id = ?2 AND k.action = ?3 AND k.key = ?4)",
			c.Organization, c.Session, action.Platform, c.Tool, c.ID).
		WhereOr("id IN (SELECT i.id FROM invocations AS i WHERE "+same+" AND i.completed_at IS NULL AND i.status IN ('pending', 'approved', 'executing'))",
			c.Organization, c.Session, action.Platform, c.Tool, c.ParamsHash).
		WhereOr("id IN (SELECT i.id FROM invocations AS i WHERE "+same+" AND i.delivered_at IS NULL AND i.pickup_until IS NOT NULL AND i.pickup_until > ?5 AND i.status IN ('completed', 'failed'))",
			c.Organization, c.Session, action.Platform, c.Tool, c.ParamsHash, database.NewTimestamp(now)).
		Scan(ctx)
	if err != nil {
		return false, fmt.Errorf("looking for a call of %s that is under way: %w", c.Tool, err)
	}
	return slices.ContainsFunc(rows, func(r calls.InvocationRow) bool { return r.CanAnswer(now) }), nil
}

func toolAnswered(ctx context.Context, tx bun.IDB, c *action.ToolCall, subject string, now time.Time) (*action.ToolReply, error) {
	r, err := toolRowOf(ctx, tx, c, subject)
	if err != nil {
		return nil, err
	}
	switch {
	case r == nil:
		return nil, overQuota(ctx, tx, c, now)
	case subject != "" && string(r.Subject) != "" && string(r.Subject) != subject:
		return nil, alreadyDone(r)
	case subject == "" && r.ParamsHash != c.ParamsHash, r.Subject == "" && r.ParamsHash != c.ParamsHash:
		return nil, action.NewError("tool_call_reused")
	}
	reply, err := r.reply()
	return &reply, err
}

// toolRowOf finds the row that answers a call: what was done once in the session
// comes before the call's id. Nil: none.
func toolRowOf(ctx context.Context, tx bun.IDB, c *action.ToolCall, subject string) (*toolRow, error) {
	if c.ID == "" && subject == "" {
		return nil, nil
	}
	var rows []toolRow
	q := tx.NewSelect().Model(&rows).Where("organization_id = ?", c.Organization).Where("session_id = ?", c.Session).Where("tool = ?", c.Tool).
		OrderExpr("subject IS NULL").Limit(1)
	if subject == "" {
		q = q.Where("tool_call_id = ?", c.ID)
	} else {
		q = q.Where("(tool_call_id = ? OR subject IS NOT NULL)", c.ID)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking for a call of %s: %w", c.Tool, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return &rows[0], nil
}

// alreadyDone says what is recorded.
func alreadyDone(r *toolRow) error {
	said, err := r.reply()
	if err != nil {
		return err
	}
	return action.NewError("already_done", string(r.Subject), said.Text)
}

// overQuota refuses one call too many of the session, and says when the next is
// free.
func overQuota(ctx context.Context, tx bun.IDB, c *action.ToolCall, now time.Time) error {
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
	e := action.Errorf(action.ErrTooMany, "quota_reached", "%s may be called %d times in %s by a session, and was; try again in %s.",
		c.Tool, c.Quota.Calls, c.Quota.Span(), wait.Round(time.Second)+time.Second)
	e.RetryAfter = wait
	return e
}

// callTool does the work of a call once: with the answer, or without any of it.
// A session that may do nothing new is refused (ErrUnauthenticated, ErrConflict),
// and so is one over its quota (ErrTooMany): then nothing is kept.
func (st *Store) callTool(ctx context.Context, c action.ToolCall, w toolWork) (reply action.ToolReply, err error) {
	for range inbound.MaxConflictTries {
		err = st.db.Transaction(ctx, func(ctx context.Context, tx bun.IDB) (err error) {
			reply, err = st.callToolIn(ctx, tx, c, w)
			return err
		})
		if !errors.Is(err, inbound.ErrRunChanged) {
			break
		}
	}
	return reply, err
}

func (st *Store) callToolIn(ctx context.Context, tx bun.IDB, c action.ToolCall, w toolWork) (reply action.ToolReply, err error) {
	if err := lockCaller(ctx, tx, &c); err != nil {
		return reply, err
	}
	if c.ID, err = toolCallID(ctx, tx, &c); err != nil {
		return reply, err
	}
	now := st.db.Now()
	if kept, err := toolAnswered(ctx, tx, &c, w.subject, now); kept != nil || err != nil {
		return fromKept(kept), err
	}
	s, err := sessions.SessionIn(ctx, tx, c.Organization, c.Session)
	if err != nil {
		return reply, err
	}
	if err := s.Working(now); err != nil {
		return reply, err
	}
	reply, err = w.do(ctx, tx, &s, now)
	var no *action.Error
	switch {
	case errors.Is(err, inbound.ErrRunChanged), err != nil && !errors.As(err, &no), no != nil && passing(no.Code):
		return reply, err
	case err != nil:
		reply, w.subject = refusedReply(no), ""
	}
	reply.Invocation = c.Invocation
	return reply, putTool(ctx, tx, &c, w.subject, &reply, now)
}

// passing tells whether a refusal may be another word when the same is asked
// again, so that it must not be kept as the answer.
func passing(code string) bool { return code == "upload_incomplete" || code == "too_many_requests" }

func fromKept(kept *action.ToolReply) action.ToolReply {
	if kept == nil {
		return action.ToolReply{}
	}
	return *kept
}

// refusedReply is the answer of a tool that does not do what it was asked.
func refusedReply(no *action.Error) action.ToolReply {
	data, err := json.Marshal(struct {
		Code  string `json:"code"`
		Field string `json:"field,omitempty"`
	}{no.Code, no.Field})
	if err != nil {
		data = nil
	}
	return action.ToolReply{Failed: true, Text: no.Message, Data: data}
}

func putTool(ctx context.Context, tx bun.IDB, c *action.ToolCall, subject string, reply *action.ToolReply, now time.Time) error {
	result, err := json.Marshal(toolResult{reply.Text, reply.Data})
	if err != nil {
		return fmt.Errorf("writing what %s answered: %w", c.Tool, err)
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

// lockCaller has the calls of one session's tools come one after the other where
// there are several writers.
func lockCaller(ctx context.Context, tx bun.IDB, c *action.ToolCall) error {
	if !database.Shared(tx) {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT FROM sessions WHERE organization_id = ? AND id = ? FOR NO KEY UPDATE`, c.Organization, c.Session)
	if err != nil {
		return fmt.Errorf("beginning a call of %s: %w", c.Tool, err)
	}
	return nil
}

// toolCallID is what the agent calls the call: the key that the invocation was
// begun with, or the invocation's own id.
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

// Verify seals an upload with the answer to the call that asked for it. Without
// an upload it answers with the text, as a call that did nothing.
func (st *Store) Verify(ctx context.Context, c action.ToolCall, upload, folder, otherwise string) (action.ToolReply, error) {
	return st.callTool(ctx, c, toolWork{do: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
		if upload == "" {
			return action.ToolReply{Failed: true, Text: otherwise}, nil
		}
		u, err := sealUpload(ctx, tx, action.UploadRef{Organization: s.Organization, Session: s.ID, ID: upload}, folder, now)
		if err != nil {
			return action.ToolReply{}, err
		}
		data, err := json.Marshal(map[string]any{
			"upload": u.ID, "prefix": u.Prefix, "file_count": u.Count, "bytes": u.Bytes, "manifest_sha256": u.Manifest, "sealed_at": u.SealedAt,
		})
		if err != nil {
			return action.ToolReply{}, fmt.Errorf("answering with evidence: %w", err)
		}
		files := "1 file is"
		if u.Count != 1 {
			files = fmt.Sprintf("%d files are", u.Count)
		}
		return action.ToolReply{Text: fmt.Sprintf("%s kept as evidence under %s, which people see with this session.", files, u.Prefix), Data: data}, nil
	}})
}

// RequestVariables is [DB.RequestEnv] as the answer to a call of a tool.
func (st *Store) RequestVariables(
	ctx context.Context, c action.ToolCall, keys []action.EnvKey, answer func(action.EnvRequest) (action.ToolReply, error),
) (reply action.ToolReply, made bool, err error) {
	if err := action.CheckEnvKeys(keys); err != nil {
		return reply, false, err
	}
	reply, err = st.callTool(ctx, c, toolWork{do: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
		r, err := newEnvRow(s.Organization, s.ID, keys, now)
		if err != nil {
			return action.ToolReply{}, err
		}
		earlier, err := putEnvRequest(ctx, tx, r, now)
		if made = err == nil && earlier == nil; err != nil {
			return action.ToolReply{}, err
		}
		if earlier != nil {
			r = earlier
		}
		req, err := r.request()
		if err != nil {
			return action.ToolReply{}, err
		}
		return answer(req)
	}})
	return reply, made && err == nil, err
}
