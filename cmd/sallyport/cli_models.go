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
	rows := make([][]string, 0, len(models))
	for _, m := range models {
		rows = append(rows, []string{m.ID, m.OpenCode, m.API, m.Provider})
	}
	table(std.Out, []string{"MODEL", "OPENCODE", "API", "PROVIDER"}, rows)
	return nil
}
