package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type removedRow struct {
	bun.BaseModel `bun:"table:removed_users"`

	Organization string `bun:"organization_id,pk"`
	Issuer       string `bun:"issuer,pk"`
	Subject      string `bun:"subject,pk"`
	User         string `bun:"user_id"`
	Name         string `bun:"name"`
	Role         string `bun:"role"`
	RemovedBy    string `bun:"removed_by"`
	RemovedAt    stamp  `bun:"removed_at"`
}

// removed narrows a query to somebody who may not come back.
func removed(q *bun.SelectQuery, organization, issuer, subject string) *bun.SelectQuery {
	return q.Where("organization_id = ?", organization).Where("issuer = ?", issuer).Where("subject = ?", subject)
}

// bar keeps somebody of another house away, who could come back at once.
func (db *DB) bar(ctx context.Context, tx bun.Tx, r *userRow, by string) error {
	if r.Issuer == "" {
		return nil
	}
	_, err := tx.NewInsert().Model(&removedRow{
		Organization: r.Organization, Issuer: string(r.Issuer), Subject: string(r.Subject), User: r.ID, Name: r.Name, Role: r.Role, RemovedBy: by, RemovedAt: at(db.now()),
	}).Exec(ctx)
	if err != nil {
		return fmt.Errorf("keeping user %s away: %w", r.ID, err)
	}
	return nil
}

// RemovedUsers returns those of other houses who were removed, the last first.
func (db *DB) RemovedUsers(ctx context.Context, organization string) ([]action.RemovedUser, error) {
	var rows []removedRow
	err := db.read.NewSelect().Model(&rows).Where("organization_id = ?", organization).OrderExpr("removed_at DESC, user_id DESC").Limit(1000).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing removed users: %w", err)
	}
	list := make([]action.RemovedUser, 0, len(rows))
	for _, r := range rows {
		list = append(list, action.RemovedUser{ID: r.User, Name: r.Name, Role: action.Role(r.Role), Issuer: r.Issuer, RemovedBy: r.RemovedBy, RemovedAt: r.RemovedAt.t})
	}
	return list, nil
}

// ReadmitUser has somebody of that role let a person who was removed sign in
// again, as somebody new; ErrNotFound, or ErrForbidden when the person was an
// owner and who lets him in is none.
func (db *DB) ReadmitUser(ctx context.Context, organization, id string, as action.Role, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
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
		r := &userRow{ID: id, Organization: organization, Name: rows[0].Name, Issuer: opt(rows[0].Issuer)}
		return db.recordPerson(ctx, tx, r, by, nil, personOf(r))
	})
}
