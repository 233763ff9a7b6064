package workspaces

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/envfile"
	"sallyport/store/database"
	"sallyport/store/history"
	"sallyport/store/sessions"
)

// maxWorkspaces bounds the workspaces of an organization, which lists return whole.
const maxWorkspaces = 1000

// WorkspaceRow is a row of the table workspaces.
type WorkspaceRow struct {
	bun.BaseModel `bun:"table:workspaces"`
	action.Workspace
}

// Event implements [history.Recorded].
func (r *WorkspaceRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventWorkspace, Subject: r.ID, By: by}
}

// maxRecorded bounds the instructions that a history event holds, in bytes.
const maxRecorded = 2000

// Snapshot truncates long instructions and adds their hash, which shows whether the
// rest changed.
func (r *WorkspaceRow) Snapshot() any {
	w := r.Workspace
	sum := ""
	if w.Instructions != "" {
		hash := sha256.Sum256([]byte(w.Instructions))
		sum = hex.EncodeToString(hash[:])
		w.Instructions = strings.ToValidUTF8(w.Instructions[:min(len(w.Instructions), maxRecorded)], "")
	}
	return struct {
		action.Workspace
		Hash string `json:"instructions_sha256,omitempty"`
	}{w, sum}
}

// CreateWorkspace inserts a workspace and returns it as stored. An empty ID is
// generated. ErrInvalid with the field; ErrConflict if the name is taken.
func (st *Store) CreateWorkspace(ctx context.Context, w action.Workspace) (action.Workspace, error) {
	r := &WorkspaceRow{Workspace: w}
	if err := database.EnsureID(&r.ID); err != nil {
		return action.Workspace{}, err
	}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := r.check(ctx, tx); err != nil {
			return err
		}
		return st.history.Create(ctx, tx, r, r.CreatedBy, maxWorkspaces)
	})
	if err != nil {
		return action.Workspace{}, err
	}
	return st.Workspace(ctx, w.Organization, r.ID)
}

// check validates the row, fills in its repositories' host and path, and refuses a
// name that is another's name or ID.
func (r *WorkspaceRow) check(ctx context.Context, tx bun.Tx) error {
	if len(r.Repositories) == 0 {
		r.Repositories = nil // the column has no empty list
	}
	if err := r.findRepositories(ctx, tx); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	other, err := database.Exists(ctx, tx.NewSelect().Table("workspaces").ColumnExpr("1").Where("organization_id = ?", r.Organization).
		Where("? IN (name, id) AND id <> ? OR name = ? AND id <> ?", r.Name, r.ID, r.ID, r.ID))
	if err != nil {
		return fmt.Errorf("reading other workspaces: %w", err)
	}
	if other {
		return action.NewError("workspace_exists", r.Name).WithField("/name")
	}
	return nil
}

func (r *WorkspaceRow) findRepositories(ctx context.Context, tx bun.Tx) error {
	for i := range r.Repositories {
		entry := &r.Repositories[i]
		found, err := readRepository(ctx, tx, r.Organization, entry.Repository)
		if err != nil {
			var known *action.Error
			if errors.As(err, &known) {
				return known.WithField(fmt.Sprintf("/repositories/%d", i))
			}
			return err
		}
		entry.Repository, entry.Host, entry.Path = found.ID, found.Host, found.Path
		if slices.ContainsFunc(r.Repositories[:i], func(e action.WorkspaceRepository) bool { return e.Repository == entry.Repository }) {
			return database.Invalid(fmt.Sprintf("/repositories/%d", i), "This repository is listed twice. Name each once.")
		}
	}
	return nil
}

// Workspace returns a workspace by its ID or name, with its state; ErrNotFound.
func (st *Store) Workspace(ctx context.Context, organization, ref string) (action.Workspace, error) {
	r, err := database.One[WorkspaceRow](ctx, database.RowsOf[WorkspaceRow](st.db.Read, organization).Where("? IN (id, name)", ref), notFound(ref))
	if err != nil {
		return action.Workspace{}, err
	}
	list := []action.Workspace{r.Workspace}
	return list[0], st.states(ctx, organization, &list[0])
}

func readWorkspace(ctx context.Context, db bun.IDB, organization, id string) (*WorkspaceRow, error) {
	r, err := database.One[WorkspaceRow](ctx, database.RowsOf[WorkspaceRow](db, organization).Where("id = ?", id), notFound(id))
	return &r, err
}

