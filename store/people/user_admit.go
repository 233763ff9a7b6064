package people

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// AdmitUser returns the user whom another house knows as in, made when there is
// none, with the name and the role that it gives now. ErrForbidden when somebody
// removed him here; ErrNotFound without the organization; ErrConflict when the
// last owner would be one no more: he is cut off instead, as by [DB.CutOffUser].
// What was said before the last that is known, or nobody knows when, changes
// nobody: the user may have another role than in says.
//
// Who is known as he is costs no write.
func (st *Store) AdmitUser(ctx context.Context, in action.Identity) (action.User, error) {
	switch {
	case in.Issuer == "" || in.Subject == "" || in.Name == "":
		return action.User{}, errors.New("somebody of another house has an issuer, a subject and a name")
	case !in.Role.Valid():
		return action.User{}, database.Invalid("/role", "A role is owner, admin or member.")
	}
	r, err := userAt(ctx, st.db.Read, in)
	if err == nil && r != nil && (outdated(r, in) || r.SaidAt == database.NewTimestamp(in.AssertedAt) && r.Role == string(in.Role) && sameName(r.Name, in.Name)) {
		return r.user(), nil
	}
	var refused error
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		refused = nil
		if r, err = userAt(ctx, tx, in); err != nil {
			return err
		}
		if r == nil {
			r, err = st.enrol(ctx, tx, in)
			return err
		}
		if !outdated(r, in) {
			refused, err = st.follow(ctx, tx, r, in)
		}
		return err
	})
	if err = errors.Join(err, refused); err != nil {
		return action.User{}, err
	}
	return r.user(), nil
}

// userAt finds somebody by who he is elsewhere; nil when there is none.
func userAt(ctx context.Context, db bun.IDB, in action.Identity) (*userRow, error) {
	r := &userRow{}
	err := db.NewSelect().Model(r).Where("organization_id = ?", in.Organization).
		Where("issuer = ?", in.Issuer).Where("subject = ?", in.Subject).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for somebody of %s: %w", in.Issuer, err)
	}
	return r, nil
}

// outdated tells whether newer is known of somebody: who keeps an old token does
// not get an old role back with it.
func outdated(r *userRow, in action.Identity) bool {
	return in.AssertedAt.IsZero() || database.NewTimestamp(in.AssertedAt).Time.Before(r.SaidAt.Time)
}

// enrol writes somebody who comes for the first time.
func (st *Store) enrol(ctx context.Context, tx bun.Tx, in action.Identity) (*userRow, error) {
	there, err := tx.NewSelect().Table("organizations").Where("id = ?", in.Organization).Exists(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for an organization: %w", err)
	}
	if !there {
		return nil, history.NoOrganization()
	}
	barred, err := removed(tx.NewSelect().Table("removed_users"), in.Organization, in.Issuer, in.Subject).Exists(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking whether somebody was removed: %w", err)
	}
	if barred {
		return nil, action.NewError("person_removed")
	}
	r := &userRow{Organization: in.Organization, Role: string(in.Role), Issuer: database.NullString(in.Issuer), Subject: database.NullString(in.Subject), SaidAt: database.NewTimestamp(in.AssertedAt), CreatedAt: database.NewTimestamp(st.db.Now())}
	if r.ID, err = database.NewID(); err != nil {
		return nil, err
	}
	if r.Name, err = freeName(ctx, tx, in, r.ID); err != nil {
		return nil, err
	}
	if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
		return nil, fmt.Errorf("writing somebody of %s: %w", in.Issuer, err)
	}
	return r, st.recordPerson(ctx, tx, r, in.Issuer, nil, personOf(r))
}

// follow gives somebody the role and the name that he has elsewhere now.
func (st *Store) follow(ctx context.Context, tx bun.Tx, r *userRow, in action.Identity) (refused, err error) {
	r.SaidAt = database.NewTimestamp(in.AssertedAt)
	if _, err = tx.NewUpdate().Table("users").Set("said_at = ?", r.SaidAt).Where("id = ?", r.ID).Exec(ctx); err != nil {
		return nil, fmt.Errorf("noting what is said of user %s: %w", r.ID, err)
	}
	err = st.giveRole(ctx, tx, r, string(in.Role), in.Issuer)
	if errors.Is(err, action.ErrConflict) {
		_, cut := st.cutOff(ctx, tx, r, in.Issuer)
		return err, cut
	}
	if err != nil || sameName(r.Name, in.Name) {
		return nil, err
	}
	before := personOf(r)
	if r.Name, err = freeName(ctx, tx, in, r.ID); err != nil {
		return nil, err
	}
	if _, err = tx.NewUpdate().Table("users").Set("name = ?", r.Name).Where("id = ?", r.ID).Exec(ctx); err != nil {
		return nil, fmt.Errorf("renaming user %s: %w", r.ID, err)
	}
	return nil, st.recordPerson(ctx, tx, r, in.Issuer, before, personOf(r))
}

// maxNamesakes bounds how many people have one name.
const maxNamesakes = 1000

