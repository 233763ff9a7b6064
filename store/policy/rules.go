package policy

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// CapabilityRow is a row of the table capabilities. It remains when the capability is
// revoked; the next capability of the group at the provider replaces it.
type CapabilityRow struct {
	bun.BaseModel `bun:"table:capabilities"`
	action.Capability
	RevokedBy string `bun:",nullzero"`
	RevokedAt *time.Time
}

// Event implements [history.Recorded].
func (r *CapabilityRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventCapability, Subject: r.Group + "/" + r.Provider, By: by}
}

// Snapshot implements [history.Recorded].
func (r *CapabilityRow) Snapshot() any {
	if r.RevokedAt != nil {
		return nil
	}
	return r.Capability
}

// PutCapability creates or replaces the capability of a group at a provider, and
// returns it as stored. An equal capability is not written again. A provider that is
// a connector must exist (ErrNotFound).
func (st *Store) PutCapability(ctx context.Context, c action.Capability) (stored action.Capability, err error) {
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		stored, err = st.putCapability(ctx, tx, c)
		return err
	})
	return stored, err
}

// CreateGroup creates the capabilities of a new group, all or none, and returns them
// as stored. ErrConflict if the group has a capability.
func (st *Store) CreateGroup(ctx context.Context, organization, group string, list []action.Capability) (stored []action.Capability, err error) {
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		exists, err := database.Exists(ctx, CapabilitiesQuery(tx, organization, group))
		if err == nil && exists {
			err = action.NewError("group_exists", group).WithField("/group")
		}
		if err != nil {
			return err
		}
		stored = make([]action.Capability, len(list))
		for i, c := range list {
			c.Organization, c.Group = organization, group
			if stored[i], err = st.putCapability(ctx, tx, c); err != nil {
				return err
			}
		}
		return nil
	})
	return stored, err
}

func (st *Store) putCapability(ctx context.Context, tx bun.Tx, c action.Capability) (action.Capability, error) {
	if err := c.Check(st.db.Now()); err != nil {
		return action.Capability{}, err
	}
	c.ExpiresAt, c.GrantedAt = database.TimestampFromPtr(c.ExpiresAt).Ptr(), database.NewTimestamp(st.db.Now()).Time
	if len(c.DeniedActions) == 0 {
		c.DeniedActions = nil
	}
	if err := checkSource(ctx, tx, c.Organization, c.Provider); err != nil {
		return action.Capability{}, err
	}
	r := CapabilityRow{Capability: c}
	err := history.Upsert(ctx, st.history, tx, &r, c.GrantedBy)
	return r.Capability, err
}

// DeleteCapability revokes the capability of a group at a provider, with effect on
// the next call; ErrNotFound. ErrConflict for the only capability of the default
// group.
func (st *Store) DeleteCapability(ctx context.Context, organization, group, provider, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := database.RowsOf[CapabilityRow](tx, organization).Where("group_id = ?", group).Where("provider = ?", provider).Where("revoked_at IS NULL")
		r, err := database.One[CapabilityRow](ctx, q,
			action.NewError("capability_not_found", group, provider))
		if err != nil {
			return err
		}
		if err := checkDefaultGroup(ctx, tx, &r); err != nil {
			return err
		}
		old := r
		r.RevokedBy, r.RevokedAt = by, database.NewTimestamp(st.db.Now()).Ptr()
		return st.history.Update(ctx, tx, &old, &r, by)
	})
}

// checkDefaultGroup refuses to remove the only capability of the default group.
func checkDefaultGroup(ctx context.Context, tx bun.Tx, r *CapabilityRow) error {
	settings, err := history.ReadSettings(ctx, tx, r.Organization)
	if err != nil || settings.DefaultGroup != r.Group {
		return err
	}
	others, err := database.Exists(ctx, CapabilitiesQuery(tx, r.Organization, r.Group).Where("provider <> ?", r.Provider))
	if err == nil && !others {
		err = action.NewError("default_group_empty", r.Group)
	}
	return err
}

