package connect

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/redact"
	"sallyport/store/database"
)

// MaxIntegrations bounds the live integrations of an organization.
const MaxIntegrations = 200

// PutIntegration stores an active integration: a new one if in.Version is zero, and
// otherwise in place of the row with that version, whose creator and creation time
// stay. It returns the integration without its credential. Errors: ErrConflict, code
// "integration_moved", if the row has another version; ErrTooMany.
//
// It increments the revision if calls would behave differently. A user has one own
// connection per provider: a connection with another account is disconnected.
func (st *Store) PutIntegration(ctx context.Context, in action.Integration, by string) (action.Integration, error) {
	if err := in.Check(); err != nil {
		return action.Integration{}, err
	}
	if (redact.JSON{}).RedactText(in.BaseURL, nil) != in.BaseURL {
		return action.Integration{}, database.Invalid("/base_url", "This URL seems to contain a credential. Send the credential separately, and the URL without it.")
	}
	r := newIntegrationRow(in, database.NewTimestamp(st.db.Now()))
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error { return st.putIntegration(ctx, tx, r, in.Version, by) })
	if err != nil {
		return action.Integration{}, err
	}
	return r.withoutCredential(), nil
}

func (st *Store) putIntegration(ctx context.Context, tx bun.Tx, r *IntegrationRow, version int64, by string) error {
	old, err := findIntegration(ctx, tx, r.Organization, r.ID)
	if err != nil {
		return err
	}
	if err := r.replace(ctx, tx, old, version); err != nil {
		return err
	}
	if err := st.disconnectOthers(ctx, tx, r, by); err != nil {
		return err
	}
	if err := checkIntegrationLimit(ctx, tx, old, r.Organization); err != nil {
		return err
	}
	if old == nil {
		_, err = tx.NewInsert().Model(r).Exec(ctx)
	} else {
		_, err = tx.NewUpdate().Model(r).WherePK().Exec(ctx)
	}
	if err != nil {
		return fmt.Errorf("writing integration %s: %w", r.ID, err)
	}
	return st.recordIntegrationChange(ctx, tx, old, r, by)
}

// replace takes over what stays of the old row, and refuses when that is not
// the one that was meant, or when the account has a row already.
func (r *IntegrationRow) replace(ctx context.Context, tx bun.Tx, old *IntegrationRow, version int64) error {
	if old != nil {
		r.Provider, r.User, r.CreatedBy, r.CreatedAt, r.Revision = old.Provider, old.User, old.CreatedBy, old.CreatedAt, old.Revision
		if r.differs(old) {
			r.Revision++
		}
		r.Holder = r.Owner()
	}
	if old.version() != version {
		return integrationConflict()
	}
	same, err := database.Optional[action.Integration](ctx, IntegrationQuery(tx, r.Organization, r.Provider, r.Holder, r.Account, r.User != ""))
	if err == nil && same != nil && same.ID != r.ID {
		err = integrationConflict()
	}
	return err
}

// version returns the version of the row; zero if there is none.
func (r *IntegrationRow) version() int64 {
	if r == nil {
		return 0
	}
	return r.Version
}

func integrationConflict() error {
	return action.Errorf(action.ErrConflict, "integration_moved", "This integration was just changed. Read it again.")
}

// disconnectOthers disconnects the user's other own connections at the provider.
func (st *Store) disconnectOthers(ctx context.Context, tx bun.Tx, r *IntegrationRow, by string) error {
	if r.User == "" {
		return nil
	}
	others := HeldByQuery(tx, r.Organization, r.Holder).Where("user_id IS NOT NULL").Where("provider = ?", r.Provider).Where("id <> ?", r.ID)
	return st.disconnect(ctx, tx, others, "Another account was connected.", by)
}

// DisconnectAll disconnects the integrations that only a removed user could see.
func (st *Store) DisconnectAll(ctx context.Context, tx bun.Tx, organization, user string) error {
	return st.disconnect(ctx, tx, HeldByQuery(tx, organization, user), "The user was removed.", user)
}

// HeldByQuery selects the integrations that only the user sees.
func HeldByQuery(db bun.IDB, organization, user string) *bun.SelectQuery {
	return LiveIntegrations(db, organization).Where("holder = ?", user)
}

