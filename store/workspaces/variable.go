package workspaces

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/envfile"
	"sallyport/store/database"
)

// maxVariables bounds the variables of an organization.
const maxVariables = 5000

// VariableRow is a row of the table variables.
type VariableRow struct {
	bun.BaseModel `bun:"table:variables"`
	action.Variable
	Sealed []byte
}

// Event implements [history.Recorded].
func (r *VariableRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventVariable, Subject: r.Name, By: by}
}

// Snapshot implements [history.Recorded]; it has no value.
func (r *VariableRow) Snapshot() any {
	return struct {
		Workspace string `json:"workspace_id,omitempty"`
		Version   int64  `json:"version"`
	}{r.Workspace, r.Version}
}

// PutVariables stores encrypted values of variables in the name of their UpdatedBy,
// all or none, and returns them. ErrNotFound without the workspace.
func (st *Store) PutVariables(ctx context.Context, list ...action.SealedVariable) (stored []action.Variable, err error) {
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		stored, err = st.PutVariablesIn(ctx, tx, list)
		return err
	})
	return stored, err
}

// PutVariablesIn is [Store.PutVariables] within a transaction.
func (st *Store) PutVariablesIn(ctx context.Context, tx bun.Tx, list []action.SealedVariable) ([]action.Variable, error) {
	stored := make([]action.Variable, 0, len(list))
	for i := range list {
		r := &VariableRow{Variable: list[i].Variable, Sealed: list[i].Sealed}
		if err := r.Check(); err != nil {
			return nil, err
		}
		if r.Workspace != "" {
			if _, err := readWorkspace(ctx, tx, r.Organization, r.Workspace); err != nil {
				return nil, err
			}
		}
		old, err := database.Optional[VariableRow](ctx, tx.NewSelect().Model(r).WherePK())
		if err != nil {
			return nil, err
		}
		by := r.UpdatedBy
		if old == nil {
			r.Version, r.CreatedBy = 1, by
			err = st.history.Create(ctx, tx, r, by, maxVariables)
		} else {
			r.Version, r.CreatedBy, r.CreatedAt = old.Version+1, old.CreatedBy, old.CreatedAt
			err = st.history.Update(ctx, tx, old, r, by)
		}
		if err != nil {
			return nil, err
		}
		stored = append(stored, r.Variable)
	}
	return stored, nil
}

// ListVariables returns the variables that a workspace gets, by name: its own, and
// those of the organization that it has no own value for. Without a workspace, those
// of the organization.
func (st *Store) ListVariables(ctx context.Context, organization, workspace string) ([]action.Variable, error) {
	list, err := st.SealedVariables(ctx, organization, workspace)
	return database.Values(list, func(s *action.SealedVariable) action.Variable { return s.Variable }), err
}

// SealedVariables is [Store.ListVariables] with the encrypted values.
func (st *Store) SealedVariables(ctx context.Context, organization, workspace string) ([]action.SealedVariable, error) {
	var files []envfile.File
	if workspace != "" {
		w, err := readWorkspace(ctx, st.db.Read, organization, workspace)
		if err != nil {
			return nil, err
		}
		files = declaredFiles(w.EnvFiles)
	}
	rows, err := database.List[VariableRow](ctx, database.RowsOf[VariableRow](st.db.Read, organization).
		Where("workspace_id IN ('', ?)", workspace).Order("name", "workspace_id"))
	if err != nil {
		return nil, err
	}
	var list []action.SealedVariable
	for i := range rows {
		v := action.SealedVariable{Variable: rows[i].Variable, Sealed: rows[i].Sealed}
		v.Files = []string{}
		for j := range files {
			if slices.ContainsFunc(files[j].Keys, func(k envfile.Key) bool { return k.Key == v.Name }) {
				v.Files = append(v.Files, files[j].Name())
			}
		}
		if n := len(list); n > 0 && list[n-1].Name == v.Name { // the workspace's own follows
			list[n-1] = v
			continue
		}
		list = append(list, v)
	}
	return list, nil
}

// DeleteVariable removes a variable; ErrNotFound.
func (st *Store) DeleteVariable(ctx context.Context, organization, workspace, name, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := database.One[VariableRow](ctx, database.RowsOf[VariableRow](tx, organization).Where("workspace_id = ?", workspace).Where("name = ?", name),
			action.NewError("variable_not_found", name))
		if err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, &r, by)
	})
}

// GaveVariables records that a session got the values of variables.
func (st *Store) GaveVariables(ctx context.Context, s *action.Session, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		e := action.PolicyEvent{Organization: s.Organization, Kind: action.EventVariable, Subject: s.ID, By: s.ID}
		return st.history.RecordChange(ctx, tx, e, nil, map[string]any{"given": names, "workspace_id": s.Workspace})
	})
}
