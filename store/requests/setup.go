package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// SaveServiceCommands replaces the service commands, a JSON array, of the session's
// workspace, and returns the reply to the call. Errors are those of callTool.
func (st *Store) SaveServiceCommands(ctx context.Context, c action.ToolCall, commands json.RawMessage) (action.ToolReply, error) {
	return st.saveSetup(ctx, c, commands, "command", func(w *action.Workspace) { w.ServiceCommands = commands })
}

// SaveEnvFiles replaces the environment files, a JSON array, of the session's
// workspace, and returns the reply to the call. Errors are those of callTool.
func (st *Store) SaveEnvFiles(ctx context.Context, c action.ToolCall, files json.RawMessage) (action.ToolReply, error) {
	return st.saveSetup(ctx, c, files, "file", func(w *action.Workspace) { w.EnvFiles = files })
}

func (st *Store) saveSetup(ctx context.Context, c action.ToolCall, list json.RawMessage, noun string, change func(*action.Workspace)) (action.ToolReply, error) {
	return st.callTool(ctx, c, toolOperation{run: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
		if s.Type != action.TypeSetup {
			return action.ToolReply{}, action.NewError("setup_only", s.Type)
		}
		var items []json.RawMessage
		if err := json.Unmarshal(list, &items); err != nil {
			return action.ToolReply{}, fmt.Errorf("saving a setup: %w", err)
		}
		w, err := st.workspaces.SaveSetup(ctx, tx, s, change, now)
		if err != nil {
			return action.ToolReply{}, err
		}
		return savedReply(&w, noun, len(items))
	}})
}

func savedReply(w *action.Workspace, noun string, n int) (action.ToolReply, error) {
	data, err := json.Marshal(map[string]any{"workspace_id": w.ID, noun + "_count": n})
	if err != nil {
		return action.ToolReply{}, err
	}
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return action.ToolReply{Text: fmt.Sprintf("Saved %d %s%s in the workspace %q, replacing the previous ones.", n, noun, plural, w.Name), Data: data}, nil
}
