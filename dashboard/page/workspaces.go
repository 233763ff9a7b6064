package page

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/envfile"
)

func (p *pageRequest) workspacesPage() error {
	return p.show("workspaces", "workspaces", "Workspaces", struct {
		Workspaces []action.Workspace
		Decides    bool
	}{load(p, p.Workspaces.ListWorkspaces, p.org), p.decides()})
}

// workspaceRepository is a repository on the page of a workspace.
type workspaceRepository struct {
	action.Repository
	Branch, Folder string
}

// setupRow is a command or a file that a setup session saved.
type setupRow struct{ What, In, Text string }

func (p *pageRequest) workspacePage() error {
	w, err := p.Workspaces.Workspace(p.ctx(), p.org, p.r.PathValue("id"))
	if err != nil {
		return err
	}
	rows := load(p, p.Workspaces.ListRepositories, action.RepositoryFilter{Organization: p.org, Workspace: w.ID, Limit: 100}).Items
	repositories := make([]workspaceRepository, 0, len(w.Repositories))
	for i := range w.Repositories {
		entry := &w.Repositories[i]
		if at := slices.IndexFunc(rows, func(r action.Repository) bool { return r.ID == entry.Repository }); at >= 0 {
			repositories = append(repositories, workspaceRepository{rows[at], entry.Branch, entry.In()})
		}
	}
	return p.show("workspace", "workspaces", w.Name, struct {
		Workspace    action.Workspace
		Repositories []workspaceRepository
		Variables    []action.Variable
		Setup        []setupRow
		Names        map[string]string
		Decides      bool
	}{w, repositories, load2(p, p.Workspaces.ListVariables, p.org, w.ID), setupRows(&w), p.loadNames(), p.decides()})
}

// setupRows are the commands and files that a setup session saved.
func setupRows(w *action.Workspace) (rows []setupRow) {
	var commands []struct {
		Name      string `json:"name"`
		Command   string `json:"command"`
		Cwd       string `json:"cwd"`
		Workspace string `json:"workspacePath"`
	}
	_ = json.Unmarshal(w.ServiceCommands, &commands) // validated when they were saved
	for _, c := range commands {
		rows = append(rows, setupRow{"service " + c.Name, cmp.Or(strings.Trim(c.Workspace+"/"+c.Cwd, "/"), "."), c.Command})
	}
	var files []envfile.File
	_ = json.Unmarshal(w.EnvFiles, &files) // likewise
	for i := range files {
		keys := make([]string, len(files[i].Keys))
		for j, k := range files[i].Keys {
			keys[j] = k.Key
		}
		rows = append(rows, setupRow{"file " + files[i].Path, cmp.Or(files[i].WorkspacePath, "."), strings.Join(keys, " ")})
	}
	return rows
}