func (st *Store) disconnect(ctx context.Context, tx bun.Tx, q *bun.SelectQuery, reason, by string) error {
	rows, err := database.List[IntegrationRow](ctx, q)
	if err != nil {
		return err
	}
	for i := range rows {
		if err := st.setStatus(ctx, tx, &rows[i], action.IntegrationDeleted, reason, by); err != nil {
			return err
		}
	}
	return nil
}

// checkIntegrationLimit refuses a new integration over [MaxIntegrations].
func checkIntegrationLimit(ctx context.Context, tx bun.Tx, old *IntegrationRow, organization string) error {
	if old != nil && old.Status != action.IntegrationDeleted {
		return nil
	}
	n, err := tx.NewSelect().Table("integrations").Where("organization_id = ?", organization).Where("status <> 'deleted'").Count(ctx)
	if err != nil {
		return fmt.Errorf("counting integrations: %w", err)
	}
	if n >= MaxIntegrations {
		return action.NewError("too_many_integrations", MaxIntegrations)
	}
	return nil
}

// RenewIntegration replaces the credential in.Sealed, ExpiresAt and Scopes of the
// version in.Version. It changes no revision or version of policy. ErrConflict, code
// "integration_moved", if the row has another version or is deleted.
func (st *Store) RenewIntegration(ctx context.Context, in action.Integration) error {
	now := database.NewTimestamp(st.db.Now())
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := database.RowsAffected(tx.NewUpdate().Table("integrations").
			Set("sealed = ?, expires_at = ?, scopes = ?, updated_at = ?, version = version + 1", in.Sealed, database.TimestampFromPtr(in.ExpiresAt), database.JSON[[]string]{V: in.Scopes}, now).
			Where("organization_id = ?", in.Organization).Where("id = ?", in.ID).
			Where("version = ?", in.Version).Where("status <> 'deleted'").Exec(ctx))
		if err != nil {
			return fmt.Errorf("renewing integration %s: %w", in.ID, err)
		}
		if n == 0 {
			return integrationConflict()
		}
		return nil
	})
}

// SetIntegrationStatus sets the status and its reason, and reports whether they
// changed. version is that of the credential; zero: any. IntegrationDeleted wipes the
// credential. Errors: ErrNotFound, also if the integration is deleted and the new
// status is another; ErrConflict, code "integration_moved", if the row has another
// version.
func (st *Store) SetIntegrationStatus(ctx context.Context, organization, id string, version int64, status action.IntegrationStatus, reason, by string) (changed bool, err error) {
	if !status.Valid() {
		return false, database.Invalid("/status", "status must be active, expired, revoked, suspended or deleted.")
	}
	if status == action.IntegrationActive {
		reason = ""
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		changed = false
		r, err := findIntegration(ctx, tx, organization, id)
		switch {
		case err != nil:
			return err
		case r == nil, r.Status == action.IntegrationDeleted && status != action.IntegrationDeleted:
			return integrationNotFound()
		case version != 0 && version != r.Version:
			return integrationConflict()
		case r.Status == action.IntegrationDeleted, r.Status == status && r.Reason == reason:
			return nil
		}
		changed = true
		return st.setStatus(ctx, tx, r, status, reason, by)
	})
	return changed && err == nil, err
}

// setStatus writes the status and reason of a row. It increments the version when it
// wipes the credential, so that a concurrent renewal cannot restore it.
func (st *Store) setStatus(ctx context.Context, tx bun.Tx, r *IntegrationRow, status action.IntegrationStatus, reason, by string) error {
	old := *r
	r.Status, r.Reason, r.UpdatedAt = status, reason, database.NewTimestamp(st.db.Now()).Time
	columns := []string{"status", "reason", "updated_at"}
	if status == action.IntegrationDeleted {
		r.Sealed, r.ExpiresAt, r.Version = nil, nil, r.Version+1
		columns = append(columns, "sealed", "expires_at", "version")
	}
	_, err := tx.NewUpdate().Model(r).Column(columns...).WherePK().Exec(ctx)
	if err != nil {
		return fmt.Errorf("changing the status of integration %s: %w", r.ID, err)
	}
	return st.recordIntegrationChange(ctx, tx, &old, r, by)
}
