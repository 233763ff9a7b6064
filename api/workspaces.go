package api

import (
	"encoding/json"

	"sallyport/action"
)

// Routes.
var (
	ListWorkspaces = Route[None, List[action.Workspace]]{Operation{
		Method: "GET", Path: "/api/v1/workspaces", Who: Member, Tag: "workspaces",
		Summary: "List workspaces",
	}}
	CreateWorkspace = Route[Body[NewWorkspace], action.Workspace]{Operation{
		Method: "POST", Path: "/api/v1/workspaces", Who: Decider, Tag: "workspaces", Status: 201, Errors: []int{404, 409},
		Summary: "Create a workspace",
		Doc:     "A repository that is named by its URL is added, with the integration that can read it.",
	}}
	GetWorkspace = Route[ByWorkspace, action.Workspace]{Operation{
		Method: "GET", Path: "/api/v1/workspaces/{workspace}", Who: Member, Tag: "workspaces",
		Summary: "Get a workspace",
	}}
	UpdateWorkspace = Route[ByWorkspaceWith[WorkspaceChange], action.Workspace]{Operation{
		Method: "PATCH", Path: "/api/v1/workspaces/{workspace}", Who: Decider, Tag: "workspaces", Errors: []int{409},
		Summary: "Change a workspace",
		Doc:     "Missing fields stay unchanged. Sessions keep the repositories that they were created with.",
	}}
	DeleteWorkspace = Route[ByWorkspace, None]{Operation{
		Method: "DELETE", Path: "/api/v1/workspaces/{workspace}", Who: Decider, Tag: "workspaces", Errors: []int{409},
		Summary: "Delete a workspace",
		Doc:     "Also deletes its variables. Its repositories and past sessions stay.",
	}}
	GetSessionWorkspace = Route[InSession, SessionWorkspace]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/workspace", Who: Audience, Tag: "workspaces",
		Summary: "Get what the session works on",
		Doc:     "Everything that a worker needs to build the session's sandbox, and nothing secret.",
	}}
	GetSessionVariables = Route[InSession, SessionVariables]{Operation{
		Method: "POST", Path: "/api/v1/sessions/{session}/variables", Who: Agent, Tag: "workspaces", Status: 200, Errors: []int{409},
		Summary: "Get the values of the session's variables",
		Doc:     "For the environment files of its workspace. The audit log records which variables a session got.",
	}}

	ListRepositories = Route[ListRepositoriesInput, List[action.Repository]]{Operation{
		Method: "GET", Path: "/api/v1/repositories", Who: Member, Tag: "workspaces",
		Summary: "List repositories",
	}}
	AddRepository = Route[Body[NewRepository], action.Repository]{Operation{
		Method: "POST", Path: "/api/v1/repositories", Who: Decider, Tag: "workspaces", Status: 201, Errors: []int{404, 409},
		Summary: "Add a repository",
		Doc:     "By its URL. The gateway reads it once, to find its default branch and whether the credential is sufficient.",
	}}
	SyncRepositories = Route[Body[RepositorySync], SyncedRepositories]{Operation{
		Method: "POST", Path: "/api/v1/repositories/sync", Who: Decider, Tag: "workspaces", Status: 200, Errors: []int{404, 409},
		Summary: "Add the repositories of an integration",
		Doc:     "Adds those that the integration can read. The gateway does this when an integration is connected, too, in the background.",
	}}
	GetRepository = Route[ByID, action.Repository]{Operation{
		Method: "GET", Path: "/api/v1/repositories/{id}", Who: Member, Tag: "workspaces",
		Summary: "Get a repository",
	}}
	CheckRepository = Route[ByID, action.Repository]{Operation{
		Method: "POST", Path: "/api/v1/repositories/{id}/check", Who: Decider, Tag: "workspaces", Status: 200,
		Summary: "Check whether a repository can be read",
	}}
	DeleteRepository = Route[ByID, None]{Operation{
		Method: "DELETE", Path: "/api/v1/repositories/{id}", Who: Decider, Tag: "workspaces", Errors: []int{409},
		Summary: "Remove a repository that no workspace uses",
	}}

	ListVariables = Route[OfWorkspace, List[action.Variable]]{Operation{
		Method: "GET", Path: "/api/v1/variables", Who: Member, Tag: "workspaces",
		Summary: "List variables without their values",
		Doc:     "Those that a workspace gets: its own, and those of the organization that it has no own value for.",
	}}
	PutVariable = Route[ByVariableWith[NewVariable], action.Variable]{Operation{
		Method: "PUT", Path: "/api/v1/variables/{name}", Who: Decider, Tag: "workspaces", Status: 200,
		Summary: "Set a variable",
		Doc:     "Stores the value encrypted. It cannot be read back; sandboxes of the workspace get it, so their agents can read it.",
	}}
	DeleteVariable = Route[DeleteVariableInput, None]{Operation{
		Method: "DELETE", Path: "/api/v1/variables/{name}", Who: Decider, Tag: "workspaces",
		Summary: "Delete a variable",
	}}
)