// ListCapabilities returns the capabilities of all groups, or of one, by group and
// provider. It includes expired ones and omits revoked ones.
func (st *Store) ListCapabilities(ctx context.Context, organization, group string) ([]action.Capability, error) {
	return database.List[action.Capability](ctx, CapabilitiesQuery(st.db.Read, organization, group))
}

// CapabilitiesQuery is the query of [Store.ListCapabilities].
func CapabilitiesQuery(db bun.IDB, organization, group string) *bun.SelectQuery {
	q := database.RowsOf[CapabilityRow](db, organization).ExcludeColumn("revoked_by", "revoked_at")
	if group != "" {
		q = q.Where("group_id = ?", group)
	}
	return q.Where("revoked_at IS NULL").Order("group_id", "provider")
}

// checkSource refuses a connector that does not exist: one created later could have
// the id and other tools. The names of modules are unknown here; a rule for a name
// that is no module has no effect.
func checkSource(ctx context.Context, tx bun.Tx, organization, source string) error {
	id, ok := strings.CutPrefix(source, "connector:")
	if !ok {
		return nil
	}
	found, err := database.Exists(ctx, tx.NewSelect().Table("connectors").Where("organization_id = ?", organization).Where("id = ?", id))
	if err == nil && !found {
		err = database.ConnectorNotFound(id)
	}
	return err
}

// OverrideRow is a row of the table policy_overrides.
type OverrideRow struct {
	bun.BaseModel `bun:"table:policy_overrides"`
	action.Override
}

// Event implements [history.Recorded].
func (r *OverrideRow) Event(by string) action.PolicyEvent {
	subject := r.Key.String()
	if r.Automation != "" {
		subject = "automation/" + r.Automation + " " + subject
	}
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventMode, Subject: subject, By: by}
}

// Snapshot implements [history.Recorded].
func (r *OverrideRow) Snapshot() any { return r.Override }

// SetOverride creates or changes an override. The connector of its key must exist
// (ErrNotFound).
func (st *Store) SetOverride(ctx context.Context, o action.Override) error {
	if err := o.Check(); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, o.Organization, o.Key.Source); err != nil {
			return err
		}
		return st.PutOverride(ctx, tx, &o)
	})
}

// PutOverride creates or changes an override that the caller has checked, in its
// transaction.
func (st *Store) PutOverride(ctx context.Context, tx bun.Tx, o *action.Override) error {
	return history.Upsert(ctx, st.history, tx, &OverrideRow{Override: *o}, o.UpdatedBy)
}

// SourceModes are the modes of an organization that matter for one source.
type SourceModes struct {
	Tools map[string]action.Mode // overrides of single tools
	Wide  action.Mode            // of the source, else of everything; empty: none
	Whole bool                   // Wide is of the source
}

// Of returns the override of a tool, empty if it has none, and the mode that it has
// without one.
func (s SourceModes) Of(tool string, risk action.Risk) (own, base action.Mode) {
	return s.Tools[tool], cmp.Or(s.Wide, risk.DefaultMode())
}

// SourceModes reads the modes of a source in a transaction.
func (st *Store) SourceModes(ctx context.Context, tx bun.Tx, organization, source string) (s SourceModes, err error) {
	var rows []OverrideRow
	err = tx.NewSelect().Model(&rows).Where("organization_id = ?", organization).Where("automation_id = ''").
		Where("source_id IN (?, '*')", source).Order("source_id").Scan(ctx)
	if err != nil {
		return s, fmt.Errorf("reading the modes of %s: %w", source, err)
	}
	s.Tools = make(map[string]action.Mode, len(rows))
	for i := range rows {
		if key := rows[i].Key; key.Action == "*" { // "*" sorts before the source
			s.Wide, s.Whole = rows[i].Mode, key.Source == source
		} else {
			s.Tools[key.Action] = rows[i].Mode
		}
	}
	return s, nil
}

