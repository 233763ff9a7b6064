package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// capabilityRow stays when its capability is revoked, and is written over by
// the next one of the group at the provider.
type capabilityRow struct {
	bun.BaseModel `bun:"table:capabilities"`

	Organization string `bun:"organization_id,pk"`
	Group        string `bun:"group_id,pk"`
	Provider     string `bun:"provider,pk"`
	Level        int    `bun:"level"`
	Gate         opt    `bun:"required_gate"`
	RateCalls    int    `bun:"rate_calls,nullzero"`
	RateSeconds  int    `bun:"rate_seconds,nullzero"`
	ExpiresAt    stamp  `bun:"expires_at"`
	GrantedBy    string `bun:"granted_by"`
	GrantedAt    stamp  `bun:"granted_at"`
	RevokedBy    opt    `bun:"revoked_by"`
	RevokedAt    stamp  `bun:"revoked_at"`
	Allowed      texts  `bun:"allowed_actions"`
	Denied       texts  `bun:"denied_actions"`
}

// capability is nil when there is none, or when it was revoked.
func (r *capabilityRow) capability() *action.Capability {
	if r == nil || r.RevokedBy != "" {
		return nil
	}
	c := &action.Capability{
		Organization: r.Organization, Group: r.Group, Provider: r.Provider, Level: action.Level(r.Level),
		AllowedActions: r.Allowed, DeniedActions: r.Denied, Gate: string(r.Gate),
		ExpiresAt: r.ExpiresAt.ptr(), GrantedBy: r.GrantedBy, GrantedAt: r.GrantedAt.t,
	}
	if r.RateCalls > 0 {
		c.Rate = &action.Rate{Calls: r.RateCalls, Seconds: r.RateSeconds}
	}
	return c
}

func (db *DB) newCapabilityRow(c *action.Capability) *capabilityRow {
	r := &capabilityRow{
		Organization: c.Organization, Group: c.Group, Provider: c.Provider, Level: int(c.Level), Gate: opt(c.Gate),
		ExpiresAt: atPtr(c.ExpiresAt), GrantedBy: c.GrantedBy, GrantedAt: at(db.now()), Allowed: c.AllowedActions,
	}
	if len(c.DeniedActions) > 0 {
		r.Denied = c.DeniedActions
	}
	if c.Rate != nil {
		r.RateCalls, r.RateSeconds = c.Rate.Calls, c.Rate.Seconds
	}
	return r
}

// says reports whether r and old come to the same, whoever granted them.
func (r capabilityRow) says(old *capabilityRow) bool {
	if old == nil {
		return false
	}
	r.GrantedBy, r.GrantedAt = old.GrantedBy, old.GrantedAt
	return reflect.DeepEqual(&r, old)
}

// PutCapability writes what a group may do at a provider in place of what it
// could before, and returns it as it is stored. What is stored already is left
// as it is. A provider that is a connector must exist (ErrNotFound).
func (db *DB) PutCapability(ctx context.Context, c action.Capability) (action.Capability, error) {
	if err := c.Check(db.now()); err != nil {
		return action.Capability{}, err
	}
	var stored *capabilityRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		stored = db.newCapabilityRow(&c)
		if err := checkSource(ctx, tx, c.Organization, c.Provider); err != nil {
			return err
		}
		old, err := capabilityRowOf(ctx, tx, *stored)
		if err != nil {
			return err
		}
		if stored.says(old) {
			stored = old
			return nil
		}
		if old == nil {
			_, err = tx.NewInsert().Model(stored).Exec(ctx)
		} else {
			_, err = tx.NewUpdate().Model(stored).WherePK().Exec(ctx)
		}
		if err != nil {
			return fmt.Errorf("writing the capability of %s at %s: %w", c.Group, c.Provider, err)
		}
		return db.policyChanged(ctx, tx, stored.event(c.GrantedBy), old.capability(), stored.capability())
	})
	if err != nil {
		return action.Capability{}, err
	}
	return *stored.capability(), nil
}

func (r *capabilityRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventCapability, Subject: r.Group + "/" + r.Provider, By: by}
}

// DeleteCapability revokes what a group may do at a provider, with effect on
// the next call; ErrNotFound.
func (db *DB) DeleteCapability(ctx context.Context, organization, group, provider, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := capabilityRowOf(ctx, tx, capabilityRow{Organization: organization, Group: group, Provider: provider})
		if err != nil {
			return err
		}
		was := r.capability()
		if was == nil {
			return action.Errorf(action.ErrNotFound, "capability_not_found", "The group %q has no capability at %q.", group, provider)
		}
		r.RevokedBy, r.RevokedAt = opt(by), at(db.now())
		if _, err := tx.NewUpdate().Model(r).Column("revoked_by", "revoked_at").WherePK().Exec(ctx); err != nil {
			return fmt.Errorf("revoking the capability of %s at %s: %w", group, provider, err)
		}
		return db.policyChanged(ctx, tx, r.event(by), was, nil)
	})
}

// ListCapabilities returns what groups may do, by group and provider; with a
// group, only its. Expired ones are among them, revoked ones are not.
func (db *DB) ListCapabilities(ctx context.Context, organization, group string) ([]action.Capability, error) {
	return listCapabilities(ctx, db.read, organization, group)
}

func listCapabilities(ctx context.Context, db bun.IDB, organization, group string) ([]action.Capability, error) {
	var rows []capabilityRow
	if err := capabilities(db, organization, group).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("listing capabilities: %w", err)
	}
	list := make([]action.Capability, 0, len(rows))
	for i := range rows {
		list = append(list, *rows[i].capability())
	}
	return list, nil
}

func capabilities(db bun.IDB, organization, group string) *bun.SelectQuery {
	q := db.NewSelect().Model((*capabilityRow)(nil)).Where("organization_id = ?", organization)
	if group != "" {
		q = q.Where("group_id = ?", group)
	}
	return q.Where("revoked_at IS NULL").Order("group_id", "provider")
}

// capabilityRowOf reads the row with the key of r; nil when there is none.
func capabilityRowOf(ctx context.Context, tx bun.Tx, r capabilityRow) (*capabilityRow, error) {
	err := tx.NewSelect().Model(&r).WherePK().Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the capability of %s at %s: %w", r.Group, r.Provider, err)
	}
	return &r, nil
}
