package routes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

func (s *handlers) workspaceRoutes() {
	dashboard.Handle(s.Server, api.ListWorkspaces, listAll(s.Workspaces.ListWorkspaces))
	dashboard.Handle(s.Server, api.CreateWorkspace, s.createWorkspace)
	dashboard.Handle(s.Server, api.GetWorkspace, func(ctx context.Context, p *dashboard.Principal, in *api.ByWorkspace) (action.Workspace, error) {
		return s.Workspaces.Workspace(ctx, p.Organization, in.Workspace)
	})
	dashboard.Handle(s.Server, api.UpdateWorkspace, s.changeWorkspace)
	dashboard.HandleNone(s.Server, api.DeleteWorkspace, func(ctx context.Context, p *dashboard.Principal, in *api.ByWorkspace) error {
		w, err := s.Workspaces.Workspace(ctx, p.Organization, in.Workspace)
		if err != nil {
			return err
		}
		if err := s.Workspaces.DeleteWorkspace(ctx, p.Organization, w.ID, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "workspace deleted", "workspace", w.ID, "name", w.Name)
		return nil
	})
	dashboard.Handle(s.Server, api.GetSessionWorkspace, s.sessionWorkspace)
	dashboard.Handle(s.Server, api.GetSessionVariables, s.sessionVariables)
	s.repositoryRoutes()
	s.variableRoutes()
}

func (s *handlers) createWorkspace(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewWorkspace]) (action.Workspace, error) {
	n := &in.Body
	w := action.Workspace{Organization: p.Organization, CreatedBy: p.By(), CreatedAt: s.Now()}
	var err error
	if w.Repositories, err = s.workspaceRepositories(ctx, p, n.Repositories); err != nil {
		return w, err
	}
	if err := changeSettings(&w, &n.WorkspaceSettings); err != nil {
		return w, err
	}
	w.Name = strings.TrimSpace(n.Name)
	switch {
	case w.Name == "" && len(w.Repositories) > 0:
		w.Name = path.Base(w.Repositories[0].Path)
	case w.Name == "":
		return w, dashboard.Invalid("/name", "Name the workspace, or a repository that gives it its name.")
	}
	if w, err = s.Workspaces.CreateWorkspace(ctx, w); err != nil {
		return w, err
	}
	s.policyChanged(ctx, p, "workspace created", "workspace", w.ID, "name", w.Name)
	return w, nil
}

func (s *handlers) changeWorkspace(ctx context.Context, p *dashboard.Principal, in *api.ByWorkspaceWith[api.WorkspaceChange]) (action.Workspace, error) {
	w, err := s.Workspaces.Workspace(ctx, p.Organization, in.Workspace)
	if err != nil {
		return w, err
	}
	if in.Body.Name != nil {
		w.Name = strings.TrimSpace(*in.Body.Name)
	}
	if in.Body.Repositories != nil {
		if w.Repositories, err = s.workspaceRepositories(ctx, p, in.Body.Repositories); err != nil {
			return w, err
		}
	}
	if err := changeSettings(&w, &in.Body.WorkspaceSettings); err != nil {
		return w, err
	}
	if w, err = s.Workspaces.UpdateWorkspace(ctx, w, p.By()); err != nil {
		return w, err
	}
	s.policyChanged(ctx, p, "workspace changed", "workspace", w.ID, "name", w.Name)
	return w, nil
}

func changeSettings(w *action.Workspace, settings *api.WorkspaceSettings) (err error) {
	applyChange(w, settings)
	if w.Model, err = canonicalModel(w.Model, "/model"); err != nil {
		return err
	}
	w.SmallModel, err = canonicalModel(w.SmallModel, "/small_model")
	return err
}

// workspaceRepositories resolves references to repositories, and adds those that are
// named by a new URL.
func (s *handlers) workspaceRepositories(ctx context.Context, p *dashboard.Principal, refs []string) (list []action.WorkspaceRepository, err error) {
	for i, ref := range refs {
		place, folder, _ := strings.Cut(strings.TrimSpace(ref), " ")
		place, branch, _ := strings.Cut(place, "#")
		r, err := s.Workspaces.Repository(ctx, p.Organization, place)
		if errors.Is(err, action.ErrNotFound) {
			r, err = s.addRepository(ctx, p, api.NewRepository{URL: place})
		}
		if err != nil {
			return nil, view.AtField(err, fmt.Sprintf("/repositories/%d", i))
		}
		list = append(list, action.WorkspaceRepository{Repository: r.ID, Host: r.Host, Path: r.Path, Branch: branch, Folder: strings.TrimSpace(folder)})
	}
	return list, nil
}

