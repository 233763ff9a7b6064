package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

type setupCommand struct {
	List setupList `cmd:"" help:"List what setup sessions saved, by group."`
	Show setupShow `cmd:"" help:"Show how a workspace is brought up."`
}

const setupsPath = "/api/v1/setups"

type setupList struct{ remote }

// setupEntry is a setup in a list, as the API shows it.
type setupEntry struct {
	Name      string    `json:"name"`
	Commands  int       `json:"command_count"`
	EnvFiles  int       `json:"file_count"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (c *setupList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, setupsPath, nil, func(w io.Writer, all *list[setupEntry]) {
		rows := make([][]string, 0, len(all.Items))
		for _, s := range all.Items {
			rows = append(rows, []string{s.Name, strconv.Itoa(s.Commands), strconv.Itoa(s.EnvFiles), since(&s.UpdatedAt)})
		}
		table(w, []string{"SETUP", "COMMANDS", "FILES", "SAVED"}, rows)
	})
}

type setupShow struct {
	remote
	Name string `arg:"" optional:"" default:"default" help:"Group of sessions (default: default, of those without)."`
}

// setupRow is a setup as the API shows it.
type setupRow struct {
	Name     string `json:"name"`
	Commands []struct {
		Name      string `json:"name"`
		Command   string `json:"command"`
		Cwd       string `json:"cwd"`
		Workspace string `json:"workspacePath"`
	} `json:"service_commands"`
	EnvFiles []struct {
		Path      string `json:"path"`
		Workspace string `json:"workspacePath"`
		Keys      []struct {
			Key      string `json:"key"`
			Required bool   `json:"required"`
		} `json:"keys"`
	} `json:"env_files"`
	UpdatedBy string    `json:"updated_by"`
	UpdatedAt time.Time `json:"updated_at"`
}

func (c *setupShow) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, setupsPath+"/"+url.PathEscape(c.Name), nil, func(w io.Writer, s *setupRow) {
		said(fmt.Sprintf("setup %s, saved %s by session %s", s.Name, since(&s.UpdatedAt), s.UpdatedBy))(w)
		var rows [][]string
		for _, one := range s.Commands {
			rows = append(rows, []string{"start " + one.Name, in(one.Workspace, one.Cwd), one.Command})
		}
		for _, f := range s.EnvFiles {
			var keys []string
			for _, k := range f.Keys {
				key := k.Key
				if !k.Required {
					key += "?"
				}
				keys = append(keys, key)
			}
			rows = append(rows, []string{"file " + f.Path, in(f.Workspace, ""), strings.Join(keys, " ")})
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
