package action

import (
	"encoding/json"
	"time"
)

// Setup is how a workspace is brought up, as setup sessions found out. It holds no
// secrets: of variables only the names.
type Setup struct {
	Organization string `json:"-"`
	Name         string `json:"name"` // see [SetupOf]
	// ServiceCommands are [{"name","command","cwd","workspacePath"}].
	ServiceCommands json.RawMessage `json:"service_commands"`
	// EnvFiles are [{"path","workspacePath","format","mode","keys":[{"key","required"}]}].
	EnvFiles  json.RawMessage `json:"env_files"`
	UpdatedBy string          `json:"updated_by"` // a session
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// PlainSetup is the setup of the sessions without a group. It is no group's name.
const PlainSetup = "default"

// SetupOf is the name of the setup that a session saves: its group's, or the one
// that is there without groups.
func SetupOf(s *Session) string {
	if s.Group != "" {
		return s.Group
	}
	return PlainSetup
}
