package api

import (
	"encoding/json"
	"time"
)

// Routes.
var (
	ListSetups = Route[None, List[SetupEntry]]{Operation{
		Method: "GET", Path: "/api/v1/setups", Who: Member, Tag: "sessions",
		Summary: "List workspace setups",
	}}
	GetSetup = Route[GetSetupInput, SetupView]{Operation{
		Method: "GET", Path: "/api/v1/setups/{name}", Who: Member, Tag: "sessions",
		Summary: "Get a workspace setup",
		Doc:     "What setup sessions of the group saved with save_service_commands and save_env_files, to build sandboxes from.",
	}}
)

// SetupEntry is a setup in a list.
type SetupEntry struct {
	Name      string    `json:"name" example:"default" doc:"A group of sessions, or default."`
	Commands  int       `json:"command_count"`
	EnvFiles  int       `json:"file_count"`
	UpdatedBy string    `json:"updated_by" doc:"ID of the session that saved it last."`
	UpdatedAt time.Time `json:"updated_at"`
}

// SetupView is a setup in full.
type SetupView struct {
	Name            string          `json:"name" example:"default"`
	ServiceCommands json.RawMessage `json:"service_commands" doc:"A list of {name, command, cwd, workspacePath} from the agent of a setup session: run them only if you trust that agent."`
	EnvFiles        json.RawMessage `json:"env_files" doc:"A list of {path, workspacePath, format, mode, keys}; names of variables without values."`
	UpdatedBy       string          `json:"updated_by"`
	CreatedAt       time.Time       `json:"created_at"`
	UpdatedAt       time.Time       `json:"updated_at"`
}

// GetSetupInput is the input of [GetSetup].
type GetSetupInput struct {
	Name string `path:"name" maxLength:"200" example:"default" kong:"arg,optional,default='default',help='Group of sessions (default: default).'"`
}
