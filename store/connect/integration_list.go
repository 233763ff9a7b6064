package connect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

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
