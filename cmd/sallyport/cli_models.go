package main

import (
	"context"
	"encoding/json"

	"sallyport/internal/agent"
)

type modelsCommand struct {
	JSON bool `help:"Print JSON."`
}

// Run needs no server: the table is part of the program.
func (c *modelsCommand) Run(_ context.Context, std *stdio) error {
	models := agent.Models()
	if c.JSON {
		raw, err := json.Marshal(map[string]any{"items": models, "total": len(models), "next_cursor": ""})
		if err != nil {
			return err
		}
		return std.printJSON(raw)
	}
	tableOf(std.Out, "MODEL OPENCODE API PROVIDER", models, func(m *agent.Model) []string {
		return []string{m.ID, m.OpenCode, m.API, m.Provider}
	})
	return nil
}
