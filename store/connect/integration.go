package connect

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// IntegrationRow is a row of the table integrations.
type IntegrationRow struct {
	bun.BaseModel `bun:"table:integrations"`
	action.Integration
	Holder string // the Owner, as a column for queries
}

// newIntegrationRow returns the row of a new, active integration.
func newIntegrationRow(in action.Integration, now database.Timestamp) *IntegrationRow {
	r := &IntegrationRow{Integration: in, Holder: in.Owner()}
	r.Status, r.Reason, r.Revision, r.Version = action.IntegrationActive, "", 1, in.Version+1
	r.ExpiresAt, r.CreatedAt, r.UpdatedAt = database.TimestampFromPtr(in.ExpiresAt).Ptr(), database.NewTimestamp(in.CreatedAt).Or(now).Time, now.Time
	if len(r.Settings) == 0 {
		r.Settings = nil
	}
	if len(r.Scopes) == 0 {
		r.Scopes = nil
	}
	return r
}

// withoutCredential returns the integration without its credential.
func (r *IntegrationRow) withoutCredential() action.Integration {
	in := r.Integration
	in.Sealed = nil
	return in
}

// Event implements [history.Recorded].
func (r *IntegrationRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventIntegration, Subject: r.ID, By: by}
}

// Snapshot implements [history.Recorded]. Every member reads history, so it hides the
// details of an integration that is not visible to all.
func (r *IntegrationRow) Snapshot() any {
	switch {
	case r == nil:
		return nil
	case r.Owner() == "":
		return r.withoutCredential()
	}
	return struct {
		Provider   string                   `json:"provider"`
		Kind       action.IntegrationKind   `json:"kind"`
		Status     action.IntegrationStatus `json:"status"`
		Visibility action.Visibility        `json:"visibility"`
	}{r.Provider, r.Kind, r.Status, r.Visibility}
}

// differs reports whether calls would behave differently than with old.
func (r *IntegrationRow) differs(old *IntegrationRow) bool {
	return r.Kind != old.Kind || r.Broker != old.Broker || r.BaseURL != old.BaseURL || r.Account != old.Account ||
		!bytes.Equal(r.Settings, old.Settings) || r.TimeoutSeconds != old.TimeoutSeconds
}

// recordIntegrationChange records a change that affects decisions, and increments the
// policy and catalog versions.
func (st *Store) recordIntegrationChange(ctx context.Context, tx bun.Tx, old, r *IntegrationRow, by string) error {
	if err := st.history.RecordPolicyChange(ctx, tx, r.Event(by), old.Snapshot(), r.Snapshot()); err != nil {
		return err
	}
	return history.BumpCatalogVersion(ctx, tx, r.Organization)
}

// Integrations returns all integrations of an organization that are not deleted, also
// private ones, oldest first. It is for the catalog and for policy.
func (st *Store) Integrations(ctx context.Context, organization string) ([]action.Integration, error) {
	return database.List[action.Integration](ctx, LiveIntegrations(st.db.Read, organization))
}

// LiveIntegrations selects the integrations that are not deleted, without credentials.
func LiveIntegrations(db bun.IDB, organization string) *bun.SelectQuery {
	return database.RowsOf[IntegrationRow](db, organization).ExcludeColumn("sealed", "holder").Where("status <> 'deleted'").Order("created_at", "id")
}

// VisibleIntegrations selects the live integrations that a user may see.
func VisibleIntegrations(db bun.IDB, organization, viewer string) *bun.SelectQuery {
	return LiveIntegrations(db, organization).Where("holder IN ('', ?)", viewer)
}

// IntegrationOf returns the integration of an account at a provider, even a deleted
// one, with its credential; ErrNotFound. holder is its Owner, and own selects user
// connections.
func (st *Store) IntegrationOf(ctx context.Context, organization, provider, holder, account string, own bool) (action.Integration, error) {
	return database.One[action.Integration](ctx, IntegrationQuery(st.db.Read, organization, provider, holder, account, own), integrationNotFound())
}

// IntegrationQuery is the query of [Store.IntegrationOf].
func IntegrationQuery(db bun.IDB, organization, provider, holder, account string, own bool) *bun.SelectQuery {
	q := database.RowsOf[IntegrationRow](db, organization).ExcludeColumn("holder").Where("provider = ?", provider).
		Where("holder = ?", holder).Where("account = ?", account)
	if own {
		return q.Where("user_id IS NOT NULL")
	}
	return q.Where("user_id IS NULL")
}

// IntegrationCredential returns an integration with its credential; ErrNotFound, also
// if it is deleted.
func (st *Store) IntegrationCredential(ctx context.Context, organization, id string) (action.Integration, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r, err := readIntegration(ctx, st.db.Read, organization, id)
	if err != nil {
		return action.Integration{}, err
	}
	return r.Integration, nil
}

// readIntegration reads an integration that is not deleted; ErrNotFound.
func readIntegration(ctx context.Context, db bun.IDB, organization, id string) (*IntegrationRow, error) {
	r, err := findIntegration(ctx, db, organization, id)
	if err == nil && (r == nil || r.Status == action.IntegrationDeleted) {
		err = integrationNotFound()
	}
	return r, err
}

