package people

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// UserRow is a row of the table users.
type UserRow struct {
	bun.BaseModel `bun:"table:users"`
	action.User
	SaidAt time.Time // the last assertion of the identity provider; zero: none
}

// Event implements [history.Recorded].
func (r *UserRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventPerson, Subject: r.ID, By: by}
}

// Snapshot implements [history.Recorded].
func (r *UserRow) Snapshot() any { return person{r.Name, r.Role, r.Issuer} }

// person is the snapshot of a user in history.
type person struct {
	Name   string      `json:"name"`
	Role   action.Role `json:"role,omitempty"` // empty: removed
	Issuer string      `json:"issuer,omitempty"`
}

// CreateUser stores a user; ErrConflict if the name is taken.
func (st *Store) CreateUser(ctx context.Context, u action.User, by string) error {
	if err := u.Check(); err != nil {
		return err
	}
	r := &UserRow{User: action.User{ID: u.ID, Organization: u.Organization, Name: u.Name, Role: u.Role, CreatedAt: u.CreatedAt}}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error { return st.history.Create(ctx, tx, r, by, 0) })
	if database.IsUniqueViolation(err) {
		return &action.Error{Kind: action.ErrConflict, Code: "user_exists", Field: "/name", Message: "Someone has this name already; choose another."}
	}
	if err != nil {
		return fmt.Errorf("writing user %s: %w", u.ID, err)
	}
	return nil
}

// User returns a user; ErrNotFound.
func (st *Store) User(ctx context.Context, organization, id string) (action.User, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r := &UserRow{}
	err := st.stmts.user.Model(ctx, st.db.Read, r, organization, id)
	if errors.Is(err, sql.ErrNoRows) {
		return action.User{}, userNotFound()
	}
	if err != nil {
		return action.User{}, fmt.Errorf("reading user %s: %w", id, err)
	}
	return r.User, nil
}

func userQuery(db *bun.DB) string {
	return db.NewSelect().Model((*UserRow)(nil)).Where("organization_id = ?", bun.Safe("?1")).Where("id = ?", bun.Safe("?2")).String()
}

func userNotFound() error {
	return action.NewError("user_not_found")
}

// ListUsers returns the organization's users, oldest first.
func (st *Store) ListUsers(ctx context.Context, organization string) ([]action.User, error) {
	return database.List[action.User](ctx, database.RowsOf[UserRow](st.db.Read, organization).ExcludeColumn("said_at").Order("created_at", "id"))
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
			return action.NewError("role_from_elsewhere", r.Issuer)
		}
		return st.changeRole(ctx, tx, r, role, by)
	})
}

// changeRole changes a role, unless no owner would remain.
func (st *Store) changeRole(ctx context.Context, tx bun.Tx, r *UserRow, role action.Role, by string) error {
	if err := checkLastOwner(ctx, tx, r.Organization, r.ID, role); err != nil {
		return err
	}
	old := *r
	r.Role = role
	return st.history.Update(ctx, tx, &old, r, by)
}

// readUser reads a row for a transaction that changes it; ErrNotFound.
func readUser(ctx context.Context, tx bun.Tx, organization, id string) (*UserRow, error) {
	r, err := database.One[UserRow](ctx, database.RowsOf[UserRow](tx, organization).Where("id = ?", id), userNotFound())
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
		if err := st.history.Remove(ctx, tx, r, by); err != nil {
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
		return action.Errorf(action.ErrConflict, "last_owner", "This is the last owner. Make someone else an owner first.")
	}
	return nil
}