func notFound(ref string) error { return action.NewError("workspace_not_found", ref) }

// ListWorkspaces returns the organization's workspaces by name, with their states and
// without their instructions.
func (st *Store) ListWorkspaces(ctx context.Context, organization string) ([]action.Workspace, error) {
	all, err := database.List[action.Workspace](ctx, database.RowsOf[WorkspaceRow](st.db.Read, organization).ExcludeColumn("instructions").Order("name"))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b action.Workspace) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	each := make([]*action.Workspace, len(all))
	for i := range all {
		each[i] = &all[i]
	}
	return all, st.states(ctx, organization, each...)
}

// UpdateWorkspace writes what people can change of a workspace, and returns the row.
// ErrNotFound; ErrInvalid with the field; ErrConflict if the name is taken.
func (st *Store) UpdateWorkspace(ctx context.Context, w action.Workspace, by string) (action.Workspace, error) {
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := readWorkspace(ctx, tx, w.Organization, w.ID)
		if err != nil {
			return err
		}
		r := *old
		r.Name, r.Repositories, r.Instructions, r.Model, r.SmallModel = w.Name, w.Repositories, w.Instructions, w.Model, w.SmallModel
		r.Provider, r.Size, r.IdleSeconds, r.LifeSeconds = w.Provider, w.Size, w.IdleSeconds, w.LifeSeconds
		r.SetupHosts, r.WorkHosts = w.SetupHosts, w.WorkHosts
		if err := r.check(ctx, tx); err != nil {
			return err
		}
		return st.history.Update(ctx, tx, old, &r, by)
	})
	if err != nil {
		return action.Workspace{}, err
	}
	return st.Workspace(ctx, w.Organization, w.ID)
}

// DeleteWorkspace deletes a workspace and its variables. ErrNotFound; ErrConflict while
// a session of it is live or an automation uses it.
func (st *Store) DeleteWorkspace(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readWorkspace(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		now := database.NewTimestamp(st.db.Now())
		live, err := database.Exists(ctx, sessions.WhereLive(liveSessions(tx, organization), now).Where("workspace_id = ?", id))
		if err != nil {
			return fmt.Errorf("reading the sessions of workspace %s: %w", id, err)
		}
		automated, err := database.Exists(ctx, tx.NewSelect().Table("automations").ColumnExpr("1").Where("organization_id = ?", organization).Where("workspace_id = ?", id))
		if err != nil {
			return fmt.Errorf("reading the automations of workspace %s: %w", id, err)
		}
		switch {
		case live:
			return action.NewError("workspace_in_use", r.Name, "a live session")
		case automated:
			return action.NewError("workspace_in_use", r.Name, "an automation")
		}
		if _, err := history.RemoveAll[VariableRow](ctx, st.history, tx, organization, "workspace_id", id, by); err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, r, by)
	})
}

func liveSessions(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Table("sessions").ColumnExpr("1").Where("organization_id = ?", organization).Where("completed_at IS NULL")
}

// SaveSetup writes what a setup session saved in the session's workspace: column
// service_commands, env_files or snapshot_id.
func (st *Store) SaveSetup(ctx context.Context, tx bun.IDB, s *action.Session, change func(*action.Workspace), now time.Time) (action.Workspace, error) {
	if s.Workspace == "" {
		return action.Workspace{}, action.NewError("workspace_required")
	}
	old, err := readWorkspace(ctx, tx, s.Organization, s.Workspace)
	if err != nil {
		return action.Workspace{}, err
	}
	r := *old
	change(&r.Workspace)
	r.SetUpBy, r.SetUpAt = s.ID, database.NewTimestamp(now).Ptr()
	r.UpdatedBy, r.UpdatedAt = s.ID, database.NewTimestamp(now).Time
	if _, err := tx.NewUpdate().Model(&r).Column("service_commands", "env_files", "snapshot_id", "set_up_by", "set_up_at", "updated_by", "updated_at").WherePK().Exec(ctx); err != nil {
		return action.Workspace{}, fmt.Errorf("writing workspace %s: %w", r.ID, err)
	}
	return r.Workspace, st.history.RecordChange(ctx, tx, r.Event(s.ID), old.Snapshot(), r.Snapshot())
}

