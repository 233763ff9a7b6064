package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// creatorSQL finds who may not decide about the calls of a session: the one
// who made it, where the organization's settings say so. It is asked in the
// statement that decides; the empty text is nobody.
func creatorSQL(organization, session string) string {
	return `coalesce((SELECT s.created_by FROM sessions s JOIN organizations o ON o.id = s.organization_id
  WHERE s.organization_id = ` + organization + ` AND s.id = ` + session + ` AND o.self_approval = 0), '')`
}

func selfApproval(invocation string) error {
	return action.NewError("self_approval").WithInvocation(invocation)
}

// barred returns an error when the person may not approve what the session
// asks for.
func barred(ctx context.Context, tx bun.IDB, organization, session, by, invocation string) error {
	var creator string
	if err := tx.NewRaw("SELECT "+creatorSQL("?", "?"), organization, session).Scan(ctx, &creator); err != nil {
		return fmt.Errorf("reading who made session %s: %w", session, err)
	}
	if creator == by {
		return selfApproval(invocation)
	}
	return nil
}

// mayDecide checks that the session is live, and that the person may let
// through what it asks for.
func mayDecide(ctx context.Context, tx bun.IDB, organization, session, by string, now time.Time) error {
	s, err := sessionIn(ctx, tx, organization, session)
	if err != nil {
		return err
	}
	if s.Live(now) != nil {
		return action.Errorf(action.ErrConflict, "session_ended", "The session has ended, so nothing can be let through for it any more.")
	}
	return barred(ctx, tx, organization, session, by, "")
}

// sessionIn reads a session of the organization within a transaction.
func sessionIn(ctx context.Context, tx bun.IDB, organization, id string) (action.Session, error) {
	r, err := one[sessionRow](ctx, rowsOf[sessionRow](tx, organization).Where("id = ?", id), noSession())
	return r.session(), err
}