// SetTool sets an override, or removes it if o has no mode, in the caller's
// transaction. ErrNotFound if there is none to remove.
func (st *Store) SetTool(ctx context.Context, tx bun.Tx, o *action.Override) error {
	if o.Mode == "" {
		q := tx.NewSelect().Model(&OverrideRow{Override: *o}).WherePK()
		r, err := database.One[OverrideRow](ctx, q, action.NewError("override_not_found", o.Key))
		if err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, &r, o.UpdatedBy)
	}
	if err := o.Check(); err != nil {
		return err
	}
	return st.PutOverride(ctx, tx, o)
}

// UnsetOverride removes an override; ErrNotFound.
func (st *Store) UnsetOverride(ctx context.Context, organization, automation string, key action.Key, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		return st.SetTool(ctx, tx, &action.Override{Organization: organization, Automation: automation, Key: key, UpdatedBy: by})
	})
}

// OverridesSQL reads the version and the rows in one statement, so that they are
// consistent.
const OverridesSQL = `SELECT o.policy_version, p.automation_id, p.source_id, p.action, p.mode, p.updated_by, p.updated_at
FROM organizations o LEFT JOIN policy_overrides p ON p.organization_id = o.id
WHERE o.id = ?1 ORDER BY p.automation_id, p.source_id, p.action`

// Overrides returns all overrides of an organization, with the policy version.
func (st *Store) Overrides(ctx context.Context, organization string) (list []action.Override, version int64, err error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	rows, err := st.stmts.overrides.Query(ctx, st.db.Read, organization)
	if err != nil {
		return nil, 0, fmt.Errorf("reading policy: %w", err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		found = true
		var automation, source, act, mode, by database.NullString
		var when database.Timestamp
		if err := rows.Scan(&version, &automation, &source, &act, &mode, &by, &when); err != nil {
			return nil, 0, fmt.Errorf("reading policy: %w", err)
		}
		if mode == "" {
			continue // an organization without overrides
		}
		list = append(list, action.Override{
			Organization: organization, Automation: string(automation), Key: action.Key{Source: string(source), Action: string(act)},
			Mode: action.Mode(mode), UpdatedBy: string(by), UpdatedAt: when.Time,
		})
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("reading policy: %w", err)
	}
	if !found {
		return nil, 0, history.OrganizationNotFound()
	}
	return list, version, nil
}

// PolicyVersion returns the policy version of an organization by a prepared statement
// on one row. A snapshot with the same version is current.
func (st *Store) PolicyVersion(ctx context.Context, organization string) (version int64, err error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	err = st.stmts.version.One(ctx, st.db.Read, []any{organization}, []any{&version})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, history.OrganizationNotFound()
	}
	if err != nil {
		return 0, fmt.Errorf("reading the policy version: %w", err)
	}
	return version, nil
}

const versionSQL = `SELECT policy_version FROM organizations WHERE id = ?1`

// QuotaRow is a row of the table quotas.
type QuotaRow struct {
	bun.BaseModel `bun:"table:quotas"`
	action.Quota
	UpdatedAt time.Time
}

// Event implements [history.Recorded].
func (r *QuotaRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventQuota, Subject: r.Key.String(), By: by}
}

// Snapshot implements [history.Recorded].
func (r *QuotaRow) Snapshot() any { return r.Quota }

// SetQuota creates or changes the quota of a key and scope. The connector of the key
// must exist (ErrNotFound).
func (st *Store) SetQuota(ctx context.Context, q action.Quota) error {
	if err := q.Check(); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, q.Organization, q.Key.Source); err != nil {
			return err
		}
		return history.Upsert(ctx, st.history, tx, &QuotaRow{Quota: q}, q.UpdatedBy)
	})
}

// UnsetQuota removes a quota; ErrNotFound.
func (st *Store) UnsetQuota(ctx context.Context, organization string, key action.Key, per action.QuotaScope, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := tx.NewSelect().Model(&QuotaRow{Quota: action.Quota{Organization: organization, Key: key, Per: per}}).WherePK()
		r, err := database.One[QuotaRow](ctx, q, action.NewError("quota_not_found", per, key))
		if err != nil {
			return err
		}
		return st.history.Remove(ctx, tx, &r, by)
	})
}

