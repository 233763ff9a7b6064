package action

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Workspace says what agents work on, and what they need there: repositories,
// variables, services, a model and a place to run. Without repositories it is for
// work that needs none.
type Workspace struct {
	ID           string `json:"id" bun:"id,pk"`
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	Name         string `json:"name" doc:"Unique in the organization."`
	// Repositories, in the order in which they are cloned; the first one is the
	// main one.
	Repositories []WorkspaceRepository `json:"repositories" bun:",nullzero" nullable:"false"`
	Instructions string                `json:"instructions,omitempty" bun:",nullzero" doc:"For its agents, besides those of the session's type; missing in lists."`
	Model        string                `json:"model,omitempty" bun:",nullzero" doc:"Model of its sessions; missing: the organization's default."`
	SmallModel   string                `json:"small_model,omitempty" bun:",nullzero" doc:"For titles and summaries."`
	Provider     string                `json:"provider,omitempty" bun:",nullzero" doc:"Provider of its sandboxes; missing: the gateway's default."`
	Size         Size                  `json:"size,omitempty" bun:",nullzero" enum:"small,medium,large" doc:"Of its sandboxes; missing: the gateway's default."`
	IdleSeconds  int                   `json:"idle_seconds,omitempty" bun:",nullzero" doc:"Idle time after which a sandbox pauses; missing: the gateway's setting."`
	LifeSeconds  int                   `json:"life_seconds,omitempty" bun:",nullzero" doc:"Lifetime of a sandbox; missing: the gateway's setting."`
	// SetupHosts and WorkHosts are what its sandboxes may connect to during setup
	// and work. Nil: the gateway's default list.
	SetupHosts      []string        `json:"setup_hosts,omitempty" bun:",nullzero" doc:"Hosts that a sandbox may connect to during setup; missing: the gateway's list."`
	WorkHosts       []string        `json:"work_hosts,omitempty" bun:",nullzero" doc:"Hosts that a sandbox may connect to during work; missing: the gateway's list."`
	ServiceCommands json.RawMessage `json:"service_commands,omitempty" bun:",nullzero" doc:"A list of {name, command, cwd, workspacePath} from the agent of a setup session: run them only if you trust that agent."`
	EnvFiles        json.RawMessage `json:"env_files,omitempty" bun:",nullzero" doc:"A list of {path, workspacePath, format, mode, keys}; names of variables without values."`
	Snapshot        string          `json:"snapshot_id,omitempty" bun:"snapshot_id,nullzero" doc:"Active snapshot, from which its sandboxes start."`
	// SetUpBy is the session that saved commands, files or a snapshot last.
	SetUpBy   string     `json:"set_up_by,omitempty" bun:",nullzero" doc:"Session that saved commands, files or a snapshot last."`
	SetUpAt   *time.Time `json:"set_up_at,omitempty"`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedBy string     `json:"updated_by"`
	UpdatedAt time.Time  `json:"updated_at"`

	State    SetupState `json:"state" bun:"-" enum:"not_set_up,in_setup,ready,needs_attention"`
	Problems []string   `json:"problems,omitempty" bun:"-" doc:"What needs attention."`
}

// WorkspaceRepository is a repository of a workspace.
type WorkspaceRepository struct {
	Repository string `json:"repository_id"`
	Host       string `json:"host,omitempty" doc:"Of the repository." example:"github.com"`
	Path       string `json:"path,omitempty" doc:"Of the repository at its host." example:"acme/shop"`
	Branch     string `json:"branch,omitempty" doc:"Missing: the repository's default branch."`
	Folder     string `json:"folder,omitempty" doc:"Folder that it is cloned into, relative to the workspace; missing: its name."`
}

// Size is the size of a sandbox.
type Size string

// The sizes.
const (
	SizeSmall  Size = "small"
	SizeMedium Size = "medium"
	SizeLarge  Size = "large"
)

// SetupState is how far the setup of a workspace is.
type SetupState string

// The states. They follow from the rows and are not stored.
const (
	NotSetUp       SetupState = "not_set_up"      // no setup session saved anything
	InSetup        SetupState = "in_setup"        // a setup session works on it
	Ready          SetupState = "ready"           // it was set up
	NeedsAttention SetupState = "needs_attention" // see Problems
)

// Limits of workspaces.
const (
	maxWorkspaceRepositories = 20
	maxHosts                 = 200
	maxSandboxSeconds        = 30 * 24 * 3600
	maxInstructions          = 64 << 10 // bytes
	maxBranch                = 250      // bytes
)

