package people

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// AdmitUser returns the user of an identity provider, created on the first sign-in,
// with the name and role that the provider asserts now. An assertion without a time,
// or older than the last one, changes nothing, so the role can differ from in.Role.
// A user that is already up to date costs no write.
//
// Errors: ErrForbidden if the user was removed here; ErrNotFound without the
// organization; ErrConflict if the last owner would lose the role, and then the
// user's credentials are revoked as by [Store.CutOffUser].
func (st *Store) AdmitUser(ctx context.Context, in action.Identity) (action.User, error) {
	switch {
	case in.Issuer == "" || in.Subject == "" || in.Name == "":
		return action.User{}, errors.New("an identity needs an issuer, a subject and a name")
	case !in.Role.Valid():
		return action.User{}, database.Invalid("/role", "role must be owner, admin or member.")
	}
	r, err := userByIdentity(ctx, st.db.Read, in)
	if err == nil && r != nil && (isOutdated(r, in) || r.SaidAt.Equal(database.NewTimestamp(in.AssertedAt).Time) && r.Role == in.Role && sameName(r.Name, in.Name)) {
		return r.User, nil
	}
	var refused error
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		refused = nil
		if r, err = userByIdentity(ctx, tx, in); err != nil {
			return err
		}
		if r == nil {
			r, err = st.insertUser(ctx, tx, in)
			return err
		}
		if !isOutdated(r, in) {
			refused, err = st.syncUser(ctx, tx, r, in)
		}
		return err
	})
	if err = errors.Join(err, refused); err != nil {
		return action.User{}, err
	}
	return r.User, nil
}

// userByIdentity returns the user with the issuer and subject; nil if there is none.
func userByIdentity(ctx context.Context, db bun.IDB, in action.Identity) (*UserRow, error) {
	return database.Optional[UserRow](ctx, database.RowsOf[UserRow](db, in.Organization).Where("issuer = ?", in.Issuer).Where("subject = ?", in.Subject))
}

// isOutdated reports whether a newer assertion is stored: an old token must not
// restore an old role.
func isOutdated(r *UserRow, in action.Identity) bool {
	return in.AssertedAt.IsZero() || database.NewTimestamp(in.AssertedAt).Time.Before(r.SaidAt)
}

// insertUser stores a user at the first sign-in.
func (st *Store) insertUser(ctx context.Context, tx bun.Tx, in action.Identity) (*UserRow, error) {
	exists, err := tx.NewSelect().Table("organizations").Where("id = ?", in.Organization).Exists(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading an organization: %w", err)
	}
	if !exists {
		return nil, history.OrganizationNotFound()
	}
	removed, err := tx.NewSelect().Table("removed_users").Where("organization_id = ?", in.Organization).
		Where("issuer = ?", in.Issuer).Where("subject = ?", in.Subject).Exists(ctx)
	if err != nil {
		return nil, fmt.Errorf("checking whether a user was removed: %w", err)
	}
	if removed {
		return nil, action.NewError("person_removed")
	}
	r := &UserRow{
		User:   action.User{Organization: in.Organization, Role: in.Role, Issuer: in.Issuer, Subject: in.Subject},
		SaidAt: database.NewTimestamp(in.AssertedAt).Time,
	}
	if r.ID, err = database.NewID(); err != nil {
		return nil, err
	}
	if r.Name, err = uniqueName(ctx, tx, in, r.ID); err != nil {
		return nil, err
	}
	return r, st.history.Create(ctx, tx, r, in.Issuer, 0)
}

// syncUser updates the role and the name from the identity provider. refused is the
// error for the caller of a transaction that commits nevertheless.
func (st *Store) syncUser(ctx context.Context, tx bun.Tx, r *UserRow, in action.Identity) (refused, err error) {
	r.SaidAt = database.NewTimestamp(in.AssertedAt).Time
	if _, err = tx.NewUpdate().Table("users").Set("said_at = ?", r.SaidAt).Where("id = ?", r.ID).Exec(ctx); err != nil {
		return nil, fmt.Errorf("recording the claims of user %s: %w", r.ID, err)
	}
	err = st.changeRole(ctx, tx, r, in.Role, in.Issuer)
	if errors.Is(err, action.ErrConflict) {
		_, failed := st.revokeCredentials(ctx, tx, r, in.Issuer)
		return err, failed
	}
	if err != nil || sameName(r.Name, in.Name) {
		return nil, err
	}
	old := *r
	if r.Name, err = uniqueName(ctx, tx, in, r.ID); err != nil {
		return nil, err
	}
	return nil, st.history.Update(ctx, tx, &old, r, in.Issuer)
}

// maxSameNames bounds how many users share a name.
const maxSameNames = 1000

