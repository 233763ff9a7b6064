package connect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

// SecretRow is a row of the table secrets.
type SecretRow struct {
	bun.BaseModel `bun:"table:secrets"`
	action.Secret
	Sealed []byte
}

// PutSecret creates or replaces a sealed secret. Its host cannot change while a
// connector sends the secret to the old host or signs in with it (ErrConflict).
func (st *Store) PutSecret(ctx context.Context, s action.Secret, sealed []byte) error {
	now := database.NewTimestamp(st.db.Now())
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		users, err := putSecret(ctx, tx, &action.SealedSecret{Secret: s, Sealed: sealed}, "", now)
		if err != nil || len(users) == 0 {
			return err
		}
		return history.BumpCatalogVersion(ctx, tx, s.Organization)
	})
}

// putConnectorSecret stores a secret together with the connector that uses it.
func (st *Store) putConnectorSecret(ctx context.Context, tx bun.Tx, r *ConnectorRow, s *action.SealedSecret) error {
	if s.Organization != r.Organization || s.Key == "" || !usesSecret(&r.Connector, s.Key) {
		return database.Invalid("/secret", "The secret value is for another secret than the connector uses. Name that secret in the connector.")
	}
	_, err := putSecret(ctx, tx, s, r.ID, database.NewTimestamp(st.db.Now()))
	return err
}

// putSecret stores a secret and returns the connectors that use it. changing is the id
// of the connector that is written in the same transaction, if any.
func putSecret(ctx context.Context, tx bun.Tx, s *action.SealedSecret, changing string, now database.Timestamp) ([]action.Connector, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	users, err := secretUsers(ctx, tx, s.Organization, s.Key)
	if err != nil {
		return nil, err
	}
	r := &SecretRow{Secret: s.Secret, Sealed: s.Sealed}
	r.Host, r.LastUsedAt = strings.ToLower(s.Host), nil
	r.CreatedAt, r.UpdatedAt = database.NewTimestamp(s.CreatedAt).Or(now).Time, database.NewTimestamp(s.UpdatedAt).Or(now).Time
	if err := r.checkUsers(ctx, tx, users, changing); err != nil {
		return nil, err
	}
	_, err = tx.NewInsert().Model(r).On("CONFLICT (organization_id, key) DO UPDATE").
		Set("host = EXCLUDED.host, sealed = EXCLUDED.sealed, updated_by = EXCLUDED.updated_by, updated_at = EXCLUDED.updated_at").
		Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("writing secret %s: %w", s.Key, err)
	}
	return users, nil
}

// checkUsers refuses a host other than that of a connector that sends the secret, and a
// change of the host if the secret belongs to an OAuth client, whose token endpoint is
// only known to the sign-in. It does not check the changing connector.
func (r *SecretRow) checkUsers(ctx context.Context, tx bun.Tx, users []action.Connector, changing string) error {
	before, err := secretHost(ctx, tx, r.Organization, r.Key)
	if err != nil {
		return err
	}
	for _, c := range users {
		switch sends := c.Secret == r.Key; {
		case c.ID == changing:
		case sends && !action.SameHost(r.Host, c.URL):
			return action.Errorf(action.ErrConflict, "secret_in_use",
				"The connector %q sends this secret to another host than %s. Change the connector first.", c.Name, r.Host)
		case !sends && before != "" && !action.SameHost(before, "https://"+r.Host):
			return action.Errorf(action.ErrConflict, "secret_in_use",
				"The connector %q signs in with this secret at %s, not at %s. Set another secret for that host, and name it in the connector.", c.Name, before, r.Host)
		}
	}
	return nil
}

// secretHost returns the host of a secret; empty if there is no such secret.
func secretHost(ctx context.Context, tx bun.Tx, organization, key string) (host string, err error) {
	err = tx.NewSelect().Table("secrets").Column("host").
		Where("organization_id = ?", organization).Where("key = ?", key).Scan(ctx, &host)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("reading secret %s: %w", key, err)
	}
	return host, nil
}

// SecretValue returns a secret with its sealed value; ErrNotFound.
func (st *Store) SecretValue(ctx context.Context, organization, key string) (action.Secret, []byte, error) {
	r, err := database.One[SecretRow](ctx, database.RowsOf[SecretRow](st.db.Read, organization).Where("key = ?", key), secretNotFound(key))
	return r.Secret, r.Sealed, err
}

// SecretUsed records a use of a secret, at most once a minute. The write is queued.
func (st *Store) SecretUsed(ctx context.Context, organization, key string, used time.Time) error {
	return st.db.Write.Enqueue(ctx, &database.Job{Row: organization + " " + key, SingleStatement: true, Run: func(ctx context.Context, tx bun.IDB) error {
		_, err := tx.NewUpdate().Table("secrets").Set("last_used_at = ?", database.NewTimestamp(used)).
			Where("organization_id = ?", organization).Where("key = ?", key).
			Where("last_used_at IS NULL OR last_used_at <= ?", database.NewTimestamp(used.Add(-database.TouchEvery))).Exec(ctx)
		return err
	}})
}

// ListSecrets returns the secrets of an organization without their values, by key.
func (st *Store) ListSecrets(ctx context.Context, organization string) ([]action.Secret, error) {
	return database.List[action.Secret](ctx, database.RowsOf[SecretRow](st.db.Read, organization).ExcludeColumn("sealed").Order("key"))
}

// DeleteSecret deletes a secret; ErrNotFound, or ErrConflict while a connector uses it.
func (st *Store) DeleteSecret(ctx context.Context, organization, key string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		users, err := secretUsers(ctx, tx, organization, key)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return action.Errorf(action.ErrConflict, "secret_in_use",
				"The connector %q uses this secret. Change or remove the connector first.", users[0].Name)
		}
		n, err := database.RowsAffected(tx.NewDelete().Model(&SecretRow{Secret: action.Secret{Organization: organization, Key: key}}).WherePK().Exec(ctx))
		if err == nil && n == 0 {
			return secretNotFound(key)
		}
		return err
	})
}

func secretNotFound(key string) error {
	return action.NewError("secret_not_found", key)
}

// secretUsers returns the connectors that send the secret to their server, or to an
// authorization server as their client secret.
func secretUsers(ctx context.Context, tx bun.Tx, organization, key string) ([]action.Connector, error) {
	rows, err := listConnectors(ctx, tx, organization)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(c action.Connector) bool { return !usesSecret(&c, key) }), nil
}

func usesSecret(c *action.Connector, key string) bool {
	return c.Secret == key || c.OAuth != nil && c.OAuth.ClientSecret == key
}
