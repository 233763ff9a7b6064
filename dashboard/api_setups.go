package dashboard

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/action"
)

// Setups reads how workspaces are brought up, as setup sessions saved it.
type Setups interface {
	// ListSetups returns an organization's, by name.
	ListSetups(ctx context.Context, organization string) ([]action.Setup, error)
	// Setup returns one; ErrNotFound.
	Setup(ctx context.Context, organization, name string) (action.Setup, error)
}

// SetupEntry is a setup in a list.
type SetupEntry struct {
	Name      string    `json:"name" example:"default" doc:"A group of sessions, or default."`
	Commands  int       `json:"command_count"`
	EnvFiles  int       `json:"file_count"`
	UpdatedBy string    `json:"updated_by" doc:"Id of the session that saved it last."`
	UpdatedAt time.Time `json:"updated_at"`
}

// SetupView is a setup in full.
type SetupView struct {
	Name            string    `json:"name" example:"default"`
	ServiceCommands raw       `json:"service_commands" doc:"A list of {name, command, cwd, workspacePath}, as the agent of a setup session gave it: whoever runs them in a sandbox trusts that agent."`
	EnvFiles        raw       `json:"env_files" doc:"A list of {path, workspacePath, format, mode, keys}; names of variables, no values."`
	UpdatedBy       string    `json:"updated_by"`
	CreatedAt       time.Time `json:"created_at"`
	UpdatedAt       time.Time `json:"updated_at"`
}

func (s *Server) setupRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/setups", tag: "sessions", summary: "List what setup sessions saved",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[SetupEntry]], error) {
		all, err := s.Setups.ListSetups(ctx, p.Organization)
		entries := make([]SetupEntry, len(all))
		for i, one := range all {
			entries[i] = SetupEntry{Name: one.Name, Commands: length(one.ServiceCommands), EnvFiles: length(one.EnvFiles), UpdatedBy: one.UpdatedBy, UpdatedAt: one.UpdatedAt}
		}
		return listOf(entries), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/setups/{name}", tag: "sessions", summary: "Read how a workspace is brought up",
		doc: "What setup sessions of the group saved with save_service_commands and save_env_files, for whoever makes sandboxes.",
	}, func(ctx context.Context, p *Principal, in *struct {
		Name string `path:"name" maxLength:"200" example:"default"`
	},
	) (*body[SetupView], error) {
		one, err := s.Setups.Setup(ctx, p.Organization, in.Name)
		return bodyOf(SetupView{
			Name: one.Name, ServiceCommands: one.ServiceCommands, EnvFiles: one.EnvFiles,
			UpdatedBy: one.UpdatedBy, CreatedAt: one.CreatedAt, UpdatedAt: one.UpdatedAt,
		}), err
	})
}

// length is how many items a JSON list has.
func length(list json.RawMessage) int {
	var items []json.RawMessage
	_ = json.Unmarshal(list, &items) // what is no list has none
	return len(items)
}
