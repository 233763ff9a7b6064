package workspaces

import (
	"cmp"
	"context"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// Join gives a new session what it leaves to its parent or its workspace: the
// workspace and snapshot of the parent, and the repositories, model and provider of
// the workspace. ErrNotFound without the parent or the workspace.
func Join(ctx context.Context, tx bun.IDB, s *action.Session) error {
	if s.Parent != "" {
		parent, err := database.One[sessions.SessionRow](ctx, database.RowsOf[sessions.SessionRow](tx, s.Organization).Where("id = ?", s.Parent),
			action.NewError("session_not_found").WithField("/parent_session_id"))
		if err != nil {
			return err
		}
		s.Workspace, s.Snapshot = cmp.Or(s.Workspace, string(parent.Workspace)), cmp.Or(s.Snapshot, string(parent.Snapshot))
	}
	if s.Workspace == "" {
		if s.Branch != "" || s.BaseCommit != "" {
			return database.Invalid("/branch", "A branch and a base commit are of the first repository of a workspace. Name the workspace too.")
		}
		return s.Check()
	}
	w, err := database.One[WorkspaceRow](ctx, database.RowsOf[WorkspaceRow](tx, s.Organization).Where("? IN (id, name)", s.Workspace),
		action.NewError("workspace_not_found", s.Workspace).WithField("/workspace"))
	if err != nil {
		return err
	}
	s.Workspace, s.Model, s.Provider = w.ID, cmp.Or(s.Model, w.Model), cmp.Or(s.Provider, w.Provider)
	s.Repositories = nil
	for i := range w.Repositories {
		s.Repositories = append(s.Repositories, action.SessionRepository{WorkspaceRepository: w.Repositories[i]})
	}
	if s.Branch == "" && s.BaseCommit == "" {
		return s.Check()
	}
	if len(s.Repositories) == 0 {
		return database.Invalid("/branch", "The workspace has no repository, so the session can have no branch and no base commit. Leave them out.")
	}
	first := &s.Repositories[0]
	first.Branch, first.BaseCommit = cmp.Or(s.Branch, first.Branch), s.BaseCommit
	return s.Check()
}