// sessionWorkspace returns everything that the session's sandbox is built from.
func (s *handlers) sessionWorkspace(ctx context.Context, p *dashboard.Principal, in *api.InSession) (api.SessionWorkspace, error) {
	session, err := s.sessionOf(ctx, p, in.Session)
	if err != nil {
		return api.SessionWorkspace{}, err
	}
	return s.workspaceOf(ctx, &session)
}

func (s *handlers) workspaceOf(ctx context.Context, session *action.Session) (out api.SessionWorkspace, err error) {
	w := action.Workspace{}
	if session.Workspace != "" {
		if w, err = s.Workspaces.Workspace(ctx, session.Organization, session.Workspace); err != nil {
			return out, err
		}
	}
	out = api.SessionWorkspace{
		Workspace: action.NamedID{ID: w.ID, Name: w.Name}, Repositories: []api.RepositoryToClone{}, Variables: []string{},
		Model: session.Model, SmallModel: w.SmallModel, Provider: session.Provider, Size: w.Size, IdleSeconds: w.IdleSeconds, LifeSeconds: w.LifeSeconds,
		Hosts: w.WorkHosts, ServiceCommands: list(w.ServiceCommands), EnvFiles: list(w.EnvFiles),
		Snapshot: cmp.Or(session.Snapshot, w.Snapshot), FirstPrompt: session.FirstPrompt,
	}
	if session.Type == action.TypeSetup {
		out.Hosts = w.SetupHosts
	}
	for i := range session.Repositories {
		r := session.Repositories[i]
		at := action.Repository{Host: r.Host, Path: r.Path}
		out.Repositories = append(out.Repositories, api.RepositoryToClone{SessionRepository: r, URL: at.URL()})
	}
	variables, err := s.Workspaces.ListVariables(ctx, session.Organization, session.Workspace)
	for i := range variables {
		out.Variables = append(out.Variables, variables[i].Name)
	}
	return out, err
}

// list returns a JSON list, which is empty if there is none.
func list(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("[]")
	}
	return raw
}

// sessionVariables returns the values of the variables that the environment files of
// the session's workspace declare.
func (s *handlers) sessionVariables(ctx context.Context, p *dashboard.Principal, _ *api.InSession) (api.SessionVariables, error) {
	out := api.SessionVariables{EnvFiles: list(nil), Values: map[string]string{}}
	session := p.Session
	if err := session.Accepts(s.Now()); err != nil {
		return out, err
	}
	if session.Workspace == "" {
		return out, dashboard.Invalid("/session", "This session has no workspace, so it has no variables. Request them with request_env_variables.")
	}
	w, err := s.Workspaces.Workspace(ctx, session.Organization, session.Workspace)
	if err != nil {
		return out, err
	}
	out.EnvFiles = list(w.EnvFiles)
	sealed, err := s.Workspaces.SealedVariables(ctx, session.Organization, w.ID)
	if err != nil {
		return out, err
	}
	var given []string
	for i := range sealed {
		v := &sealed[i]
		if len(v.Files) == 0 {
			continue
		}
		plain, err := s.Vault.Open(action.VariableRef(v.Organization, v.Variable.Workspace, v.Name), v.Sealed)
		if err != nil {
			return out, fmt.Errorf("opening variable %s: %w", v.Name, err)
		}
		out.Values[v.Name], given = string(plain), append(given, v.Name)
	}
	return out, s.Workspaces.GaveVariables(ctx, session, given)
}