// ListQuotas returns the quotas of an organization, by key and scope.
func (st *Store) ListQuotas(ctx context.Context, organization string) ([]action.Quota, error) {
	return database.List[action.Quota](ctx, QuotasQuery(st.db.Read, organization))
}

// QuotasQuery is the query of [Store.ListQuotas].
func QuotasQuery(db bun.IDB, organization string) *bun.SelectQuery {
	return database.RowsOf[QuotaRow](db, organization).ExcludeColumn("updated_at").Order("source_id", "action", "per")
}

const (
	// maxGates bounds the list of gate approvals.
	maxGates = 1000
	// defaultGateLifetime is the lifetime of an approval without an expiry. None is
	// unlimited, because every decision reads all open approvals.
	defaultGateLifetime = 30 * 24 * time.Hour
)

// GateRow is a row of the table gate_approvals.
type GateRow struct {
	bun.BaseModel `bun:"table:gate_approvals"`
	action.GateApproval
}

// Event implements [history.Recorded].
func (r *GateRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventGate, Subject: r.ID, By: by}
}

// Snapshot implements [history.Recorded].
func (r *GateRow) Snapshot() any { return r.GateApproval }

// ApproveGate approves a gate for a task of a group, and returns the approval with its
// id, time and expiry (default: in 30 days). The connector of an action must exist
// (ErrNotFound).
func (st *Store) ApproveGate(ctx context.Context, a action.GateApproval) (action.GateApproval, error) {
	keys, err := a.Check(st.db.Now())
	if err != nil {
		return action.GateApproval{}, err
	}
	r := &GateRow{GateApproval: a}
	if r.ID, err = database.NewID(); err != nil {
		return action.GateApproval{}, err
	}
	now := st.db.Now()
	r.ApprovedAt, r.ExpiresAt, r.RevokedAt = database.NewTimestamp(now).Time, database.TimestampFromPtr(a.ExpiresAt).Or(database.NewTimestamp(now.Add(defaultGateLifetime))).Ptr(), nil
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		for _, key := range keys {
			if err := checkSource(ctx, tx, a.Organization, key.Source); err != nil {
				return err
			}
		}
		return st.history.Create(ctx, tx, r, a.ApprovedBy, 0)
	})
	return r.GateApproval, err
}

// RevokeGate revokes an approval, with effect on the next call; ErrNotFound. Revoking
// it again changes nothing.
func (st *Store) RevokeGate(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := database.One[GateRow](ctx, database.RowsOf[GateRow](tx, organization).Where("id = ?", id),
			action.NewError("gate_not_found"))
		if err != nil || r.RevokedAt != nil {
			return err
		}
		old := r
		r.RevokedAt = database.NewTimestamp(st.db.Now()).Ptr()
		return st.history.Update(ctx, tx, &old, &r, by)
	})
}

// ListGates returns the newest 1000 gate approvals, newest first, optionally of one
// group or task. It includes revoked and expired ones, and does not report whether
// there are older ones.
func (st *Store) ListGates(ctx context.Context, organization, group, task string) ([]action.GateApproval, error) {
	return database.List[action.GateApproval](ctx, GatesQuery(st.db.Read, organization, group, task))
}

// GatesQuery is the query of [Store.ListGates].
func GatesQuery(db bun.IDB, organization, group, task string) *bun.SelectQuery {
	q := database.RowsOf[GateRow](db, organization)
	switch {
	case task != "" && group != "":
		// The expression on group_id makes the planner choose the index on tasks: a
		// group has many tasks, a task few groups.
		q = q.Where("task_id = ?", task).Where("group_id || '' = ?", group)
	case task != "":
		q = q.Where("task_id = ?", task)
	case group != "":
		q = q.Where("group_id = ?", group)
	}
	return q.Order("approved_at DESC", "id DESC").Limit(maxGates)
}

// OpenGatesQuery are those that are neither revoked nor expired.
func OpenGatesQuery(db bun.IDB, organization string, now database.Timestamp) *bun.SelectQuery {
	return database.RowsOf[GateRow](db, organization).
		Where("revoked_at IS NULL").Where("expires_at > ?", now)
}
