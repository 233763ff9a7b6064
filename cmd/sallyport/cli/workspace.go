package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/envfile"
)

type workspaceCommand struct {
	Create request[api.Body[api.NewWorkspace], action.Workspace]               `cmd:"" help:"Create a workspace; a repository is enough."`
	List   request[api.None, api.List[action.Workspace]]                       `cmd:"" help:"List workspaces."`
	Show   request[api.ByWorkspace, action.Workspace]                          `cmd:"" help:"Show a workspace, its services and environment files."`
	Update request[api.ByWorkspaceWith[api.WorkspaceChange], action.Workspace] `cmd:"" help:"Change a workspace."`
	Remove request[api.ByWorkspace, api.None]                                  `cmd:"" help:"Remove a workspace and its variables."`
}

type repositoryCommand struct {
	Add    request[api.Body[api.NewRepository], action.Repository]         `cmd:"" help:"Add a repository by its URL."`
	Sync   request[api.Body[api.RepositorySync], api.SyncedRepositories]   `cmd:"" help:"Add the repositories that an integration can read."`
	List   request[api.ListRepositoriesInput, api.List[action.Repository]] `cmd:"" help:"List repositories."`
	Check  request[api.ByID, action.Repository]                            `cmd:"" help:"Check whether a repository can be read."`
	Remove request[api.ByID, api.None]                                     `cmd:"" help:"Remove a repository that no workspace uses."`
}

type variableCommand struct {
	Set    variableSet                                         `cmd:"" help:"Set a variable; the value is read from standard input."`
	List   request[api.OfWorkspace, api.List[action.Variable]] `cmd:"" help:"List variables without their values."`
	Remove request[api.DeleteVariableInput, api.None]          `cmd:"" help:"Remove a variable."`
}

func (c *Commands) addWorkspaces() {
	c.Workspace.Create = showsWith(api.CreateWorkspace, showNewWorkspace)
	c.Workspace.List = shows(api.ListWorkspaces, table("NAME STATE REPOSITORIES MODEL SET_UP ID", workspaceRow))
	c.Workspace.Show = shows(api.GetWorkspace, showWorkspace)
	c.Workspace.Update = shows(api.UpdateWorkspace, showWorkspace)
	c.Workspace.Remove = says(api.DeleteWorkspace, "workspace {workspace} is removed")
	c.Repository.Add = shows(api.AddRepository, showRepository)
	c.Repository.Check = shows(api.CheckRepository, showRepository)
	c.Repository.Sync = shows(api.SyncRepositories, func(w io.Writer, s *api.SyncedRepositories) {
		printLine(w, fmt.Sprintf("the integration can read %s, of which %d are new", command.Plural(s.Readable, "repository"), s.Added))
	})
	c.Repository.List = shows(api.ListRepositories, table("REPOSITORY BRANCH STATE WORKSPACES CHECKED ID", repositoryRow))
	c.Repository.Remove = says(api.DeleteRepository, "repository {id} is removed")
	c.Variable.List = listsNamed(api.ListVariables, actorLists(), "NAME OF VERSION FILES SET_BY SET", func(names labels, v *action.Variable) []string {
		of := "organization"
		if v.Workspace != "" {
			of = "workspace"
		}
		return []string{v.Name, of, fmt.Sprint(v.Version), strings.Join(v.Files, " "), names.name(v.UpdatedBy), relativeTime(&v.UpdatedAt)}
	})
	c.Variable.Remove = says(api.DeleteVariable, "variable {name} is removed")
}

type variableSet struct {
	clientFlags
	api.ByVariable
	api.NewVariable
}

func (c *variableSet) Run(ctx context.Context, std *command.Streams) (err error) {
	if _, err := c.connect(); err != nil { // fail before the user types a value
		return err
	}
	if c.Value, err = readSecret(std, "variable set NAME"); err != nil {
		return err
	}
	in := api.ByVariableWith[api.NewVariable]{ByVariable: c.ByVariable, Body: c.NewVariable}
	return perform(ctx, &c.clientFlags, std, api.PutVariable, in, func(w io.Writer, v *action.Variable) {
		scope := "all workspaces"
		if c.Workspace != "" {
			scope = "workspace " + c.Workspace
		}
		printLine(w, fmt.Sprintf("variable %s is set for %s (version %d); it cannot be read back, and agents of the workspace can read it", v.Name, scope, v.Version))
	})
}