// NewWorkspace is a workspace to create.
type NewWorkspace struct {
	Name         string   `json:"name,omitempty" maxLength:"120" doc:"Unique in the organization. Missing: that of the first repository." example:"shop" kong:"arg,optional,help='Name of the workspace (default: that of the first repository).'"`
	Repositories []string `json:"repositories,omitempty" maxItems:"20" nullable:"false" doc:"Repositories by URL or ID; the first one is the main one. A branch can follow after #, and a folder after a space: https://github.com/acme/shop#develop apps/shop." example:"https://github.com/acme/shop" kong:"name='repo',sep='none',env='-',placeholder='URL',help='Repository by URL or ID, with #BRANCH if it is not the default one, and a folder after a space; repeat for more.'"`
	WorkspaceSettings
}

// WorkspaceSettings are the settings of a workspace that have defaults.
type WorkspaceSettings struct {
	Instructions *string      `json:"instructions,omitempty" maxLength:"65536" nullable:"false" doc:"For its agents, besides those of the session's type." kong:"placeholder='TEXT',help='Instructions for its agents.'"`
	Model        *string      `json:"model,omitempty" maxLength:"200" nullable:"false" doc:"Model of its sessions, as provider/model; empty: the organization's default." example:"anthropic/claude-sonnet-4-5" kong:"placeholder='ID',help='Model of its sessions; see sallyport models.'"`
	SmallModel   *string      `json:"small_model,omitempty" maxLength:"200" nullable:"false" doc:"Model for titles and summaries." kong:"placeholder='ID',help='Model for titles and summaries.'"`
	Provider     *string      `json:"provider,omitempty" maxLength:"40" nullable:"false" doc:"Provider of its sandboxes; empty: the gateway's default." kong:"help='Provider of its sandboxes (default: that of the gateway).'"`
	Size         *action.Size `json:"size,omitempty" enum:"small,medium,large," nullable:"false" doc:"Size of its sandboxes." kong:"placeholder='SIZE',help='Size of its sandboxes: small, medium or large.'"`
	IdleSeconds  *int         `json:"idle_seconds,omitempty" minimum:"0" maximum:"2592000" nullable:"false" doc:"Idle time after which a sandbox pauses; 0: the gateway's setting." kong:"name='idle',type='seconds',placeholder='D',help='Idle time after which a sandbox pauses, such as 30m.'"`
	LifeSeconds  *int         `json:"life_seconds,omitempty" minimum:"0" maximum:"2592000" nullable:"false" doc:"Lifetime of a sandbox; 0: the gateway's setting." kong:"name='life',type='seconds',placeholder='D',help='Lifetime of a sandbox, such as 8h.'"`
	SetupHosts   []string     `json:"setup_hosts,omitempty" maxItems:"200" nullable:"false" doc:"Hosts that a sandbox may connect to during setup, such as *.example.com; missing: the gateway's list." kong:"name='setup-host',placeholder='HOST',help='Host that a sandbox may connect to during setup; repeat for more (default: those of the gateway).'"`
	WorkHosts    []string     `json:"work_hosts,omitempty" maxItems:"200" nullable:"false" doc:"Hosts that a sandbox may connect to during work; missing: the gateway's list." kong:"name='work-host',placeholder='HOST',help='Host that a sandbox may connect to during work; repeat for more (default: those of the gateway).'"`
}

// WorkspaceChange changes a workspace.
type WorkspaceChange struct {
	Name         *string  `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"name='rename',placeholder='NAME',help='New name.'"`
	Repositories []string `json:"repositories,omitempty" maxItems:"20" nullable:"false" doc:"Replaces all of them." kong:"name='repo',sep='none',env='-',placeholder='URL',help='Repository by URL or ID, with #BRANCH if it is not the default one; all of them, as they replace the previous ones.'"`
	WorkspaceSettings
}

// ByWorkspace is the parameter of a route about a workspace.
type ByWorkspace struct {
	Workspace string `path:"workspace" maxLength:"200" doc:"ID or name." example:"shop" kong:"arg,help='Name or ID of the workspace.'"`
}

// ByWorkspaceWith is [ByWorkspace] with a body.
type ByWorkspaceWith[B any] struct {
	ByWorkspace
	Body B `kong:"embed"`
}