func (s *handlers) repositoryRoutes() {
	dashboard.Handle(s.Server, api.ListRepositories, func(ctx context.Context, p *dashboard.Principal, in *api.ListRepositoriesInput) (api.List[action.Repository], error) {
		page, err := s.Workspaces.ListRepositories(ctx, action.RepositoryFilter{
			Organization: p.Organization, Integration: in.Integration, Workspace: in.Workspace, Text: in.Text, Limit: in.Limit, Cursor: in.Cursor,
		})
		return view.PageOf(page, identity), err
	})
	dashboard.Handle(s.Server, api.AddRepository, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewRepository]) (action.Repository, error) {
		return s.addRepository(ctx, p, in.Body)
	})
	dashboard.Handle(s.Server, api.SyncRepositories, func(ctx context.Context, p *dashboard.Principal, in *api.Body[api.RepositorySync]) (out api.SyncedRepositories, err error) {
		integration, err := s.organizationIntegration(ctx, p, in.Body.Integration)
		if err != nil {
			return out, view.AtField(err, "/integration")
		}
		return s.syncRepositories(ctx, p, *integration)
	})
	dashboard.Handle(s.Server, api.GetRepository, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (action.Repository, error) {
		return s.Workspaces.Repository(ctx, p.Organization, in.ID)
	})
	dashboard.Handle(s.Server, api.CheckRepository, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (action.Repository, error) {
		r, err := s.Workspaces.Repository(ctx, p.Organization, in.ID)
		if err != nil {
			return r, err
		}
		return s.checkRepository(ctx, r)
	})
	dashboard.HandleNone(s.Server, api.DeleteRepository, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
		if err := s.Workspaces.DeleteRepository(ctx, p.Organization, in.ID, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "repository removed", "repository", in.ID)
		return nil
	})
}

func (s *handlers) syncRepositories(ctx context.Context, p *dashboard.Principal, in action.Integration) (out api.SyncedRepositories, err error) {
	found, err := s.Repositories.RepositoriesOf(ctx, in)
	if err != nil {
		return out, err
	}
	out.Readable = len(found)
	if out.Added, err = s.Workspaces.SyncRepositories(ctx, p.Organization, in.ID, found, p.By()); err == nil {
		s.Log.InfoContext(ctx, "repositories listed", "integration", in.ID, "readable", out.Readable, "added", out.Added, "by", p.By())
	}
	return out, err
}

// listWithin bounds how long the list of an integration's repositories may take after
// it was connected.
const listWithin = 2 * time.Minute

// listRepositories adds the repositories of an integration that was connected, in the
// background.
func (s *handlers) listRepositories(ctx context.Context, p *dashboard.Principal, in action.Integration) {
	if in.Owner() != "" || s.Repositories.RepositoryHost(&in) == "" {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), listWithin)
	go func() {
		defer stop()
		if _, err := s.syncRepositories(ctx, p, in); err != nil {
			s.Log.WarnContext(ctx, "repositories could not be listed; list them with: sallyport repository sync", "integration", in.ID, "error", err)
		}
	}()
}

// organizationIntegration resolves a reference to an integration that everybody in the
// organization may use.
func (s *handlers) organizationIntegration(ctx context.Context, p *dashboard.Principal, ref string) (*action.Integration, error) {
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(in action.Integration) bool { return in.Owner() != "" })
	return s.resolveConnection(ref, all)
}

// addRepository adds the repository of a URL, and reads it.
func (s *handlers) addRepository(ctx context.Context, p *dashboard.Principal, n api.NewRepository) (action.Repository, error) {
	r, err := action.ParseRepository(n.URL)
	if err != nil {
		return r, err
	}
	r.Organization, r.CreatedBy, r.CreatedAt = p.Organization, p.By(), s.Now()
	if n.Integration != "" {
		in, err := s.organizationIntegration(ctx, p, n.Integration)
		if err != nil {
			return r, view.AtField(err, "/integration")
		}
		r.Integration = in.ID
	} else if r.Integration, err = s.integrationFor(ctx, p, &r); err != nil {
		return r, err
	}
	if r, err = s.Workspaces.AddRepository(ctx, r, p.By()); err != nil {
		return r, err
	}
	s.policyChanged(ctx, p, "repository added", "repository", r.ID, "name", r.Name())
	return s.checkRepository(ctx, r)
}

