package workspaces

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/connect"
	"sallyport/store/database"
)

// maxRepositories bounds the repositories of an organization.
const maxRepositories = 20_000

// RepositoryRow is a row of the table repositories.
type RepositoryRow struct {
	bun.BaseModel `bun:"table:repositories"`
	action.Repository
	PathKey string // path in lower case, because forges ignore case
}

// Event implements [history.Recorded].
func (r *RepositoryRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventRepository, Subject: r.ID, By: by}
}

// Snapshot implements [history.Recorded].
func (r *RepositoryRow) Snapshot() any {
	return struct {
		Host        string `json:"host"`
		Path        string `json:"path"`
		Integration string `json:"integration_id,omitempty"`
	}{r.Host, r.Path, r.Integration}
}

func newRepositoryRow(r action.Repository) *RepositoryRow {
	return &RepositoryRow{Repository: r, PathKey: strings.ToLower(r.Path)}
}

// AddRepository adds a repository, or changes the integration of the one with its host
// and path, and returns it as stored.
func (st *Store) AddRepository(ctx context.Context, repository action.Repository, by string) (action.Repository, error) {
	r := newRepositoryRow(repository)
	if err := cmp.Or(r.Check(), database.EnsureID(&r.ID)); err != nil {
		return action.Repository{}, err
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkIntegration(ctx, tx, r.Organization, r.Integration); err != nil {
			return err
		}
		old, err := findRepository(ctx, tx, r)
		if err != nil {
			return err
		}
		if old == nil {
			return st.history.Create(ctx, tx, r, by, maxRepositories)
		}
		changed := *old
		changed.Integration = r.Integration
		*r = changed
		return st.history.Update(ctx, tx, old, r, by)
	})
	if err != nil {
		return action.Repository{}, err
	}
	return st.Repository(ctx, r.Organization, r.ID)
}

// checkIntegration refuses an integration that is not the organization's.
func checkIntegration(ctx context.Context, tx bun.IDB, organization, id string) error {
	if id == "" {
		return nil
	}
	known, err := database.Exists(ctx, connect.LiveIntegrations(tx, organization).Where("id = ?", id).Where("holder = ''"))
	if err != nil {
		return fmt.Errorf("reading integration %s: %w", id, err)
	}
	if !known {
		return action.NewError("integration_not_found").WithField("/integration_id")
	}
	return nil
}

func findRepository(ctx context.Context, db bun.IDB, r *RepositoryRow) (*RepositoryRow, error) {
	return database.Optional[RepositoryRow](ctx, database.RowsOf[RepositoryRow](db, r.Organization).Where("host = ?", r.Host).Where("path_key = ?", r.PathKey))
}

func readRepository(ctx context.Context, db bun.IDB, organization, id string) (*RepositoryRow, error) {
	r, err := database.One[RepositoryRow](ctx, database.RowsOf[RepositoryRow](db, organization).Where("id = ?", id), action.NewError("unknown_repository", id))
	return &r, err
}

// Repository returns a repository with its status and workspaces; ErrNotFound.
func (st *Store) Repository(ctx context.Context, organization, id string) (action.Repository, error) {
	r, err := readRepository(ctx, st.db.Read, organization, id)
	if err != nil {
		return action.Repository{}, err
	}
	rows := []RepositoryRow{*r}
	err = st.describe(ctx, organization, rows)
	return rows[0].Repository, err
}

// RepositoryAt returns the repository of a host and path; ErrNotFound.
func (st *Store) RepositoryAt(ctx context.Context, organization, host, path string) (action.Repository, error) {
	at := newRepositoryRow(action.Repository{Organization: organization, Host: host, Path: path})
	r, err := findRepository(ctx, st.db.Read, at)
	if err == nil && r == nil {
		err = action.NewError("unknown_repository", at.Name())
	}
	if err != nil {
		return action.Repository{}, err
	}
	rows := []RepositoryRow{*r}
	err = st.describe(ctx, organization, rows)
	return rows[0].Repository, err
}