// findIntegration reads an integration, deleted or not; nil if there is none.
func findIntegration(ctx context.Context, db bun.IDB, organization, id string) (*IntegrationRow, error) {
	return database.Optional[IntegrationRow](ctx, database.RowsOf[IntegrationRow](db, organization).Where("id = ?", id))
}

func integrationNotFound() error {
	return action.NewError("integration_not_found")
}

// IntegrationsByAccount returns the integrations of an account at a provider that are
// not deleted, of all organizations, also private ones and user connections, without
// credentials.
func (st *Store) IntegrationsByAccount(ctx context.Context, provider, account string) ([]action.Integration, error) {
	return database.List[action.Integration](ctx, AccountIntegrationsQuery(st.db.Read, provider, account))
}

// AccountIntegrationsQuery is the query of [Store.IntegrationsByAccount].
func AccountIntegrationsQuery(db bun.IDB, provider, account string) *bun.SelectQuery {
	return db.NewSelect().Model((*IntegrationRow)(nil)).ExcludeColumn("sealed", "holder").
		Where("provider = ?", provider).Where("account = ?", account).Where("status <> 'deleted'").Order("organization_id", "id")
}

// maxBindings bounds the integrations that a session or automation lists.
const maxBindings = 50

type bindingRow struct {
	bun.BaseModel `bun:"table:automation_connections"`

	Organization string `bun:"organization_id,pk"`
	Automation   string `bun:"automation_id,pk"`
	Integration  string `bun:"integration_id,pk"` // or action.AllConnections
}

// CheckConnections refuses integrations that cannot be bound: those that viewer cannot
// see, user connections, and, if the binding is shared with others, private ones.
func CheckConnections(ctx context.Context, tx bun.Tx, organization, viewer string, ids []string, shared bool) error {
	if len(ids) == 0 || slices.Equal(ids, []string{action.AllConnections}) {
		return nil
	}
	if len(ids) > maxBindings {
		return database.Invalid(fmt.Sprintf("/connections/%d", maxBindings), fmt.Sprintf(`You can name at most %d integrations. Leave some out, or send only "all".`, maxBindings))
	}
	visible, err := database.List[action.Integration](ctx, VisibleIntegrations(tx, organization, viewer).Where("id IN (?)", bun.List(ids)))
	if err != nil {
		return err
	}
	for i, id := range ids {
		if fault := bindingFault(visible, ids[:i], id, shared); fault != "" {
			return database.Invalid(fmt.Sprintf("/connections/%d", i), fault)
		}
	}
	return nil
}

// bindingFault returns why an integration cannot follow those before it in a list;
// empty if it can.
func bindingFault(visible []action.Integration, before []string, id string, shared bool) string {
	i := slices.IndexFunc(visible, func(in action.Integration) bool { return in.ID == id })
	switch {
	case id == action.AllConnections:
		return `"all" cannot be combined with other integrations. Leave out "all" or the others.`
	case slices.Contains(before, id):
		return "This integration is listed twice. Name each once."
	case i < 0:
		return "Integration not found. List the integrations to see their IDs."
	case visible[i].User != "":
		return "This is a personal connection, which the owner's interactive sessions use automatically. Leave it out."
	case shared && visible[i].Owner() != "":
		return "This integration is private, but other people can edit automations. Make it visible to the organization first."
	}
	return ""
}

// Bindings returns the ids of the integrations that the sessions of an automation are
// bound to, or only [action.AllConnections]. It omits integrations that are
// disconnected or have become private.
func (st *Store) Bindings(ctx context.Context, organization, automation string) ([]string, error) {
	list := []string{}
	if err := BindingsQuery(st.db.Read, organization, automation).Scan(ctx, &list); err != nil {
		return nil, fmt.Errorf("reading the connections of automation %s: %w", automation, err)
	}
	return list, nil
}

// BindingsQuery is the query of [Store.Bindings].
func BindingsQuery(db bun.IDB, organization, automation string) *bun.SelectQuery {
	return db.NewSelect().TableExpr("automation_connections AS b").ColumnExpr("b.integration_id").
		Where("b.organization_id = ?", organization).Where("b.automation_id = ?", automation).
		Where(`b.integration_id = ? OR EXISTS (SELECT 1 FROM integrations AS i WHERE i.id = b.integration_id
			AND i.organization_id = b.organization_id AND i.status <> 'deleted' AND i.holder = '')`, action.AllConnections).
		OrderExpr("b.integration_id")
}

// SetBindings replaces the bindings of an automation; ErrInvalid names an integration
// that the user cannot bind. Private integrations are refused, since others can edit
// the automation.
func (st *Store) SetBindings(ctx context.Context, organization, automation string, ids []string, by string) error {
	if err := action.CheckName("/automation_id", "automation", automation); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := CheckConnections(ctx, tx, organization, by, ids, true); err != nil {
			return err
		}
		return st.ReplaceBindings(ctx, tx, organization, automation, ids, by)
	})
}