// integrationFor returns the integration of the organization whose account owns the
// repository, or else the only one of its host; empty: there is none.
func (s *handlers) integrationFor(ctx context.Context, p *dashboard.Principal, r *action.Repository) (id string, err error) {
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	if err != nil {
		return "", err
	}
	owner, _, _ := strings.Cut(r.Path, "/")
	var of []string
	for i := range all {
		in := &all[i]
		if in.Owner() != "" || in.Status != action.IntegrationActive || !strings.EqualFold(s.Repositories.RepositoryHost(in), r.Host) {
			continue
		}
		if strings.EqualFold(in.AccountName, owner) {
			return in.ID, nil
		}
		of = append(of, in.ID)
	}
	if len(of) == 1 {
		return of[0], nil
	}
	return "", nil
}

// checkRepository reads a repository and records the result.
func (s *handlers) checkRepository(ctx context.Context, r action.Repository) (action.Repository, error) {
	fault := ""
	branch, err := s.Repositories.ReadRepository(ctx, &r)
	if err != nil {
		s.Log.InfoContext(ctx, "repository could not be read", "repository", r.ID, "name", r.Name(), "error", err)
		fault = render.Plain(s.Problem(ctx, err).Detail)
	}
	return s.Workspaces.CheckedRepository(ctx, r.Organization, r.ID, branch, fault, s.Now())
}

func (s *handlers) variableRoutes() {
	dashboard.Handle(s.Server, api.ListVariables, func(ctx context.Context, p *dashboard.Principal, in *api.OfWorkspace) (api.List[action.Variable], error) {
		workspace, err := s.workspaceID(ctx, p, in.Workspace)
		if err != nil {
			return api.List[action.Variable]{}, err
		}
		variables, err := s.Workspaces.ListVariables(ctx, p.Organization, workspace)
		return view.ListOf(variables), err
	})
	dashboard.Handle(s.Server, api.PutVariable, func(ctx context.Context, p *dashboard.Principal, in *api.ByVariableWith[api.NewVariable]) (action.Variable, error) {
		workspace, err := s.workspaceID(ctx, p, in.Body.Workspace)
		if err != nil {
			return action.Variable{}, err
		}
		sealed, err := s.sealVariable(p, workspace, in.Name, in.Body.Value)
		if err != nil {
			return action.Variable{}, err
		}
		if _, err := s.Workspaces.PutVariables(ctx, sealed); err != nil {
			return action.Variable{}, err
		}
		s.policyChanged(ctx, p, "variable set", "name", in.Name, "workspace", workspace)
		all, err := s.Workspaces.ListVariables(ctx, p.Organization, workspace)
		if i := slices.IndexFunc(all, func(v action.Variable) bool { return v.Name == in.Name && v.Workspace == workspace }); err == nil && i >= 0 {
			return all[i], nil
		}
		return action.Variable{}, cmp.Or(err, error(action.NewError("variable_not_found", in.Name)))
	})
	dashboard.HandleNone(s.Server, api.DeleteVariable, func(ctx context.Context, p *dashboard.Principal, in *api.DeleteVariableInput) error {
		workspace, err := s.workspaceID(ctx, p, in.Workspace)
		if err != nil {
			return err
		}
		if err := s.Workspaces.DeleteVariable(ctx, p.Organization, workspace, in.Name, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "variable deleted", "name", in.Name, "workspace", workspace)
		return nil
	})
}

// workspaceID returns the ID of a workspace by ID or name; empty: none.
func (s *handlers) workspaceID(ctx context.Context, p *dashboard.Principal, ref string) (string, error) {
	if ref == "" {
		return "", nil
	}
	w, err := s.Workspaces.Workspace(ctx, p.Organization, ref)
	return w.ID, err
}

func (s *handlers) sealVariable(p *dashboard.Principal, workspace, name, value string) (action.SealedVariable, error) {
	v := action.SealedVariable{Variable: action.Variable{Organization: p.Organization, Workspace: workspace, Name: name, UpdatedBy: p.By()}}
	if err := cmp.Or(v.Check(), action.CheckVariableValue("/value", value)); err != nil {
		return v, err
	}
	var err error
	if v.Sealed, err = s.Vault.Seal(action.VariableRef(p.Organization, workspace, name), []byte(value)); err != nil {
		return v, fmt.Errorf("sealing variable %s: %w", name, err)
	}
	return v, nil
}
