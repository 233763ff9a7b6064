package people

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// maxLinkLifetime bounds the lifetime that the creator of a sign-in link requests.
const maxLinkLifetime = 10 * time.Minute

type linkRow struct {
	bun.BaseModel `bun:"table:login_links"`
	action.LoginLink
	CreatedAt time.Time
	UsedAt    *time.Time
}

type loginRow struct {
	bun.BaseModel `bun:"table:logins"`
	action.Login
	CookieHash, KeyHash string
}

func (r *loginRow) login() action.Login {
	r.Via = cmp.Or(r.Via, action.ViaLink)
	return r.Login
}

// CreateLoginLink stores a link, and deletes expired links and logins. ErrConflict
// if the code exists.
func (st *Store) CreateLoginLink(ctx context.Context, l action.LoginLink) error {
	now := st.db.Now()
	if latest := now.Add(maxLinkLifetime); l.ExpiresAt.IsZero() || l.ExpiresAt.After(latest) {
		l.ExpiresAt = latest
	}
	r := &linkRow{LoginLink: l, CreatedAt: now}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		for _, table := range []string{"login_links", "logins", "ended_logins"} {
			if _, err := tx.NewDelete().Table(table).Where("expires_at < ?", database.NewTimestamp(now)).Exec(ctx); err != nil {
				return fmt.Errorf("deleting expired %s: %w", table, err)
			}
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing a sign-in link: %w", err)
		}
		return nil
	})
	if database.IsUniqueViolation(err) {
		return action.NewError("login_link_exists")
	}
	return err
}

// RedeemLoginLink uses up the link with the code and stores the login of the cookie,
// with the organization, user and key of the link. ErrUnauthenticated if there is
// no such link, or it was used or has expired.
func (st *Store) RedeemLoginLink(ctx context.Context, codeHash, cookieHash string, l action.Login, now time.Time) (action.Login, error) {
	if l.ID == "" || cookieHash == "" || !l.ExpiresAt.After(now) {
		return action.Login{}, errors.New("a login needs an id, a cookie and an end")
	}
	r := &loginRow{CookieHash: cookieHash, Login: action.Login{
		ID: l.ID, CreatedAt: database.NewTimestamp(l.CreatedAt).Or(database.NewTimestamp(now)).Time,
		SeenAt: database.NewTimestamp(l.SeenAt).Or(database.NewTimestamp(now)).Time, ExpiresAt: database.NewTimestamp(l.ExpiresAt).Time,
	}}
	expired := action.NewError("login_link_over")
	// Anyone can guess codes, so an unknown one must cost a read only.
	exists, err := database.Exists(ctx, st.db.Read.NewSelect().Table("login_links").Column("code_hash").
		Where("code_hash = ?", codeHash).Where("used_at IS NULL").Where("expires_at > ?", database.NewTimestamp(now)))
	if err != nil {
		return action.Login{}, fmt.Errorf("reading a sign-in link: %w", err)
	}
	if !exists {
		return action.Login{}, expired
	}
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		err := tx.NewUpdate().Table("login_links").Set("used_at = ?", database.NewTimestamp(now)).
			Where("code_hash = ?", codeHash).Where("used_at IS NULL").Where("expires_at > ?", database.NewTimestamp(now)).
			Returning("organization_id, user_id, key_hash, via").Scan(ctx, &r.Organization, &r.User, &r.KeyHash, (*database.NullString)(&r.Via))
		if errors.Is(err, sql.ErrNoRows) {
			return expired
		}
		if err != nil {
			return fmt.Errorf("redeeming a sign-in link: %w", err)
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing a login: %w", err)
		}
		return touchUser(ctx, tx, r.ID, database.NewTimestamp(r.SeenAt))
	})
	if err != nil {
		return action.Login{}, err
	}
	return r.login(), nil
}

// Login returns the login of a cookie, with the hash of its page's key; ErrNotFound,
// also if it has expired or is idle.
func (st *Store) Login(ctx context.Context, cookieHash string) (l action.Login, keyHash string, err error) {
	r := &loginRow{}
	err = st.whereActive(st.db.Read.NewSelect().Model(r).Where("cookie_hash = ?", cookieHash)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return l, "", action.Errorf(action.ErrNotFound, "login_not_found", "This sign-in has ended. Ask for a new sign-in link.")
	}
	if err != nil {
		return l, "", fmt.Errorf("reading a login: %w", err)
	}
	return r.login(), r.KeyHash, nil
}

// TouchLogin records activity of a login and its user, at most once a minute. The
// write is queued.
func (st *Store) TouchLogin(ctx context.Context, id string, seen time.Time) error {
	return st.db.Write.Enqueue(ctx, &database.Job{Row: id, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewUpdate().Table("logins").Set("seen_at = ?", database.NewTimestamp(seen)).
			Where("id = ?", id).Where("seen_at <= ?", database.NewTimestamp(seen.Add(-database.TouchEvery))).Exec(ctx)
		if err != nil {
			return err
		}
		return touchUser(ctx, tx, id, database.NewTimestamp(seen))
	}})
}

