package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// ListIntegrations returns those that a user may see and that are not deleted,
// by provider and name.
func (db *DB) ListIntegrations(ctx context.Context, organization, viewer string) ([]action.Integration, error) {
	list, err := listIntegrations(ctx, visibleIntegrations(db.read, organization, viewer))
	slices.SortStableFunc(list, func(a, b action.Integration) int {
		if by := strings.Compare(a.Provider, b.Provider); by != 0 {
			return by
		}
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list, err
}

// Integration returns one that a user may see and that is not deleted;
// ErrNotFound.
func (db *DB) Integration(ctx context.Context, organization, id, viewer string) (action.Integration, error) {
	r, err := visibleIntegration(ctx, db.read, organization, id, viewer)
	if err != nil {
		return action.Integration{}, err
	}
	return r.shown(), nil
}

func visibleIntegration(ctx context.Context, db bun.IDB, organization, id, viewer string) (*integrationRow, error) {
	r, err := findIntegration(ctx, visibleIntegrations(db, organization, viewer).Where("id = ?", id))
	if err == nil && r == nil {
		err = noIntegration()
	}
	return r, err
}

// ChangeIntegration writes Name, Visibility, Settings and TimeoutSeconds of the
// row of in.ID, and returns it; ErrNotFound, also when it is private to somebody
// else. The revision counts up when a call would do something else than before.
// Then, and with the visibility, policy moves.
func (db *DB) ChangeIntegration(ctx context.Context, in action.Integration, by string) (action.Integration, error) {
	var r *integrationRow
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if r, err = visibleIntegration(ctx, tx, in.Organization, in.ID, by); err != nil {
			return err
		}
		old := *r
		r.Name, r.Visibility, r.Settings, r.Timeout = in.Name, string(in.Visibility), opt(in.Settings), in.TimeoutSeconds
		return db.changeIntegration(ctx, tx, &old, r, by)
	})
	if err != nil {
		return action.Integration{}, err
	}
	return r.shown(), nil
}

func (db *DB) changeIntegration(ctx context.Context, tx bun.Tx, old, r *integrationRow, by string) error {
	now := r.integration()
	if err := now.CheckChoices(); err != nil {
		return err
	}
	if err := r.checkHolder(ctx, tx, old); err != nil {
		return err
	}
	if r.differs(old) {
		r.Revision++
	}
	r.UpdatedAt = at(db.now())
	_, err := tx.NewUpdate().Model(r).Column("name", "visibility", "holder", "settings", "timeout_seconds", "revision", "updated_at").
		WherePK().Where("organization_id = ?", r.Organization).Exec(ctx)
	if err != nil {
		return fmt.Errorf("changing integration %s: %w", r.ID, err)
	}
	if r.Revision != old.Revision || r.Visibility != old.Visibility {
		return db.integrationChanged(ctx, tx, old, r, by)
	}
	return catalogMoved(ctx, tx, r.Organization)
}

// checkHolder sets the holder, and refuses one that has the account already.
func (r *integrationRow) checkHolder(ctx context.Context, tx bun.Tx, old *integrationRow) error {
	in := r.integration()
	if r.Holder = in.Owner(); r.Holder == old.Holder {
		return nil
	}
	same, err := findIntegration(ctx, integrationOf(tx, r.Organization, r.Provider, r.Holder, r.Account, false))
	if err != nil || same == nil {
		return err
	}
	return &action.Error{
		Kind: action.ErrConflict, Code: "integration_exists", Field: "/visibility",
		Message: "This account was connected with that visibility before; connect it anew that way, and disconnect this one.",
	}
}
