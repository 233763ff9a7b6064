package policy

import (
	"context"
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
func (st *Store) PutCapability(ctx context.Context, c action.Capability) (action.Capability, error) {
	if err := c.Check(st.db.Now()); err != nil {
		return action.Capability{}, err
	}
	c.ExpiresAt, c.GrantedAt = database.TimestampFromPtr(c.ExpiresAt).Ptr(), database.NewTimestamp(st.db.Now()).Time
	if len(c.DeniedActions) == 0 {
		c.DeniedActions = nil
	}
	var r CapabilityRow
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, c.Organization, c.Provider); err != nil {
			return err
		}
		r = CapabilityRow{Capability: c}
		return history.Upsert(ctx, st.history, tx, &r, c.GrantedBy)
	})
	return r.Capability, err
}

// DeleteCapability revokes the capability of a group at a provider, with effect on
// the next call; ErrNotFound.
func (st *Store) DeleteCapability(ctx context.Context, organization, group, provider, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := database.RowsOf[CapabilityRow](tx, organization).Where("group_id = ?", group).Where("provider = ?", provider).Where("revoked_at IS NULL")
		r, err := database.One[CapabilityRow](ctx, q,
			action.NewError("capability_not_found", group, provider))
		if err != nil {
			return err
		}
		old := r
		r.RevokedBy, r.RevokedAt = by, database.NewTimestamp(st.db.Now()).Ptr()
		return st.history.Update(ctx, tx, &old, &r, by)
	})
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
