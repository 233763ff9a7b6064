package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"sallyport/api"
	"sallyport/internal/envfile"
)

type setupCommand struct {
	List setupList `cmd:"" help:"List workspace setups by group."`
	Show setupShow `cmd:"" help:"Show a workspace setup."`
}

type setupList struct{ remote }

func (*setupList) route() api.Operation { return api.ListSetups.Operation }

func (c *setupList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListSetups, api.None{}, columns[api.SetupEntry]("SETUP=name COMMANDS=command_count FILES=file_count SAVED=updated_at"))
}

type setupShow struct {
	remote
	api.GetSetupInput
}

func (c *setupShow) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	s, raw, err := fetch(ctx, server, api.GetSetup, c.GetSetupInput)
	if err != nil {
		return err
	}
	var commands []struct {
		Name      string `json:"name"`
		Command   string `json:"command"`
		Cwd       string `json:"cwd"`
		Workspace string `json:"workspacePath"`
	}
	var files []envfile.File
	if err := errors.Join(decode(s.ServiceCommands, &commands), decode(s.EnvFiles, &files)); err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		said(fmt.Sprintf("setup %s, saved %s by session %s", s.Name, since(&s.UpdatedAt), s.UpdatedBy))(w)
		var rows [][]string
		for _, one := range commands {
			rows = append(rows, []string{"start " + one.Name, in(one.Workspace, one.Cwd), one.Command})
		}
		for _, f := range files {
			var keys []string
			for _, k := range f.Keys {
				key := k.Key
				if !k.Required {
					key += "?"
				}
				keys = append(keys, key)
			}
			rows = append(rows, []string{"file " + f.Path, in(f.WorkspacePath, ""), strings.Join(keys, " ")})
		}
		table(w, []string{"WHAT", "IN", "COMMAND, OR VARIABLES (? OPTIONAL)"}, rows)
	})
}

// in is a folder of a workspace.
func in(workspace, folder string) string {
	path := strings.Trim(workspace+"/"+folder, "/")
	if path == "" {
		return "."
	}
	return path
}