func touchUser(ctx context.Context, tx bun.IDB, login string, seen database.Timestamp) error {
	_, err := tx.NewUpdate().Table("users").Set("seen_at = ?", seen).
		Where("id = (?)", tx.NewSelect().Table("logins").Column("user_id").Where("id = ?", login)).
		Where("seen_at IS NULL OR seen_at <= ?", database.NewTimestamp(seen.Time.Add(-database.TouchEvery))).Exec(ctx)
	if err != nil {
		return fmt.Errorf("recording the activity of a user: %w", err)
	}
	return nil
}

// ListLogins returns a user's active logins, newest first.
func (st *Store) ListLogins(ctx context.Context, organization, user string) ([]action.Login, error) {
	q := st.whereActive(database.RowsOf[loginRow](st.db.Read, organization)).Where("user_id = ?", user).OrderExpr("created_at DESC, id DESC").Limit(1000)
	return database.ListAs(ctx, q, (*loginRow).login)
}

// whereActive restricts a query to logins that are neither expired nor idle.
func (st *Store) whereActive(q *bun.SelectQuery) *bun.SelectQuery {
	now := st.db.Now()
	return q.Where("expires_at > ?", database.NewTimestamp(now)).Where("seen_at > ?", database.NewTimestamp(now.Add(-st.db.LoginIdle)))
}

// DeleteLogin deletes a login at sign-out. Deleting it again changes nothing.
func (st *Store) DeleteLogin(ctx context.Context, id string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Table("logins").Where("id = ?", id).Exec(ctx)
		return err
	})
}

// EndLogin ends one of a user's logins from another browser, and keeps the reason
// for the ended one; ErrNotFound.
func (st *Store) EndLogin(ctx context.Context, organization, user, id string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := st.deleteLogins(ctx, tx, action.EndEverywhere, "organization_id = ? AND user_id = ? AND id = ?", organization, user, id)
		if err == nil && n == 0 {
			return action.Errorf(action.ErrNotFound, "login_not_found", "Sign-in not found, or it has ended.")
		}
		return err
	})
}

// EndLogins ends all logins of a user, keeps the reason for each browser, deletes
// unused links, and returns how many logins ended.
func (st *Store) EndLogins(ctx context.Context, organization, user string, why action.LoginEnd) (n int, err error) {
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err = st.endLogins(ctx, tx, organization, user, why)
		return err
	})
	return n, err
}

func (st *Store) endLogins(ctx context.Context, tx bun.Tx, organization, user string, why action.LoginEnd) (int, error) {
	n, err := st.deleteLogins(ctx, tx, why, "organization_id = ? AND user_id = ?", organization, user)
	if err != nil {
		return n, err
	}
	// Used links stay, so that none can be redeemed again.
	_, err = tx.NewDelete().Table("login_links").Where("organization_id = ? AND user_id = ? AND used_at IS NULL", organization, user).Exec(ctx)
	if err != nil {
		return n, fmt.Errorf("deleting sign-in links: %w", err)
	}
	return n, nil
}

// deleteLogins deletes logins and keeps the reason in a table of its own: an older
// version that runs beside this one accepts every login that has a row.
func (st *Store) deleteLogins(ctx context.Context, tx bun.Tx, why action.LoginEnd, condition string, args ...any) (int, error) {
	_, err := tx.NewRaw("INSERT INTO ended_logins (cookie_hash, why, ended_at, expires_at) SELECT cookie_hash, ?, ?, expires_at FROM logins WHERE "+condition+
		" ON CONFLICT (cookie_hash) DO NOTHING", append([]any{why, database.NewTimestamp(st.db.Now())}, args...)...).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("recording why logins ended: %w", err)
	}
	n, err := database.RowsAffected(tx.NewDelete().Table("logins").Where(condition, args...).Exec(ctx))
	if err != nil {
		return 0, fmt.Errorf("ending logins: %w", err)
	}
	return n, nil
}

// LoginEnd returns why the login of a cookie ended; empty if it is active or
// unknown.
func (st *Store) LoginEnd(ctx context.Context, cookieHash string) (why action.LoginEnd, err error) {
	err = st.db.Read.NewSelect().Table("ended_logins").Column("why").Where("cookie_hash = ?", cookieHash).Scan(ctx, &why)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return why, err
	}
	r := &loginRow{}
	err = st.db.Read.NewSelect().Model(r).Where("cookie_hash = ?", cookieHash).Scan(ctx)
	now := st.db.Now()
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading a login: %w", err)
	case !now.Before(r.ExpiresAt):
		return action.EndExpired, nil
	case now.Sub(r.SeenAt) >= st.db.LoginIdle:
		return action.EndIdle, nil
	}
	return "", nil
}
