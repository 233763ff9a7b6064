package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// capabilityRow stays when its capability is revoked, and is written over by
// the next one of the group at the provider.
type capabilityRow struct {
	bun.BaseModel `bun:"table:capabilities"`
	action.Capability
	RevokedBy string `bun:",nullzero"`
	RevokedAt *time.Time
}

func (r *capabilityRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventCapability, Subject: r.Group + "/" + r.Provider, By: by}
}

func (r *capabilityRow) snapshot() any {
	if r.RevokedAt != nil {
		return nil
	}
	return r.Capability
}

// PutCapability writes what a group may do at a provider in place of what it
// could before, and returns it as it is stored. What is stored already is left
// as it is. A provider that is a connector must exist (ErrNotFound).
func (db *DB) PutCapability(ctx context.Context, c action.Capability) (action.Capability, error) {
	if err := c.Check(db.now()); err != nil {
		return action.Capability{}, err
	}
	c.ExpiresAt, c.GrantedAt = atPtr(c.ExpiresAt).ptr(), at(db.now()).t
	if len(c.DeniedActions) == 0 {
		c.DeniedActions = nil
	}
	var r capabilityRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkSource(ctx, tx, c.Organization, c.Provider); err != nil {
			return err
		}
		r = capabilityRow{Capability: c}
		return upsert(ctx, db, tx, &r, c.GrantedBy)
	})
	return r.Capability, err
}

// DeleteCapability revokes what a group may do at a provider, with effect on
// the next call; ErrNotFound.
func (db *DB) DeleteCapability(ctx context.Context, organization, group, provider, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		q := rowsOf[capabilityRow](tx, organization).Where("group_id = ?", group).Where("provider = ?", provider).Where("revoked_at IS NULL")
		r, err := one[capabilityRow](ctx, q,
			action.NewError("capability_not_found", group, provider))
		if err != nil {
			return err
		}
		old := r
		r.RevokedBy, r.RevokedAt = by, at(db.now()).ptr()
		return db.update(ctx, tx, &old, &r, by)
	})
}

// ListCapabilities returns what groups may do, by group and provider; with a
// group, only its. Expired ones are among them, revoked ones are not.
func (db *DB) ListCapabilities(ctx context.Context, organization, group string) ([]action.Capability, error) {
	return list[action.Capability](ctx, capabilities(db.read, organization, group))
}

func capabilities(db bun.IDB, organization, group string) *bun.SelectQuery {
	q := rowsOf[capabilityRow](db, organization).ExcludeColumn("revoked_by", "revoked_at")
	if group != "" {
		q = q.Where("group_id = ?", group)
	}
	return q.Where("revoked_at IS NULL").Order("group_id", "provider")
}