// freeName is the name, with a number where somebody else has it: nobody is
// taken for another by choosing a name elsewhere.
func freeName(ctx context.Context, tx bun.Tx, in action.Identity, id string) (string, error) {
	name := in.Name
	for n := 2; n <= maxNamesakes; n++ {
		there, err := tx.NewSelect().Table("users").Where("organization_id = ?", in.Organization).
			Where("lower(name) = lower(?)", name).Where("id <> ?", id).Exists(ctx)
		if err != nil {
			return "", fmt.Errorf("looking for a name: %w", err)
		}
		if !there {
			return name, nil
		}
		name = fmt.Sprintf("%s (%d)", in.Name, n)
	}
	return "", action.Errorf(action.ErrConflict, "user_exists", "Too many people have this name; have it changed where you sign in.")
}

// sameName tells whether a name here is the one elsewhere, perhaps numbered.
func sameName(here, elsewhere string) bool {
	rest, ok := strings.CutPrefix(here, elsewhere)
	if !ok || rest == "" {
		return ok
	}
	number, ok := strings.CutPrefix(rest, " (")
	return ok && strings.Trim(number, "0123456789") == ")"
}

// CutOffUser takes all credentials from somebody to whom another house gives no
// role any more: logins, links and API keys. It returns his id, empty when there
// was nothing to take.
func (st *Store) CutOffUser(ctx context.Context, organization, issuer, subject string) (id string, err error) {
	in := action.Identity{Organization: organization, Issuer: issuer, Subject: subject}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		id = ""
		r, err := userAt(ctx, tx, in)
		if err != nil || r == nil {
			return err
		}
		n, err := st.cutOff(ctx, tx, r, issuer)
		if n > 0 {
			id = r.ID
		}
		return err
	})
	return id, err
}

// cutOff returns how many credentials it took.
func (st *Store) cutOff(ctx context.Context, tx bun.Tx, r *userRow, by string) (int, error) {
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
	without := personOf(r)
	without.Role = ""
	return n, st.recordPerson(ctx, tx, r, by, personOf(r), without)
}

type removedRow struct {
	bun.BaseModel `bun:"table:removed_users"`

	Organization string             `bun:"organization_id,pk"`
	Issuer       string             `bun:"issuer,pk"`
	Subject      string             `bun:"subject,pk"`
	User         string             `bun:"user_id"`
	Name         string             `bun:"name"`
	Role         string             `bun:"role"`
	RemovedBy    string             `bun:"removed_by"`
	RemovedAt    database.Timestamp `bun:"removed_at"`
}

// removed narrows a query to somebody who may not come back.
func removed(q *bun.SelectQuery, organization, issuer, subject string) *bun.SelectQuery {
	return q.Where("organization_id = ?", organization).Where("issuer = ?", issuer).Where("subject = ?", subject)
}

// bar keeps somebody of another house away, who could come back at once.
func (st *Store) bar(ctx context.Context, tx bun.Tx, r *userRow, by string) error {
	if r.Issuer == "" {
		return nil
	}
	_, err := tx.NewInsert().Model(&removedRow{
		Organization: r.Organization, Issuer: string(r.Issuer), Subject: string(r.Subject), User: r.ID, Name: r.Name, Role: r.Role, RemovedBy: by, RemovedAt: database.NewTimestamp(st.db.Now()),
	}).Exec(ctx)
	if err != nil {
		return fmt.Errorf("keeping user %s away: %w", r.ID, err)
	}
	return nil
}

// RemovedUsers returns those of other houses who were removed, the last first.
func (st *Store) RemovedUsers(ctx context.Context, organization string) ([]action.RemovedUser, error) {
	var rows []removedRow
	err := st.db.Read.NewSelect().Model(&rows).Where("organization_id = ?", organization).OrderExpr("removed_at DESC, user_id DESC").Limit(1000).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing removed users: %w", err)
	}
	list := make([]action.RemovedUser, 0, len(rows))
	for _, r := range rows {
		list = append(list, action.RemovedUser{ID: r.User, Name: r.Name, Role: action.Role(r.Role), Issuer: r.Issuer, RemovedBy: r.RemovedBy, RemovedAt: r.RemovedAt.Time})
	}
	return list, nil
}

// ReadmitUser has somebody of that role let a person who was removed sign in
// again, as somebody new; ErrNotFound, or ErrForbidden when the person was an
// owner and who lets him in is none.
func (st *Store) ReadmitUser(ctx context.Context, organization, id string, as action.Role, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		var rows []removedRow
		_, err := tx.NewDelete().Model((*removedRow)(nil)).Where("organization_id = ?", organization).Where("user_id = ?", id).Returning("*").Exec(ctx, &rows)
		if err != nil {
			return fmt.Errorf("letting user %s in again: %w", id, err)
		}
		if len(rows) == 0 {
			return noUser()
		}
		if action.Role(rows[0].Role) == action.RoleOwner && as != action.RoleOwner {
			return action.Errorf(action.ErrForbidden, "owner_required", "This person was an owner when removed; have an owner let them in again.")
		}
		r := &userRow{ID: id, Organization: organization, Name: rows[0].Name, Issuer: database.NullString(rows[0].Issuer)}
		return st.recordPerson(ctx, tx, r, by, nil, personOf(r))
	})
}