// ListRepositories returns a page of repositories, the last added first.
func (st *Store) ListRepositories(ctx context.Context, f action.RepositoryFilter) (action.Page[action.Repository], error) {
	used := []string{}
	if f.Workspace != "" {
		w, err := st.Workspace(ctx, f.Organization, f.Workspace)
		if err != nil {
			return action.Page[action.Repository]{}, err
		}
		for i := range w.Repositories {
			used = append(used, w.Repositories[i].Repository)
		}
	}
	match := func(q *bun.SelectQuery) *bun.SelectQuery {
		q = q.Where("organization_id = ?", f.Organization)
		if f.Integration != "" {
			q = q.Where("integration_id = ?", f.Integration)
		}
		if f.Workspace != "" {
			q = q.Where("id IN (?)", bun.List(append(used, "")))
		}
		if f.Text != "" {
			q = q.Where("host || '/' || path_key LIKE ? ESCAPE '!'", "%"+likeEscaper.Replace(strings.ToLower(f.Text))+"%")
		}
		return q
	}
	page, err := database.ListQuery[RepositoryRow, RepositoryRow]{
		Cursor: f.Cursor, Limit: f.Limit, All: match(st.db.Read.NewSelect().Table("repositories")),
		Rows: func(after database.Cursor, limit int) *bun.SelectQuery {
			return database.NewestFirst(match(st.db.Read.NewSelect().Model((*RepositoryRow)(nil))), after, limit)
		},
		Value: func(r *RepositoryRow) RepositoryRow { return *r },
		Position: func(r *RepositoryRow) database.Cursor {
			return database.Cursor{Time: database.NewTimestamp(r.CreatedAt), ID: r.ID}
		},
	}.Page(ctx)
	out := action.Page[action.Repository]{Next: page.Next, Total: page.Total, Capped: page.Capped}
	if err != nil {
		return out, err
	}
	err = st.describe(ctx, f.Organization, page.Items)
	out.Items = database.Values(page.Items, func(r *RepositoryRow) action.Repository { return r.Repository })
	return out, err
}

var likeEscaper = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// describe sets the status of repositories and the workspaces that use them.
func (st *Store) describe(ctx context.Context, organization string, rows []RepositoryRow) error {
	if len(rows) == 0 {
		return nil
	}
	if err := st.repositoryStates(ctx, organization, rows); err != nil {
		return err
	}
	all, err := database.List[WorkspaceRow](ctx, database.RowsOf[WorkspaceRow](st.db.Read, organization).Column("id", "name", "repositories").
		Where("repositories IS NOT NULL").Order("name"))
	if err != nil {
		return err
	}
	users := map[string][]action.NamedID{}
	for i := range all {
		for _, entry := range all[i].Repositories {
			users[entry.Repository] = append(users[entry.Repository], action.NamedID{ID: all[i].ID, Name: all[i].Name})
		}
	}
	for i := range rows {
		rows[i].Workspaces = append([]action.NamedID{}, users[rows[i].ID]...)
	}
	return nil
}

// repositoryStates sets the status of repositories.
func (st *Store) repositoryStates(ctx context.Context, organization string, rows []RepositoryRow) error {
	live, err := database.List[action.Integration](ctx, connect.LiveIntegrations(st.db.Read, organization).Column("id", "status"))
	if err != nil {
		return err
	}
	active := map[string]bool{}
	for i := range live {
		active[live[i].ID] = live[i].Status == action.IntegrationActive
	}
	for i := range rows {
		r := &rows[i].Repository
		switch {
		case r.Integration != "" && !active[r.Integration]:
			r.Status = action.RepositoryDisconnected
		case r.Fault != "":
			r.Status = action.RepositoryUnreadable
		case r.CheckedAt == nil:
			r.Status = action.RepositoryUnchecked
		default:
			r.Status = action.RepositoryReadable
		}
	}
	return nil
}

// FaultUnlisted is the fault of repositories that their integration no longer lists.
const FaultUnlisted = "Its integration no longer lists it. Give the integration access to it at the service."

