package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// SetupRow is a row of the table setups.
type SetupRow struct {
	bun.BaseModel `bun:"table:setups"`
	action.Setup
}

// setup returns the setup with an empty list for each that was never saved.
func (r *SetupRow) setup() action.Setup {
	for _, list := range []*json.RawMessage{&r.ServiceCommands, &r.EnvFiles} {
		if len(*list) == 0 {
			*list = json.RawMessage("[]")
		}
	}
	return r.Setup
}

// SaveServiceCommands replaces the service commands, a JSON array, of the session's
// setup, and returns the reply to the call. Errors are those of callTool.
func (st *Store) SaveServiceCommands(ctx context.Context, c action.ToolCall, commands json.RawMessage) (action.ToolReply, error) {
	return st.saveSetup(ctx, c, "service_commands", commands, "command")
}

// SaveEnvFiles replaces the environment files, a JSON array, of the session's setup,
// and returns the reply to the call. Errors are those of callTool.
func (st *Store) SaveEnvFiles(ctx context.Context, c action.ToolCall, files json.RawMessage) (action.ToolReply, error) {
	return st.saveSetup(ctx, c, "env_files", files, "file")
}

func (st *Store) saveSetup(ctx context.Context, c action.ToolCall, column string, value json.RawMessage, noun string) (action.ToolReply, error) {
	return st.callTool(ctx, c, toolOperation{run: func(ctx context.Context, tx bun.IDB, s *action.Session, now time.Time) (action.ToolReply, error) {
		if s.Type != action.TypeSetup {
			return action.ToolReply{}, action.NewError("setup_only", s.Type)
		}
		var items []json.RawMessage
		if err := json.Unmarshal(value, &items); err != nil {
			return action.ToolReply{}, fmt.Errorf("saving %s: %w", column, err)
		}
		at := database.NewTimestamp(now).Time
		r := &SetupRow{Setup: action.Setup{Organization: s.Organization, Name: action.SetupName(s), UpdatedBy: s.ID, CreatedAt: at, UpdatedAt: at}}
		if column == "env_files" {
			r.EnvFiles = value
		} else {
			r.ServiceCommands = value
		}
		_, err := tx.NewInsert().Model(r).On("CONFLICT (organization_id, name) DO UPDATE").
			Set("? = EXCLUDED.?", bun.Ident(column), bun.Ident(column)).Set("updated_by = EXCLUDED.updated_by, updated_at = EXCLUDED.updated_at").Exec(ctx)
		if err != nil {
			return action.ToolReply{}, fmt.Errorf("saving %s: %w", column, err)
		}
		return savedReply(r.Name, noun, len(items))
	}})
}

func savedReply(setup, noun string, n int) (action.ToolReply, error) {
	data, err := json.Marshal(map[string]any{"setup": setup, noun + "_count": n})
	if err != nil {
		return action.ToolReply{}, err
	}
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return action.ToolReply{Text: fmt.Sprintf("Saved %d %s%s in the setup %q, replacing the previous ones.", n, noun, plural, setup), Data: data}, nil
}

// Setup returns a setup; ErrNotFound.
func (st *Store) Setup(ctx context.Context, organization, name string) (action.Setup, error) {
	r, err := database.One[SetupRow](ctx, database.RowsOf[SetupRow](st.db.Read, organization).Where("name = ?", name),
		action.NewError("setup_not_found", name, action.SetupName(&action.Session{})))
	return r.setup(), err
}

// ListSetups returns the first 500 setups of an organization, by name.
func (st *Store) ListSetups(ctx context.Context, organization string) ([]action.Setup, error) {
	return database.ListAs(ctx, database.RowsOf[SetupRow](st.db.Read, organization).Order("name").Limit(maxSetups), (*SetupRow).setup)
}

// maxSetups bounds the list; an organization has one setup per group.
const maxSetups = 500