func showNewWorkspace(_ context.Context, w io.Writer, c *clientFlags, s *action.Workspace) {
	printLine(w, fmt.Sprintf("workspace %s (%s) is created", s.Name, s.ID))
	for i := range s.Repositories {
		printLine(w, "    "+workspaceRepository(&s.Repositories[i]))
	}
	for _, problem := range s.Problems {
		printLine(w, "needs attention: "+problem)
	}
	printLine(w, "set it up with an agent: "+c.hint("session", "create", "--type", "setup", "--workspace", s.Name))
	printLine(w, "or work on it: "+c.hint("session", "create", "--workspace", s.Name))
}

func workspaceRepository(r *action.WorkspaceRepository) string {
	text := r.Host + "/" + r.Path
	if r.Branch != "" {
		text += "#" + r.Branch
	}
	if r.Folder != "" {
		text += " in " + r.Folder
	}
	return text
}

func workspaceRow(w *action.Workspace) []string {
	names := make([]string, len(w.Repositories))
	for i := range w.Repositories {
		names[i] = workspaceRepository(&w.Repositories[i])
	}
	return []string{w.Name, stateText(string(w.State)), strings.Join(names, ", "), w.Model, relativeTime(w.SetUpAt), w.ID}
}

// stateText writes a state as words.
func stateText(state string) string { return strings.ReplaceAll(state, "_", " ") }

func showWorkspace(w io.Writer, s *action.Workspace) {
	printLine(w, fmt.Sprintf("workspace %s (%s), %s", s.Name, s.ID, stateText(string(s.State))))
	for _, problem := range s.Problems {
		printLine(w, "needs attention: "+problem)
	}
	var rows [][]string
	for i := range s.Repositories {
		rows = append(rows, []string{"repository", workspaceRepository(&s.Repositories[i])})
	}
	for _, row := range [][2]string{
		{"model", s.Model},
		{"small model", s.SmallModel},
		{"provider", s.Provider},
		{"size", string(s.Size)},
		{"idle time", seconds(s.IdleSeconds)},
		{"lifetime", seconds(s.LifeSeconds)},
		{"hosts during setup", strings.Join(s.SetupHosts, " ")},
		{"hosts during work", strings.Join(s.WorkHosts, " ")},
		{"snapshot", s.Snapshot},
	} {
		if row[1] != "" {
			rows = append(rows, row[:])
		}
	}
	setup, err := setupRows(s)
	if err != nil {
		rows = append(rows, []string{"setup", err.Error()})
	}
	command.Table(w, []string{"WHAT", "VALUE"}, append(rows, setup...))
	for line := range strings.Lines(s.Instructions) {
		printLine(w, "    "+strings.TrimRight(line, "\r\n"))
	}
}

func seconds(n int) string {
	if n == 0 {
		return ""
	}
	return (time.Duration(n) * time.Second).String()
}

// setupRows describes what a setup session saved.
func setupRows(s *action.Workspace) (rows [][]string, err error) {
	var commands []struct {
		Name      string `json:"name"`
		Command   string `json:"command"`
		Cwd       string `json:"cwd"`
		Workspace string `json:"workspacePath"`
	}
	var files []envfile.File
	if len(s.ServiceCommands) > 0 {
		err = decode(s.ServiceCommands, &commands)
	}
	if len(s.EnvFiles) > 0 {
		err = errors.Join(err, decode(s.EnvFiles, &files))
	}
	for _, one := range commands {
		rows = append(rows, []string{"service " + one.Name, one.Command + " (in " + workspacePath(one.Workspace, one.Cwd) + ")"})
	}
	for i := range files {
		var keys []string
		for _, k := range files[i].Keys {
			key := k.Key
			if !k.Required {
				key += "?"
			}
			keys = append(keys, key)
		}
		rows = append(rows, []string{"file " + files[i].Name(), strings.Join(keys, " ") + " (? is optional)"})
	}
	return rows, err
}

// workspacePath joins a workspace and a folder in it.
func workspacePath(workspace, folder string) string {
	path := strings.Trim(workspace+"/"+folder, "/")
	if path == "" {
		return "."
	}
	return path
}

func showRepository(w io.Writer, r *action.Repository) {
	printLine(w, fmt.Sprintf("repository %s (%s) is %s", r.Name(), r.ID, r.Status))
	if r.DefaultBranch != "" {
		printLine(w, "default branch: "+r.DefaultBranch)
	}
	if r.Fault != "" {
		printLine(w, "could not be read: "+r.Fault)
	}
}

func repositoryRow(r *action.Repository) []string {
	names := make([]string, len(r.Workspaces))
	for i := range r.Workspaces {
		names[i] = r.Workspaces[i].Name
	}
	return []string{r.Name(), r.DefaultBranch, string(r.Status), strings.Join(names, ", "), relativeTime(r.CheckedAt), r.ID}
}
