package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// Verify seals an upload with the answer to the call that asked for it. Without
// an upload it answers with the text, as a call that did nothing.
func (db *DB) Verify(ctx context.Context, c action.ToolCall, upload, folder, otherwise string) (action.ToolReply, error) {
	return db.callTool(ctx, c, toolWork{do: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
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
func (db *DB) RequestVariables(
	ctx context.Context, c action.ToolCall, keys []action.EnvKey, answer func(action.EnvRequest) (action.ToolReply, error),
) (reply action.ToolReply, made bool, err error) {
	if err := action.CheckEnvKeys(keys); err != nil {
		return reply, false, err
	}
	reply, err = db.callTool(ctx, c, toolWork{do: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
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
