package calls

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/connect"
	"sallyport/store/database"
	"sallyport/store/sessions"
)

// CreateSession inserts a session and returns it with its defaults: an ID, the
// kind (interactive, or unattended with an automation), the type (coding) and
// the creation time. Its creator must have access to the integrations that it
// is bound to.
func (st *Store) CreateSession(ctx context.Context, s action.Session) (action.Session, error) {
	if err := st.PrepareSession(&s); err != nil {
		return action.Session{}, err
	}
	r := sessions.NewSessionRow(&s)
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := connect.CheckConnections(ctx, tx, s.Organization, s.CreatedBy, s.Connections, false); err != nil {
			return err
		}
		_, err := tx.NewInsert().Model(r).Exec(ctx)
		return err
	})
	if err != nil {
		return action.Session{}, fmt.Errorf("making a session: %w", err)
	}
	return r.Session(), nil
}

// maxCreateTries limits the retries if the session of an idempotency key is
// deleted between the insert and the select.
const maxCreateTries = 3

// MakeSession is CreateSession with an idempotency key: it returns the existing
// session of the key if there is one. ErrConflict if the key was used with
// another request.
func (st *Store) MakeSession(ctx context.Context, s action.Session, key action.Idempotency) (created action.Session, existed bool, err error) {
	if key.Key == "" {
		created, err = st.CreateSession(ctx, s)
		return created, false, err
	}
	if err := st.PrepareSession(&s); err != nil {
		return created, false, err
	}
	r := sessions.NewSessionRow(&s)
	r.Key, r.Hash = database.NullString(key.Key), database.NullString(key.Hash)
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := connect.CheckConnections(ctx, tx, s.Organization, s.CreatedBy, s.Connections, false); err != nil {
			return err
		}
		for range maxCreateTries {
			n, err := database.RowsAffected(tx.NewInsert().Model(r).On("CONFLICT (organization_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING").Exec(ctx))
			if created, existed = r.Session(), false; err != nil || n > 0 {
				return err
			}
			if created, existed, err = sessionByKey(ctx, tx, s.Organization, key); err != nil || existed {
				return err
			}
		}
		return action.NewError("unavailable")
	})
	if err != nil {
		return action.Session{}, false, fmt.Errorf("making a session: %w", err)
	}
	return created, existed, nil
}

// SessionOnce returns the session of an idempotency key, if there is one.
// ErrConflict if the key was used with another request.
func (st *Store) SessionOnce(ctx context.Context, organization string, key action.Idempotency) (s action.Session, found bool, err error) {
	return sessionByKey(ctx, st.db.Read, organization, key)
}

func sessionByKey(ctx context.Context, tx bun.IDB, organization string, key action.Idempotency) (action.Session, bool, error) {
	var r sessions.SessionRow
	err := tx.NewSelect().Model(&r).Where("organization_id = ?", organization).Where("idempotency_key = ?", key.Key).Scan(ctx)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return action.Session{}, false, nil
	case err != nil:
		return action.Session{}, false, fmt.Errorf("looking for the session of a key: %w", err)
	case string(r.Hash) != key.Hash:
		return action.Session{}, false, action.Errorf(action.ErrConflict, "idempotency_key_reused",
			"This idempotency key made another session, or one for somebody else; use a new key for a new session.").WithField("/idempotency_key")
	}
	return r.Session(), true, nil
}
