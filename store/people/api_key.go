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

// APIKeyRow is a row of the table api_keys.
type APIKeyRow struct {
	bun.BaseModel `bun:"table:api_keys,alias:k"`
	action.APIKey
	Hash     string
	UserRole action.Role `bun:",scanonly"`
	Over     bool        `bun:",scanonly"` // expired by the database's clock
}

// key returns the key with the lower of its own and its user's role.
func (r *APIKeyRow) key() action.APIKey {
	if roleRank(r.UserRole) < roleRank(r.Role) {
		r.Role = r.UserRole
	}
	return r.APIKey
}

func roleRank(r action.Role) int {
	switch r {
	case action.RoleOwner:
		return 3
	case action.RoleAdmin:
		return 2
	case action.RoleMember:
		return 1
	}
	return 0
}

// CreateAPIKey stores a key with its hash.
func (st *Store) CreateAPIKey(ctx context.Context, k action.APIKey, hash string) error {
	if k.ID == "" || hash == "" {
		return errors.New("an API key needs an id and a hash")
	}
	if !k.Role.Valid() {
		return database.Invalid("/role", "role must be owner, admin or member.")
	}
	if k.Scope != "" && k.Scope != action.ScopeRuns {
		return database.Invalid("/scope", "scope must be runs. Leave it out for all permissions of the role.")
	}
	r := &APIKeyRow{APIKey: k, Hash: hash}
	r.CreatedAt, r.RevokedAt = database.NewTimestamp(k.CreatedAt).Or(database.NewTimestamp(st.db.Now())).Time, nil
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing API key %s: %w", k.ID, err)
		}
		return nil
	})
}

func apiKeys(db *bun.DB, now any) *bun.SelectQuery {
	return db.NewSelect().Model((*APIKeyRow)(nil)).ColumnExpr("k.*, u.role AS user_role, used.used_at, coalesce(k.expires_at <= ?, ?) AS over", now, false).
		Join("JOIN users AS u ON u.organization_id = k.organization_id AND u.id = k.user_id").
		Join("LEFT JOIN api_key_uses AS used ON used.key_id = k.id")
}

// APIKey returns a key, revoked or not, with the hash to compare; ErrNotFound. The
// id is enough, since the caller that presents a key has no more. A key that has
// expired by the database's clock is returned as revoked at that time.
func (st *Store) APIKey(ctx context.Context, id string) (k action.APIKey, hash string, err error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	r, args := &APIKeyRow{}, []any{id}
	if !st.db.Shared() {
		args = append(args, database.NewTimestamp(st.db.Now()))
	}
	err = st.stmts.apiKey.Model(ctx, st.db.Read, r, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return k, "", apiKeyNotFound()
	}
	if err != nil {
		return k, "", fmt.Errorf("reading API key %s: %w", id, err)
	}
	if k = r.key(); r.Over && k.RevokedAt == nil {
		k.RevokedAt = k.ExpiresAt
	}
	return k, r.Hash, nil
}

// apiKeyQuery takes the time as its second argument where there is a single clock.
func apiKeyQuery(db *bun.DB) string {
	now := bun.Safe("?2")
	if database.Shared(db) {
		now = database.ServerNow
	}
	return apiKeys(db, now).Where("k.id = ?", bun.Safe("?1")).String()
}

func apiKeyNotFound() error {
	return action.NewError("api_key_not_found")
}

// ListAPIKeys returns the organization's keys, newest first, with expired ones
// until they are swept.
func (st *Store) ListAPIKeys(ctx context.Context, organization string) ([]action.APIKey, error) {
	q := apiKeys(st.db.Read, st.db.ClockNow()).Where("k.organization_id = ?", organization).OrderExpr("k.created_at DESC, k.id DESC")
	return database.ListAs(ctx, q, (*APIKeyRow).key)
}

// TouchAPIKey records a use of a key, at most once a minute. The write is queued.
func (st *Store) TouchAPIKey(ctx context.Context, id string, used time.Time) error {
	return st.db.Write.Enqueue(ctx, &database.Job{Row: id, SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewRaw(touchKeySQL, id, database.NewTimestamp(used), database.NewTimestamp(used.Add(-database.TouchEvery))).Exec(ctx)
		return err
	}})
}

// touchKeySQL selects from the table of keys because the key may have been deleted.
const touchKeySQL = `INSERT INTO api_key_uses (key_id, used_at) SELECT id, ?1 FROM api_keys WHERE id = ?0
ON CONFLICT (key_id) DO UPDATE SET used_at = excluded.used_at WHERE api_key_uses.used_at <= ?2`

// RevokeAPIKey revokes a key; ErrNotFound. Revoking it again changes nothing.
func (st *Store) RevokeAPIKey(ctx context.Context, organization, id string, now time.Time) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := database.RowsAffected(tx.NewUpdate().Table("api_keys").Set("revoked_at = coalesce(revoked_at, ?)", database.NewTimestamp(now)).
			Where("organization_id = ?", organization).Where("id = ?", id).Exec(ctx))
		if err == nil && n == 0 {
			return apiKeyNotFound()
		}
		return err
	})
}

// RenewAPIKey moves the expiry of a key. The error is ErrNotFound if there is no
// such key, or it is revoked or expired.
func (st *Store) RenewAPIKey(ctx context.Context, organization, id string, until time.Time) error {
	if until.IsZero() {
		return errors.New("renewing an API key: the new expiry is missing")
	}
	return st.db.Write.Do(ctx, &database.Job{SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		n, err := database.RowsAffected(tx.NewUpdate().Table("api_keys").Set("expires_at = ?", database.NewTimestamp(until)).
			Where("organization_id = ?", organization).Where("id = ?", id).
			Where("revoked_at IS NULL").Where("expires_at IS NULL OR expires_at > ?", st.db.ClockNow()).Exec(ctx))
		if err != nil {
			return fmt.Errorf("renewing API key %s: %w", id, err)
		}
		if n == 0 {
			return apiKeyNotFound()
		}
		return nil
	}})
}

// SweepAPIKeys deletes at most limit (zero: 100) keys that expired before a time,
// and returns how many.
func (st *Store) SweepAPIKeys(ctx context.Context, before time.Time, limit int) (int, error) {
	return st.db.DeleteExpired(ctx, ExpiredAPIKeys(before), limit)
}

// ExpiredAPIKeys selects the keys that expired before a time.
func ExpiredAPIKeys(before time.Time) database.Expired {
	return database.Expired{Table: "api_keys", Key: "id", Time: "expires_at", Before: database.NewTimestamp(before).Or(database.Epoch)}
}