// Check validates the workspace, except whether its repositories exist.
func (w *Workspace) Check() error {
	switch {
	case strings.TrimSpace(w.Name) == "" || utf8.RuneCountInString(w.Name) > 120 || !plainLine(w.Name):
		return invalid("/name", "The name of a workspace has 1 to 120 characters, on one line.")
	case len(w.Repositories) > maxWorkspaceRepositories:
		return invalid("/repositories", fmt.Sprintf("A workspace has at most %d repositories.", maxWorkspaceRepositories))
	case len(w.Instructions) > maxInstructions || !utf8.ValidString(w.Instructions) || strings.ContainsRune(w.Instructions, 0):
		return invalid("/instructions", fmt.Sprintf("Instructions are text of at most %d bytes.", maxInstructions))
	case w.Size != "" && w.Size != SizeSmall && w.Size != SizeMedium && w.Size != SizeLarge:
		return invalid("/size", "A size is small, medium or large.")
	case w.IdleSeconds < 0 || w.IdleSeconds > maxSandboxSeconds:
		return invalid("/idle_seconds", "An idle time is at most 30 days.")
	case w.LifeSeconds < 0 || w.LifeSeconds > maxSandboxSeconds:
		return invalid("/life_seconds", "A lifetime is at most 30 days.")
	}
	return firstError(
		w.checkRepositories(), checkModelName("/model", w.Model), checkModelName("/small_model", w.SmallModel),
		checkOptional("/provider", "provider", w.Provider), checkHosts("/setup_hosts", w.SetupHosts), checkHosts("/work_hosts", w.WorkHosts),
	)
}

