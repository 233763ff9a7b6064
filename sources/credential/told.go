package credential

import (
	"context"
	"errors"
	"fmt"

	"sallyport/action"
)

// Told writes what a service or a broker said of an integration that was read
// before, also where its credential was renewed meanwhile. It does nothing when
// the integration is gone, or has that status by now. ErrConflict when it has
// another one, or is of another account: what was said is to be looked at anew.
func (t *Tokens) Told(ctx context.Context, in action.Integration, status action.IntegrationStatus, reason string) error {
	for range 3 {
		now, err := t.Store.IntegrationCredential(ctx, in.Organization, in.ID)
		switch {
		case errors.Is(err, action.ErrNotFound) || err == nil && now.Status == status:
			return nil
		case err != nil:
			return fmt.Errorf("reading integration %s: %w", in.ID, err)
		case now.Account != in.Account || now.Status != in.Status:
			return unsettled(in.ID)
		}
		if written, err := t.putStatus(ctx, now, status, reason); written {
			return err
		}
	}
	return unsettled(in.ID)
}

func unsettled(id string) error {
	return action.Errorf(action.ErrConflict, "integration_moved", "Integration %s was changed just now; try again.", id)
}

// Recheck follows a hint that an integration may do otherwise than its row says:
// it asks those who know, and writes what they answer, as [Tokens.Check] does. An
// error says why they could not be asked.
func (t *Tokens) Recheck(ctx context.Context, in action.Integration) error {
	_, err := t.Check(ctx, in)
	if errors.Is(err, action.ErrNotFound) {
		return nil // it was disconnected
	}
	return err
}
