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

// CreateSession writes a session and returns it with what was left out: an id,
// its kind (interactive, or unattended with an automation), its type (coding)
// and when it was made. It can be bound to integrations that who makes it may
// see.
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

// makeTries is how often the session of a key may be deleted between the attempt
// to make it and the look at it.
const makeTries = 3

// MakeSession is CreateSession, but that the session of the same key is
// returned when there is one. ErrConflict: that was made by another wish.
func (st *Store) MakeSession(ctx context.Context, s action.Session, once action.Idempotency) (made action.Session, existed bool, err error) {
	if once.Key == "" {
		made, err = st.CreateSession(ctx, s)
		return made, false, err
	}
	if err := st.PrepareSession(&s); err != nil {
		return made, false, err
	}
	r := sessions.NewSessionRow(&s)
	r.Key, r.Hash = database.NullString(once.Key), database.NullString(once.Hash)
	err = st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := connect.CheckConnections(ctx, tx, s.Organization, s.CreatedBy, s.Connections, false); err != nil {
			return err
		}
		for range makeTries {
			n, err := database.RowsAffected(tx.NewInsert().Model(r).On("CONFLICT (organization_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING").Exec(ctx))
			if made, existed = r.Session(), false; err != nil || n > 0 {
				return err
			}
			if made, existed, err = sessionOnce(ctx, tx, s.Organization, once); err != nil || existed {
				return err
			}
		}
		return action.NewError("unavailable")
	})
	if err != nil {
		return action.Session{}, false, fmt.Errorf("making a session: %w", err)
	}
	return made, existed, nil
}

// SessionOnce returns the session that was made with a key, if there is one.
// ErrConflict: it was made by another wish.
func (st *Store) SessionOnce(ctx context.Context, organization string, once action.Idempotency) (s action.Session, found bool, err error) {
	return sessionOnce(ctx, st.db.Read, organization, once)
}

func sessionOnce(ctx context.Context, tx bun.IDB, organization string, once action.Idempotency) (action.Session, bool, error) {
	var r sessions.SessionRow
	err := tx.NewSelect().Model(&r).Where("organization_id = ?", organization).Where("idempotency_key = ?", once.Key).Scan(ctx)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return action.Session{}, false, nil
	case err != nil:
		return action.Session{}, false, fmt.Errorf("looking for the session of a key: %w", err)
	case string(r.Hash) != once.Hash:
		return action.Session{}, false, action.Errorf(action.ErrConflict, "idempotency_key_reused",
			"This idempotency key made another session, or one for somebody else; use a new key for a new session.").WithField("/idempotency_key")
	}
	return r.Session(), true, nil
}