// ReplaceBindings replaces bindings that the caller has checked, in its transaction.
func (st *Store) ReplaceBindings(ctx context.Context, tx bun.Tx, organization, automation string, ids []string, by string) error {
	var old []string
	err := tx.NewDelete().Model((*bindingRow)(nil)).Where("organization_id = ?", organization).Where("automation_id = ?", automation).
		Returning("integration_id").Scan(ctx, &old)
	if err != nil {
		return fmt.Errorf("deleting the connections of automation %s: %w", automation, err)
	}
	if err := insertBindings(ctx, tx, organization, automation, ids); err != nil {
		return err
	}
	before, after := slices.Sorted(slices.Values(old)), slices.Sorted(slices.Values(ids))
	if slices.Equal(before, after) {
		return nil
	}
	return st.history.RecordChange(ctx, tx, action.PolicyEvent{
		Organization: organization, Kind: action.EventBinding, Subject: automation, By: by,
	}, before, after)
}

func insertBindings(ctx context.Context, tx bun.Tx, organization, automation string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	rows := make([]bindingRow, 0, len(ids))
	for _, id := range ids {
		rows = append(rows, bindingRow{Organization: organization, Automation: automation, Integration: id})
	}
	if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
		return fmt.Errorf("binding automation %s: %w", automation, err)
	}
	return nil
}

// BrokeredIntegrations returns the integrations of all organizations whose tokens a
// broker holds. Their sealed part contains the broker's name of the connection.
func (st *Store) BrokeredIntegrations(ctx context.Context, broker action.Broker) ([]action.Integration, error) {
	return database.List[action.Integration](ctx, st.db.Read.NewSelect().Model((*IntegrationRow)(nil)).ExcludeColumn("holder").
		Where("broker = ?", string(broker)).Where("status <> 'deleted'").Where("sealed IS NOT NULL").Order("created_at", "id"))
}

// ListIntegrations returns the live integrations that a user may see, by provider and
// name.
func (st *Store) ListIntegrations(ctx context.Context, organization, viewer string) ([]action.Integration, error) {
	all, err := database.List[action.Integration](ctx, VisibleIntegrations(st.db.Read, organization, viewer))
	slices.SortStableFunc(all, func(a, b action.Integration) int {
		if by := strings.Compare(a.Provider, b.Provider); by != 0 {
			return by
		}
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return all, err
}

// Integration returns a live integration that a user may see; ErrNotFound.
func (st *Store) Integration(ctx context.Context, organization, id, viewer string) (action.Integration, error) {
	r, err := visibleIntegration(ctx, st.db.Read, organization, id, viewer)
	return r.Integration, err
}

func visibleIntegration(ctx context.Context, db bun.IDB, organization, id, viewer string) (IntegrationRow, error) {
	return database.One[IntegrationRow](ctx, VisibleIntegrations(db, organization, viewer).Where("id = ?", id), integrationNotFound())
}

// ChangeIntegration writes the Name, Visibility, Settings and TimeoutSeconds of the
// integration in.ID, and returns it; ErrNotFound, also if it is private to another
// user. It increments the revision if calls would behave differently. Then, and if
// the visibility changes, it also increments the policy version.
func (st *Store) ChangeIntegration(ctx context.Context, in action.Integration, by string) (action.Integration, error) {
	var r IntegrationRow
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = visibleIntegration(ctx, tx, in.Organization, in.ID, by); err != nil {
			return err
		}
		old := r
		r.Name, r.Visibility, r.Settings, r.TimeoutSeconds = in.Name, in.Visibility, in.Settings, in.TimeoutSeconds
		if len(r.Settings) == 0 {
			r.Settings = nil
		}
		return st.changeIntegration(ctx, tx, &old, &r, by)
	})
	return r.Integration, err
}

func (st *Store) changeIntegration(ctx context.Context, tx bun.Tx, old, r *IntegrationRow, by string) error {
	if err := r.CheckChoices(); err != nil {
		return err
	}
	if err := r.checkHolder(ctx, tx, old); err != nil {
		return err
	}
	if r.differs(old) {
		r.Revision++
	}
	r.UpdatedAt = database.NewTimestamp(st.db.Now()).Time
	_, err := tx.NewUpdate().Model(r).Column("name", "visibility", "holder", "settings", "timeout_seconds", "revision", "updated_at").
		WherePK().Exec(ctx)
	if err != nil {
		return fmt.Errorf("changing integration %s: %w", r.ID, err)
	}
	if r.Revision != old.Revision || r.Visibility != old.Visibility {
		return st.recordIntegrationChange(ctx, tx, old, r, by)
	}
	return history.BumpCatalogVersion(ctx, tx, r.Organization)
}

// checkHolder sets the holder, and refuses one that already has the account.
func (r *IntegrationRow) checkHolder(ctx context.Context, tx bun.Tx, old *IntegrationRow) error {
	if r.Holder = r.Owner(); r.Holder == old.Owner() {
		return nil
	}
	same, err := database.Optional[action.Integration](ctx, IntegrationQuery(tx, r.Organization, r.Provider, r.Holder, r.Account, false))
	if err != nil || same == nil {
		return err
	}
	return action.NewError("integration_exists").WithField("/visibility")
}
