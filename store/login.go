package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// linkLife bounds a sign-in link, whatever its maker asks.
const linkLife = 10 * time.Minute

// touchEvery is how often a login in use is noted.
const touchEvery = time.Minute

type linkRow struct {
	bun.BaseModel `bun:"table:login_links"`

	CodeHash     string `bun:"code_hash,pk"`
	KeyHash      string `bun:"key_hash"`
	Organization string `bun:"organization_id"`
	User         string `bun:"user_id"`
	Via          opt    `bun:"via"`
	CreatedAt    stamp  `bun:"created_at"`
	ExpiresAt    stamp  `bun:"expires_at"`
	UsedAt       stamp  `bun:"used_at"`
}

type loginRow struct {
	bun.BaseModel `bun:"table:logins"`

	ID           string `bun:"id,pk"`
	CookieHash   string `bun:"cookie_hash"`
	KeyHash      string `bun:"key_hash"`
	Organization string `bun:"organization_id"`
	User         string `bun:"user_id"`
	Via          opt    `bun:"via"`
	CreatedAt    stamp  `bun:"created_at"`
	SeenAt       stamp  `bun:"seen_at"`
	ExpiresAt    stamp  `bun:"expires_at"`
}

func (r *loginRow) login() action.Login {
	return action.Login{
		ID: r.ID, Organization: r.Organization, User: r.User, Via: action.Via(r.Via.or(opt(action.ViaLink))),
		CreatedAt: r.CreatedAt.t, SeenAt: r.SeenAt.t, ExpiresAt: r.ExpiresAt.t,
	}
}

// CreateLoginLink writes a link, and forgets links and logins that are over.
// ErrConflict when there was one with the code.
func (db *DB) CreateLoginLink(ctx context.Context, l action.LoginLink) error {
	now := db.now()
	if latest := now.Add(linkLife); l.ExpiresAt.IsZero() || l.ExpiresAt.After(latest) {
		l.ExpiresAt = latest
	}
	r := &linkRow{
		CodeHash: l.CodeHash, KeyHash: l.KeyHash, Organization: l.Organization, User: l.User, Via: opt(l.Via),
		CreatedAt: at(now), ExpiresAt: at(l.ExpiresAt),
	}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		for _, table := range []string{"login_links", "logins", "ended_logins"} {
			if _, err := tx.NewDelete().Table(table).Where("expires_at < ?", at(now)).Exec(ctx); err != nil {
				return fmt.Errorf("forgetting old %s: %w", table, err)
			}
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing a sign-in link: %w", err)
		}
		return nil
	})
	if taken(err) {
		return action.NewError("login_link_exists")
	}
	return err
}

// RedeemLoginLink uses the link of the code up and writes the login of the
// cookie, with the organization, the user and the key of the link.
// ErrUnauthenticated when there is no such link, or it was used, or is over.
func (db *DB) RedeemLoginLink(ctx context.Context, codeHash, cookieHash string, l action.Login, now time.Time) (action.Login, error) {
	if l.ID == "" || cookieHash == "" || !l.ExpiresAt.After(now) {
		return action.Login{}, errors.New("a login needs an id, a cookie and an end")
	}
	r := &loginRow{
		ID: l.ID, CookieHash: cookieHash, CreatedAt: at(l.CreatedAt).or(at(now)), SeenAt: at(l.SeenAt).or(at(now)), ExpiresAt: at(l.ExpiresAt),
	}
	over := action.NewError("login_link_over")
	// Anybody may try codes, so one that is none costs a look and no write.
	some, err := exists(ctx, db.read.NewSelect().Table("login_links").Column("code_hash").
		Where("code_hash = ?", codeHash).Where("used_at IS NULL").Where("expires_at > ?", at(now)))
	if err != nil {
		return action.Login{}, fmt.Errorf("looking for a sign-in link: %w", err)
	}
	if !some {
		return action.Login{}, over
	}
	err = db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		err := tx.NewUpdate().Table("login_links").Set("used_at = ?", at(now)).
			Where("code_hash = ?", codeHash).Where("used_at IS NULL").Where("expires_at > ?", at(now)).
			Returning("organization_id, user_id, key_hash, via").Scan(ctx, &r.Organization, &r.User, &r.KeyHash, &r.Via)
		if errors.Is(err, sql.ErrNoRows) {
			return over
		}
		if err != nil {
			return fmt.Errorf("redeeming a sign-in link: %w", err)
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing a login: %w", err)
		}
		return userSeen(ctx, tx, r.ID, r.SeenAt)
	})
	if err != nil {
		return action.Login{}, err
	}
	return r.login(), nil
}

// Login returns the login of a cookie, with the hash of its page's key;
// ErrNotFound, also when it is over or was not used for too long.
func (db *DB) Login(ctx context.Context, cookieHash string) (l action.Login, keyHash string, err error) {
	r := &loginRow{}
	err = db.good(db.read.NewSelect().Model(r).Where("cookie_hash = ?", cookieHash)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return l, "", action.Errorf(action.ErrNotFound, "login_not_found", "This sign-in has ended; ask for a new sign-in link.")
	}
	if err != nil {
		return l, "", fmt.Errorf("reading a login: %w", err)
	}
	return r.login(), r.KeyHash, nil
}

// TouchLogin notes that a login and its user are active, at most once a minute.
// It is queued.
func (db *DB) TouchLogin(ctx context.Context, id string, seen time.Time) error {
	return db.write.enqueue(ctx, &job{row: id, run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewUpdate().Table("logins").Set("seen_at = ?", at(seen)).
			Where("id = ?", id).Where("seen_at <= ?", at(seen.Add(-touchEvery))).Exec(ctx)
		if err != nil {
			return err
		}
		return userSeen(ctx, tx, id, at(seen))
	}})
}

func userSeen(ctx context.Context, tx bun.IDB, login string, seen stamp) error {
	_, err := tx.NewUpdate().Table("users").Set("seen_at = ?", seen).
		Where("id = (?)", tx.NewSelect().Table("logins").Column("user_id").Where("id = ?", login)).
		Where("seen_at IS NULL OR seen_at <= ?", at(seen.t.Add(-touchEvery))).Exec(ctx)
	if err != nil {
		return fmt.Errorf("noting that a user was seen: %w", err)
	}
	return nil
}
