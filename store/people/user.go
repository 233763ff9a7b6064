package people

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

type userRow struct {
	bun.BaseModel `bun:"table:users"`

	ID           string              `bun:"id,pk"`
	Organization string              `bun:"organization_id"`
	Name         string              `bun:"name"`
	Role         string              `bun:"role"`
	Issuer       database.NullString `bun:"issuer"`
	Subject      database.NullString `bun:"subject"`
	SaidAt       database.Timestamp  `bun:"said_at"`
	CreatedAt    database.Timestamp  `bun:"created_at"`
	SeenAt       database.Timestamp  `bun:"seen_at"`
}

func (r *userRow) user() action.User {
	return action.User{
		ID: r.ID, Organization: r.Organization, Name: r.Name, Role: action.Role(r.Role),
		Issuer: string(r.Issuer), Subject: string(r.Subject), CreatedAt: r.CreatedAt.Time, SeenAt: r.SeenAt.Ptr(),
	}
}

// CreateUser stores a user; ErrConflict if the name is taken.
func (st *Store) CreateUser(ctx context.Context, u action.User, by string) error {
	if err := u.Check(); err != nil {
		return err
	}
	r := &userRow{ID: u.ID, Organization: u.Organization, Name: u.Name, Role: string(u.Role), CreatedAt: database.NewTimestamp(u.CreatedAt).Or(database.NewTimestamp(st.db.Now()))}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return err
		}
		return st.recordPerson(ctx, tx, r, by, nil, personOf(r))
	})
	if database.IsUniqueViolation(err) {
		return &action.Error{Kind: action.ErrConflict, Code: "user_exists", Field: "/name", Message: "Someone has this name already; choose another."}
	}
	if err != nil {
		return fmt.Errorf("writing user %s: %w", u.ID, err)
	}
	return nil
}

// person is the snapshot of a user in history.
type person struct {
	Name   string `json:"name"`
	Role   string `json:"role,omitempty"` // empty: removed
	Issuer string `json:"issuer,omitempty"`
}

func personOf(r *userRow) *person {
	return &person{Name: r.Name, Role: r.Role, Issuer: string(r.Issuer)}
}

// recordPerson records a change of a user in history. before is nil for a new user,
// and after for one that was removed.
func (st *Store) recordPerson(ctx context.Context, tx bun.Tx, r *userRow, by string, before, after *person) error {
	return st.history.RecordChange(ctx, tx, action.PolicyEvent{Organization: r.Organization, Kind: action.EventPerson, Subject: r.ID, By: by}, before, after)
}

// User returns a user; ErrNotFound.
func (st *Store) User(ctx context.Context, organization, id string) (action.User, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r := &userRow{}
	err := st.stmts.user.Model(ctx, st.db.Read, r, organization, id)
	if errors.Is(err, sql.ErrNoRows) {
		return action.User{}, userNotFound()
	}
	if err != nil {
		return action.User{}, fmt.Errorf("reading user %s: %w", id, err)
	}
	return r.user(), nil
}

func userQuery(db *bun.DB) string {
	return db.NewSelect().Model((*userRow)(nil)).Where("organization_id = ?", bun.Safe("?1")).Where("id = ?", bun.Safe("?2")).String()
}

func userNotFound() error {
	return action.NewError("user_not_found")
}

// ListUsers returns the organization's users, oldest first.
func (st *Store) ListUsers(ctx context.Context, organization string) ([]action.User, error) {
	var rows []userRow
	err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", organization).Order("created_at", "id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing users: %w", err)
	}
	list := make([]action.User, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].user())
	}
	return list, nil
}

// SetUserRole changes a role; ErrNotFound, or ErrConflict for the last owner and for
// users whose role an identity provider sets.
func (st *Store) SetUserRole(ctx context.Context, organization, id string, role action.Role, by string) error {
	if err := role.Check(); err != nil {
		return err
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readUser(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if r.Issuer != "" {
			return action.NewError("role_from_elsewhere", string(r.Issuer))
		}
		return st.changeRole(ctx, tx, r, string(role), by)
	})
}

// changeRole changes a role, unless no owner would remain.
func (st *Store) changeRole(ctx context.Context, tx bun.Tx, r *userRow, role, by string) error {
	if err := checkLastOwner(ctx, tx, r.Organization, r.ID, action.Role(role)); err != nil {
		return err
	}
	before := personOf(r)
	if r.Role == role {
		return nil
	}
	_, err := tx.NewUpdate().Table("users").Set("role = ?", role).
		Where("organization_id = ?", r.Organization).Where("id = ?", r.ID).Exec(ctx)
	if err != nil {
		return fmt.Errorf("changing the role of user %s: %w", r.ID, err)
	}
	r.Role = role
	return st.recordPerson(ctx, tx, r, by, before, personOf(r))
}

// readUser reads a row for a transaction that changes it; ErrNotFound.
func readUser(ctx context.Context, tx bun.Tx, organization, id string) (*userRow, error) {
	r, err := database.One[userRow](ctx, database.RowsOf[userRow](tx, organization).Where("id = ?", id), userNotFound())
	return &r, err
}

// DeleteUser removes a user with their logins, links and API keys, and disconnects
// the integrations that only they could see; ErrNotFound, or ErrConflict for the
// last owner. A user of an identity provider cannot sign in again before
// [Store.ReadmitUser].
func (st *Store) DeleteUser(ctx context.Context, organization, id, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := readUser(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		if err := checkLastOwner(ctx, tx, organization, id, ""); err != nil {
			return err
		}
		if err := st.recordRemoval(ctx, tx, r, by); err != nil {
			return err
		}
		if _, err := st.endLogins(ctx, tx, organization, id, action.EndRemoved); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Table("users").Where("organization_id = ?", organization).Where("id = ?", id).Exec(ctx); err != nil {
			return fmt.Errorf("deleting user %s: %w", id, err)
		}
		if err := st.recordPerson(ctx, tx, r, by, personOf(r), nil); err != nil {
			return err
		}
		return st.connect.DisconnectAll(ctx, tx, organization, id)
	})
}

// checkLastOwner refuses to leave an organization without an owner, since only an
// owner can appoint another.
func checkLastOwner(ctx context.Context, tx bun.Tx, organization, id string, role action.Role) error {
	var owners []string
	err := tx.NewSelect().Table("users").Column("id").
		Where("organization_id = ?", organization).Where("role = 'owner'").Scan(ctx, &owners)
	if err != nil {
		return fmt.Errorf("counting owners: %w", err)
	}
	if role != action.RoleOwner && len(owners) == 1 && owners[0] == id {
		return action.Errorf(action.ErrConflict, "last_owner", "This is the last owner; make someone else an owner first.")
	}
	return nil
}