// states sets the state of workspaces of an organization.
func (st *Store) states(ctx context.Context, organization string, list ...*action.Workspace) error {
	if len(list) == 0 {
		return nil
	}
	facts, err := st.readFacts(ctx, organization, list)
	if err != nil {
		return err
	}
	for _, w := range list {
		if w.Repositories == nil {
			w.Repositories = []action.WorkspaceRepository{}
		}
		w.Problems = facts.problems(w)
		switch {
		case facts.inSetup[w.ID]:
			w.State = action.InSetup
		case len(w.Problems) > 0:
			w.State = action.NeedsAttention
		case w.SetUpAt != nil:
			w.State = action.Ready
		default:
			w.State = action.NotSetUp
		}
	}
	return nil
}

// facts are what the states of workspaces follow from.
type facts struct {
	repositories map[string]action.Repository
	variables    map[string]map[string]bool // names by workspace; "": the organization's
	inSetup      map[string]bool
}

func (st *Store) readFacts(ctx context.Context, organization string, list []*action.Workspace) (facts, error) {
	f := facts{repositories: map[string]action.Repository{}, variables: map[string]map[string]bool{}, inSetup: map[string]bool{}}
	var ids []string
	for _, w := range list {
		for i := range w.Repositories {
			ids = append(ids, w.Repositories[i].Repository)
		}
	}
	slices.Sort(ids)
	for chunk := range slices.Chunk(slices.Compact(ids), database.MaxIDsPerStatement) {
		rows, err := database.List[RepositoryRow](ctx, database.RowsOf[RepositoryRow](st.db.Read, organization).Where("id IN (?)", bun.List(chunk)))
		if err != nil {
			return f, err
		}
		if err := st.repositoryStates(ctx, organization, rows); err != nil {
			return f, err
		}
		for i := range rows {
			f.repositories[rows[i].ID] = rows[i].Repository
		}
	}
	names, err := database.List[VariableRow](ctx, database.RowsOf[VariableRow](st.db.Read, organization).Column("workspace_id", "name"))
	if err != nil {
		return f, err
	}
	for i := range names {
		v := &names[i]
		if f.variables[v.Workspace] == nil {
			f.variables[v.Workspace] = map[string]bool{}
		}
		f.variables[v.Workspace][v.Name] = true
	}
	setups := sessions.WhereLive(st.db.Read.NewSelect().Table("sessions").Column("workspace_id").Where("organization_id = ?", organization).
		Where("completed_at IS NULL").Where("workspace_id IS NOT NULL").Where("type = ?", string(action.TypeSetup)), database.NewTimestamp(st.db.Now()))
	if len(list) == 1 {
		setups = setups.Where("workspace_id = ?", list[0].ID)
	}
	busy, err := database.List[string](ctx, setups)
	for _, id := range busy {
		f.inSetup[id] = true
	}
	return f, err
}

// problems returns what needs attention in a workspace.
func (f *facts) problems(w *action.Workspace) (problems []string) {
	for i := range w.Repositories {
		entry := &w.Repositories[i]
		r := f.repositories[entry.Repository]
		switch r.Status {
		case action.RepositoryDisconnected:
			problems = append(problems, fmt.Sprintf("The integration of %s/%s is disconnected. Connect it again.", entry.Host, entry.Path))
		case action.RepositoryUnreadable:
			problems = append(problems, fmt.Sprintf("%s/%s cannot be read: %s", entry.Host, entry.Path, r.Fault))
		case action.RepositoryReadable, action.RepositoryUnchecked:
		}
	}
	var missing []string
	for _, file := range declaredFiles(w.EnvFiles) {
		for _, k := range file.Keys {
			if k.Required && !f.variables[w.ID][k.Key] && !f.variables[""][k.Key] {
				missing = append(missing, k.Key)
			}
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		problems = append(problems, fmt.Sprintf("Required variables have no value: %s. Enter them.", strings.Join(slices.Compact(missing), ", ")))
	}
	return problems
}

// declaredFiles returns the environment files that a setup session saved.
func declaredFiles(raw json.RawMessage) []envfile.File {
	if len(raw) == 0 {
		return nil
	}
	files, err := envfile.Parse(raw)
	if err != nil {
		return nil // it was validated when it was saved
	}
	return files
}