// SyncRepositories stores the repositories that an integration can read, in the name of
// by, and returns how many are new. Those that it could read before have a fault.
// Repositories of another integration that works keep it.
func (st *Store) SyncRepositories(ctx context.Context, organization, integration string, list []action.Repository, by string) (added int, err error) {
	// The last added come first in lists: the first in the alphabet is added last.
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b action.Repository) int { return strings.Compare(b.Path, a.Path) })
	now := database.NewTimestamp(st.db.Now())
	for chunk := range slices.Chunk(list, database.MaxIDsPerStatement) {
		n := 0
		err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
			n = 0
			if err := checkIntegration(ctx, tx, organization, integration); err != nil {
				return err
			}
			rows := make([]*RepositoryRow, 0, len(chunk))
			for _, repository := range chunk {
				r := newRepositoryRow(repository)
				if r.Check() != nil {
					continue // a name that no workspace could use
				}
				r.Organization, r.Integration, r.CreatedBy, r.CreatedAt, r.CheckedAt = organization, integration, by, now.Time, now.Ptr()
				if err := database.EnsureID(&r.ID); err != nil {
					return err
				}
				rows = append(rows, r)
			}
			if len(rows) == 0 {
				return nil
			}
			before, err := tx.NewSelect().Table("repositories").Where("organization_id = ?", organization).Count(ctx)
			if err != nil {
				return fmt.Errorf("counting repositories: %w", err)
			}
			if int(before)+len(rows) > maxRepositories {
				return action.NewError("too_many_repositories", maxRepositories)
			}
			_, err = tx.NewInsert().Model(&rows).On("CONFLICT (organization_id, host, path_key) DO UPDATE").
				Set("path = EXCLUDED.path, default_branch = EXCLUDED.default_branch, private = EXCLUDED.private, fault = NULL, checked_at = EXCLUDED.checked_at, integration_id = EXCLUDED.integration_id").
				Where("repository_row.integration_id IS NULL OR repository_row.integration_id = EXCLUDED.integration_id OR NOT EXISTS (?)",
					tx.NewSelect().TableExpr("integrations AS i").ColumnExpr("1").Where("i.organization_id = repository_row.organization_id").
						Where("i.id = repository_row.integration_id").Where("i.status = 'active'")).Returning("NULL").Exec(ctx)
			if err != nil {
				return fmt.Errorf("writing repositories: %w", err)
			}
			after, err := tx.NewSelect().Table("repositories").Where("organization_id = ?", organization).Count(ctx)
			n = int(after - before)
			return err
		})
		if err != nil {
			return added, err
		}
		added += n
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewUpdate().Table("repositories").Set("fault = ?", FaultUnlisted).Set("checked_at = ?", now).
			Where("organization_id = ?", organization).Where("integration_id = ?", integration).Where("checked_at < ?", now).Exec(ctx)
		return err
	})
	if err != nil {
		return added, fmt.Errorf("marking unlisted repositories: %w", err)
	}
	return added, nil
}

// CheckedRepository records whether a repository could be read, and its default
// branch; fault is empty if it could. It returns the repository.
func (st *Store) CheckedRepository(ctx context.Context, organization, id, branch, fault string, at time.Time) (action.Repository, error) {
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readRepository(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		r.Fault, r.CheckedAt, r.DefaultBranch = fault, database.NewTimestamp(at).Ptr(), cmp.Or(branch, r.DefaultBranch)
		_, err = tx.NewUpdate().Model(r).Column("fault", "checked_at", "default_branch").WherePK().Exec(ctx)
		return err
	})
	if err != nil {
		return action.Repository{}, err
	}
	return st.Repository(ctx, organization, id)
}

// DeleteRepository removes a repository. ErrNotFound; ErrConflict while a workspace
// uses it.
func (st *Store) DeleteRepository(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readRepository(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		all, err := database.List[WorkspaceRow](ctx, database.RowsOf[WorkspaceRow](tx, organization).Column("name", "repositories").Where("repositories IS NOT NULL").Order("name"))
		if err != nil {
			return err
		}
		for i := range all {
			if slices.ContainsFunc(all[i].Repositories, func(e action.WorkspaceRepository) bool { return e.Repository == id }) {
				return action.NewError("repository_in_use", r.Name(), all[i].Name)
			}
		}
		return st.history.Remove(ctx, tx, r, by)
	})
}