// uniqueName returns the name, with a number if another user has it: nobody can
// pose as another user by choosing their name at the identity provider.
func uniqueName(ctx context.Context, tx bun.Tx, in action.Identity, id string) (string, error) {
	name := in.Name
	for n := 2; n <= maxSameNames; n++ {
		taken, err := tx.NewSelect().Table("users").Where("organization_id = ?", in.Organization).
			Where("lower(name) = lower(?)", name).Where("id <> ?", id).Exists(ctx)
		if err != nil {
			return "", fmt.Errorf("checking a name: %w", err)
		}
		if !taken {
			return name, nil
		}
		name = fmt.Sprintf("%s (%d)", in.Name, n)
	}
	return "", action.Errorf(action.ErrConflict, "user_exists", "Too many people have this name. Change it at your identity provider.")
}

// sameName reports whether stored is the asserted name, possibly with a number.
func sameName(stored, asserted string) bool {
	rest, ok := strings.CutPrefix(stored, asserted)
	if !ok || rest == "" {
		return ok
	}
	number, ok := strings.CutPrefix(rest, " (")
	return ok && strings.Trim(number, "0123456789") == ")"
}

// CutOffUser revokes all credentials (logins, links and API keys) of a user whose
// identity provider no longer asserts a role. It returns the user's id; empty if
// there were none.
func (st *Store) CutOffUser(ctx context.Context, organization, issuer, subject string) (id string, err error) {
	in := action.Identity{Organization: organization, Issuer: issuer, Subject: subject}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		id = ""
		r, err := userByIdentity(ctx, tx, in)
		if err != nil || r == nil {
			return err
		}
		n, err := st.revokeCredentials(ctx, tx, r, issuer)
		if n > 0 {
			id = r.ID
		}
		return err
	})
	return id, err
}

// revokeCredentials returns how many credentials it revoked.
func (st *Store) revokeCredentials(ctx context.Context, tx bun.Tx, r *UserRow, by string) (int, error) {
	n, err := st.endLogins(ctx, tx, r.Organization, r.ID, action.EndRole)
	if err != nil {
		return n, err
	}
	keys, err := database.RowsAffected(tx.NewUpdate().Table("api_keys").Set("revoked_at = ?", database.NewTimestamp(st.db.Now())).
		Where("organization_id = ?", r.Organization).Where("user_id = ?", r.ID).Where("revoked_at IS NULL").Exec(ctx))
	if err != nil {
		return n, fmt.Errorf("revoking the API keys of user %s: %w", r.ID, err)
	}
	if n += keys; n == 0 {
		return 0, nil
	}
	return n, st.history.RecordChange(ctx, tx, r.Event(by), r.Snapshot(), person{Name: r.Name, Issuer: r.Issuer})
}

type removedRow struct {
	bun.BaseModel `bun:"table:removed_users"`
	action.RemovedUser
	Organization string `bun:"organization_id"`
	Subject      string
}

// recordRemoval blocks further sign-ins of a user of an identity provider, which
// would create the user again.
func (st *Store) recordRemoval(ctx context.Context, tx bun.Tx, r *UserRow, by string) error {
	if r.Issuer == "" {
		return nil
	}
	removed := action.RemovedUser{ID: r.ID, Name: r.Name, Role: r.Role, Issuer: r.Issuer, RemovedBy: by, RemovedAt: st.db.Now()}
	_, err := tx.NewInsert().Model(&removedRow{RemovedUser: removed, Organization: r.Organization, Subject: r.Subject}).Exec(ctx)
	if err != nil {
		return fmt.Errorf("recording the removal of user %s: %w", r.ID, err)
	}
	return nil
}

// RemovedUsers returns the removed users of identity providers, latest removal first.
func (st *Store) RemovedUsers(ctx context.Context, organization string) ([]action.RemovedUser, error) {
	q := database.RowsOf[removedRow](st.db.Read, organization).ExcludeColumn("organization_id", "subject")
	return database.List[action.RemovedUser](ctx, q.OrderExpr("removed_at DESC, user_id DESC").Limit(1000))
}

// ReadmitUser lets a removed user sign in again, as a new user. as is the role of
// the caller. Errors: ErrNotFound; ErrForbidden if the removed user was an owner and
// the caller is not.
func (st *Store) ReadmitUser(ctx context.Context, organization, id string, as action.Role, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		var rows []removedRow
		_, err := tx.NewDelete().Model((*removedRow)(nil)).Where("organization_id = ?", organization).Where("user_id = ?", id).Returning("*").Exec(ctx, &rows)
		if err != nil {
			return fmt.Errorf("readmitting user %s: %w", id, err)
		}
		if len(rows) == 0 {
			return userNotFound()
		}
		if rows[0].Role == action.RoleOwner && as != action.RoleOwner {
			return action.Errorf(action.ErrForbidden, "owner_required", "This person was an owner when removed. Ask an owner to readmit them.")
		}
		r := &UserRow{User: action.User{ID: id, Organization: organization, Name: rows[0].Name, Issuer: rows[0].Issuer}}
		return st.history.RecordChange(ctx, tx, r.Event(by), nil, r.Snapshot())
	})
}
