package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// ListLogins returns a user's logins that are good, the newest first.
func (db *DB) ListLogins(ctx context.Context, organization, user string) ([]action.Login, error) {
	var rows []loginRow
	err := db.good(db.read.NewSelect().Model(&rows)).Where("organization_id = ?", organization).Where("user_id = ?", user).
		OrderExpr("created_at DESC, id DESC").Limit(1000).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing logins: %w", err)
	}
	list := make([]action.Login, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].login())
	}
	return list, nil
}

// good narrows a query of logins to those that are neither over nor idle.
func (db *DB) good(q *bun.SelectQuery) *bun.SelectQuery {
	now := db.now()
	return q.Where("expires_at > ?", at(now)).Where("seen_at > ?", at(now.Add(-db.loginIdle)))
}

// DeleteLogin signs out. A second time changes nothing.
func (db *DB) DeleteLogin(ctx context.Context, id string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Table("logins").Where("id = ?", id).Exec(ctx)
		return err
	})
}

// EndLogin ends one of a user's logins from elsewhere, on record for its
// browser; ErrNotFound.
func (db *DB) EndLogin(ctx context.Context, organization, user, id string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := db.end(ctx, tx, action.EndEverywhere, "organization_id = ? AND user_id = ? AND id = ?", organization, user, id)
		if err == nil && n == 0 {
			return action.Errorf(action.ErrNotFound, "login_not_found", "There is no such sign-in, or it has ended.")
		}
		return err
	})
}

// EndLogins signs a user out everywhere, on record for each browser, takes his
// unused links back, and returns how many logins ended.
func (db *DB) EndLogins(ctx context.Context, organization, user string, why action.LoginEnd) (n int, err error) {
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err = db.endLogins(ctx, tx, organization, user, why)
		return err
	})
	return n, err
}

func (db *DB) endLogins(ctx context.Context, tx bun.Tx, organization, user string, why action.LoginEnd) (int, error) {
	n, err := db.end(ctx, tx, why, "organization_id = ? AND user_id = ?", organization, user)
	if err != nil {
		return n, err
	}
	// Used ones stay, so that no sign-in is done a second time.
	_, err = tx.NewDelete().Table("login_links").Where("organization_id = ? AND user_id = ? AND used_at IS NULL", organization, user).Exec(ctx)
	if err != nil {
		return n, fmt.Errorf("taking sign-in links back: %w", err)
	}
	return n, nil
}

// end deletes logins and keeps why: to an older version of this program, which
// may run beside this one, a login that is there is good.
func (db *DB) end(ctx context.Context, tx bun.Tx, why action.LoginEnd, which string, args ...any) (int, error) {
	_, err := tx.NewRaw("INSERT INTO ended_logins (cookie_hash, why, ended_at, expires_at) SELECT cookie_hash, ?, ?, expires_at FROM logins WHERE "+which+
		" ON CONFLICT (cookie_hash) DO NOTHING", append([]any{why, at(db.now())}, args...)...).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("keeping why logins ended: %w", err)
	}
	n, err := affected(tx.NewDelete().Table("logins").Where(which, args...).Exec(ctx))
	if err != nil {
		return 0, fmt.Errorf("ending logins: %w", err)
	}
	return n, nil
}

// LoginEnd says why the login of a cookie is good no more; empty when it is
// good, or nothing is known of it.
func (db *DB) LoginEnd(ctx context.Context, cookieHash string) (why action.LoginEnd, err error) {
	err = db.read.NewSelect().Table("ended_logins").Column("why").Where("cookie_hash = ?", cookieHash).Scan(ctx, &why)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return why, err
	}
	r := &loginRow{}
	err = db.read.NewSelect().Model(r).Where("cookie_hash = ?", cookieHash).Scan(ctx)
	now := db.now()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading a login: %w", err)
	case !now.Before(r.ExpiresAt.t):
		return action.EndExpired, nil
	case now.Sub(r.SeenAt.t) >= db.loginIdle:
		return action.EndIdle, nil
	}
	return "", nil
}
