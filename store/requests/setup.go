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

type setupRow struct {
	bun.BaseModel `bun:"table:setups"`

	Organization string              `bun:"organization_id,pk"`
	Name         string              `bun:"name,pk"`
	Commands     database.NullString `bun:"service_commands"`
	EnvFiles     database.NullString `bun:"env_files"`
	UpdatedBy    string              `bun:"updated_by"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	UpdatedAt    database.Timestamp  `bun:"updated_at"`
}

func (r *setupRow) setup() action.Setup {
	return action.Setup{
		Organization: r.Organization, Name: r.Name, ServiceCommands: jsonArray(r.Commands), EnvFiles: jsonArray(r.EnvFiles),
		UpdatedBy: r.UpdatedBy, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
	}
}

func jsonArray(text database.NullString) json.RawMessage {
	if text == "" {
		return json.RawMessage("[]")
	}
	return json.RawMessage(text)
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
		r := &setupRow{Organization: s.Organization, Name: action.SetupName(s), UpdatedBy: s.ID, CreatedAt: database.NewTimestamp(now), UpdatedAt: database.NewTimestamp(now)}
		if column == "env_files" {
			r.EnvFiles = database.NullString(value)
		} else {
			r.Commands = database.NullString(value)
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
	return action.ToolReply{Text: fmt.Sprintf("Saved %d %s%s in the setup %q, in the place of what was there.", n, noun, plural, setup), Data: data}, nil
}

// Setup returns a setup; ErrNotFound.
func (st *Store) Setup(ctx context.Context, organization, name string) (action.Setup, error) {
	var rows []setupRow
	if err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", organization).Where("name = ?", name).Scan(ctx); err != nil {
		return action.Setup{}, fmt.Errorf("reading setup %q: %w", name, err)
	}
	if len(rows) == 0 {
		return action.Setup{}, action.NewError("setup_not_found", name, action.SetupName(&action.Session{}))
	}
	return rows[0].setup(), nil
}

// ListSetups returns the first 500 setups of an organization, by name.
func (st *Store) ListSetups(ctx context.Context, organization string) ([]action.Setup, error) {
	var rows []setupRow
	if err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", organization).Order("name").Limit(maxSetups).Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing setups: %w", err)
	}
	list := make([]action.Setup, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].setup())
	}
	return list, nil
}

// maxSetups bounds the list; an organization has one setup per group.
const maxSetups = 500