// OfWorkspace selects what belongs to a workspace.
type OfWorkspace struct {
	Workspace string `query:"workspace" maxLength:"200" doc:"ID or name; missing: the organization." kong:"placeholder='NAME',help='Workspace, by name or ID (default: the organization).'"`
}

// SessionWorkspace is what a session works on.
type SessionWorkspace struct {
	Workspace       action.NamedID      `json:"workspace"`
	Repositories    []RepositoryToClone `json:"repositories" nullable:"false"`
	Model           string              `json:"model,omitempty"`
	SmallModel      string              `json:"small_model,omitempty"`
	Provider        string              `json:"provider,omitempty"`
	Size            action.Size         `json:"size,omitempty"`
	IdleSeconds     int                 `json:"idle_seconds,omitempty"`
	LifeSeconds     int                 `json:"life_seconds,omitempty"`
	Hosts           []string            `json:"hosts,omitempty" doc:"Hosts that the sandbox may connect to; missing: the gateway's list."`
	ServiceCommands json.RawMessage     `json:"service_commands" doc:"A list of {name, command, cwd, workspacePath} from the agent of a setup session."`
	EnvFiles        json.RawMessage     `json:"env_files" doc:"A list of {path, workspacePath, format, mode, keys}."`
	Variables       []string            `json:"variables" nullable:"false" doc:"Names of the variables that have a value."`
	Snapshot        string              `json:"snapshot_id,omitempty"`
	FirstPrompt     string              `json:"first_prompt,omitempty"`
}

// RepositoryToClone is a repository of a session with its URL.
type RepositoryToClone struct {
	action.SessionRepository
	URL string `json:"url" doc:"To clone it; through the gateway with the configuration that client config prints."`
}

// SessionVariables are the values of a session's variables.
type SessionVariables struct {
	EnvFiles json.RawMessage   `json:"env_files" doc:"A list of {path, workspacePath, format, mode, keys}."`
	Values   map[string]string `json:"values" nullable:"false"`
}

// NewRepository is a repository to add.
type NewRepository struct {
	URL         string `json:"url" minLength:"1" maxLength:"1000" doc:"URL without a credential." example:"https://github.com/acme/shop" kong:"arg,name='url',help='URL of the repository, such as https://github.com/acme/shop.'"`
	Integration string `json:"integration,omitempty" maxLength:"200" doc:"Integration that reads it: ID, name, or provider with only one integration. Missing: the one of its host, if there is only one." kong:"placeholder='REF',help='Integration that reads it, by ID, name or provider (default: the one of its host).'"`
}

// RepositorySync names the integration whose repositories are added.
type RepositorySync struct {
	Integration string `json:"integration" minLength:"1" maxLength:"200" doc:"ID, name, or provider with only one integration." example:"github" kong:"arg,help='Integration, by ID, name or provider.'"`
}

// SyncedRepositories is the result of [SyncRepositories].
type SyncedRepositories struct {
	Readable int `json:"readable" doc:"Repositories that the integration can read."`
	Added    int `json:"added" doc:"Those that are new."`
}

// ListRepositoriesInput is the input of [ListRepositories].
type ListRepositoriesInput struct {
	Text        string `query:"text" maxLength:"200" doc:"Part of host, owner or name." kong:"arg,optional,help='Part of host, owner or name.'"`
	Integration string `query:"integration" maxLength:"200" doc:"Only those of this integration, by ID." kong:"placeholder='ID',help='Only those of this integration.'"`
	Workspace   string `query:"workspace" maxLength:"200" doc:"Only those of this workspace, by ID or name." kong:"placeholder='NAME',help='Only those of this workspace.'"`
	Paging
}

// ByVariable is the parameter of a route about a variable.
type ByVariable struct {
	Name string `path:"name" maxLength:"200" example:"DATABASE_URL" kong:"arg,help='Name of the variable.'"`
}

// ByVariableWith is [ByVariable] with a body.
type ByVariableWith[B any] struct {
	ByVariable
	Body B `kong:"embed"`
}

// NewVariable is the value of a variable.
type NewVariable struct {
	Value     string `json:"value" minLength:"1" maxLength:"65536" writeOnly:"true" kong:"-"`
	Workspace string `json:"workspace,omitempty" maxLength:"200" doc:"ID or name; missing: for all workspaces of the organization." kong:"placeholder='NAME',help='Workspace, by name or ID (default: all of the organization).'"`
}

// DeleteVariableInput is the input of [DeleteVariable].
type DeleteVariableInput struct {
	ByVariable
	OfWorkspace
}