func (w *Workspace) checkRepositories() error {
	folders := map[string]bool{}
	for i := range w.Repositories {
		r, field := &w.Repositories[i], fmt.Sprintf("/repositories/%d", i)
		if err := CheckBranch(field+"/branch", r.Branch); err != nil {
			return err
		}
		if r.Folder != "" && (r.Folder != path.Clean(r.Folder) || path.IsAbs(r.Folder) || r.Folder == "." || strings.HasPrefix(r.Folder, "..") || strings.Contains(r.Folder, `\`) || !plainLine(r.Folder) || len(r.Folder) > maxBranch) {
			return invalid(field+"/folder", "A folder is a path within the workspace, such as apps/web.")
		}
		folder := strings.ToLower(r.In())
		if folders[folder] {
			return invalid(field+"/folder", fmt.Sprintf("Two repositories would be in the folder %q. Give one of them another folder.", r.In()))
		}
		folders[folder] = true
	}
	return nil
}

// In returns the folder that the repository is cloned into.
func (r *WorkspaceRepository) In() string {
	if r.Folder != "" {
		return r.Folder
	}
	return path.Base(r.Path)
}

// CheckBranch validates the name of a branch by the rules of git-check-ref-format.
// Empty: none.
func CheckBranch(field, name string) error {
	if name == "" {
		return nil
	}
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) }
	if len(name) > maxBranch || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) || strings.Contains(name, "..") || strings.Contains(name, "@{") ||
		strings.HasPrefix(name, "-") || strings.HasSuffix(name, ".") || name == "@" || slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool {
		return part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock")
	}) {
		return invalid(field, "This cannot be the name of a branch in Git.")
	}
	return nil
}

// checkModelName validates the name of a model. Empty: none.
func checkModelName(field, name string) error {
	if len(name) > maxName || !PlainText(name) || strings.Contains(name, " ") {
		return invalid(field, fmt.Sprintf("The name of a model has at most %d bytes and no space.", maxName))
	}
	return nil
}

var hostPattern = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$`)

func checkHosts(field string, hosts []string) error {
	if len(hosts) > maxHosts {
		return invalid(field, fmt.Sprintf("A list has at most %d hosts.", maxHosts))
	}
	for i, h := range hosts {
		if len(h) > 255 || !hostPattern.MatchString(h) {
			return invalid(fmt.Sprintf("%s/%d", field, i), "Name a host such as registry.npmjs.org, *.example.com or git.example.com:8443.")
		}
	}
	return nil
}

// plainLine reports whether a text is one line of visible characters.
func plainLine(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	})
}

// Repository is a Git repository that workspaces can use.
type Repository struct {
	ID            string `json:"id" bun:"id,pk"`
	Organization  string `json:"organization_id" bun:"organization_id,pk"`
	Host          string `json:"host" example:"github.com"` // lower case, with a port that is not the default
	Path          string `json:"path" example:"acme/shop"`
	DefaultBranch string `json:"default_branch,omitempty" bun:",nullzero" example:"main"`
	Private       *bool  `json:"private,omitempty" doc:"Missing: unknown."`
	// Integration reads it. Empty: a secret of its host, or nobody has to sign in.
	Integration string `json:"integration_id,omitempty" bun:"integration_id,nullzero" doc:"Integration that reads it; missing: a secret of its host, or none."`
	// Fault is why it could not be read at CheckedAt.
	Fault     string     `json:"fault,omitempty" bun:",nullzero" doc:"Why it could not be read when it was checked."`
	CheckedAt *time.Time `json:"checked_at,omitempty" doc:"When it was last listed or read."`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`

	// Status follows from the fault and the integration's status.
	Status     RepositoryStatus `json:"status" bun:"-" enum:"readable,unreadable,disconnected,unchecked"`
	Workspaces []NamedID        `json:"workspaces" bun:"-" nullable:"false" doc:"Workspaces that use it."`
}

// NamedID is the ID of something with its name.
type NamedID struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// RepositoryStatus is whether a repository can be read.
type RepositoryStatus string

// The statuses.
const (
	RepositoryReadable     RepositoryStatus = "readable"
	RepositoryUnreadable   RepositoryStatus = "unreadable"   // see Fault
	RepositoryDisconnected RepositoryStatus = "disconnected" // its integration is; it returns with it
	RepositoryUnchecked    RepositoryStatus = "unchecked"
)

// URL returns the URL to clone the repository from.
func (r *Repository) URL() string { return "https://" + r.Host + "/" + r.Path + ".git" }

// Name returns host and path, as people read it.
func (r *Repository) Name() string { return r.Host + "/" + r.Path }

// Check validates the repository.
func (r *Repository) Check() error {
	if !hostPattern.MatchString(r.Host) || strings.HasPrefix(r.Host, "*") || len(r.Host) > 255 {
		return invalid("/url", "The URL of a repository has a host, such as https://github.com/acme/shop.")
	}
	parts := strings.Split(r.Path, "/")
	if len(parts) < 2 || len(r.Path) > 500 || slices.ContainsFunc(parts, func(p string) bool { return !repositoryPart.MatchString(p) || p == "." || p == ".." }) {
		return invalid("/url", "The URL of a repository has an owner and a name, such as https://github.com/acme/shop.")
	}
	return CheckBranch("/default_branch", r.DefaultBranch)
}

var repositoryPart = regexp.MustCompile(`^[A-Za-z0-9_.~-]+$`)

// ParseRepository returns the host and path of the URL of a repository: https, ssh
// or git@host:path, or host/owner/name. The URL's user and password are not accepted.
func ParseRepository(text string) (Repository, error) {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "git@"); ok {
		host, p, _ := strings.Cut(rest, ":")
		text = "ssh://" + host + "/" + p
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return Repository{}, invalid("/url", "This is not the URL of a repository. It looks like https://github.com/acme/shop.")
	}
	if _, secret := u.User.Password(); secret || u.User != nil && u.User.Username() != "git" {
		return Repository{}, invalid("/url", "Leave user and password out of the URL: the gateway adds the credential of an integration, or of a secret for the host.")
	}
	host := strings.ToLower(u.Host)
	if u.Scheme == "ssh" || u.Port() == "443" {
		host = strings.ToLower(u.Hostname())
	}
	r := Repository{Host: host, Path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")}
	return r, r.Check()
}

// Variable is a value that a person entered for the program that agents work on. It
// is stored encrypted and never shown; sandboxes of the workspace get it.
type Variable struct {
	Organization string `json:"organization_id" bun:"organization_id,pk"`
	// Workspace is the ID of a workspace; empty: all of the organization.
	Workspace string    `json:"workspace_id,omitempty" bun:"workspace_id,pk" doc:"Missing: it is for all workspaces of the organization."`
	Name      string    `json:"name" bun:",pk"`
	Version   int64     `json:"version" doc:"Counts the values that were entered."`
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedBy string    `json:"updated_by"`
	UpdatedAt time.Time `json:"updated_at"`

	Files []string `json:"files" bun:"-" nullable:"false" doc:"Declared environment files of the workspace that contain it."`
}

// Check validates the name of the variable.
func (v *Variable) Check() error {
	if !validEnvName(v.Name) {
		return invalid("/name", fmt.Sprintf("A variable name has letters, digits and _, does not start with a digit, and has at most %d characters.", maxEnvKey))
	}
	return nil
}

// CheckVariableValue validates the value of a variable. The error does not contain it.
func CheckVariableValue(field, value string) error {
	if value == "" || len(value) > maxEnvValue || strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
		return invalid(field, fmt.Sprintf("A value is text of 1 byte to %d KiB without NUL characters.", maxEnvValue>>10))
	}
	return nil
}

// SealedVariable is a variable with its encrypted value.
type SealedVariable struct {
	Variable
	Sealed []byte
}

// VariableRef binds the encrypted value of a variable to it.
func VariableRef(organization, workspace, name string) Ref {
	return Ref{Organization: organization, Table: "variables", Row: workspace + "/" + name, Column: "sealed"}
}

// RepositoryFilter selects repositories of an organization. Empty fields match all.
type RepositoryFilter struct {
	Organization string
	Integration  string
	Workspace    string
	Text         string // in host or path
	Limit        int    // zero: 50; at most 500
	Cursor       string // of the page before; empty: the first
}
