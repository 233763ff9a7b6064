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

// maxOAuthFlows is how many sign-ins of an organization may be open.
const maxOAuthFlows = 20

type oauthFlowRow struct {
	bun.BaseModel `bun:"table:oauth_flows"`

	StateHash    string `bun:"state_hash,pk"`
	Organization string `bun:"organization_id"`
	Connector    string `bun:"connector_id"`
	By           string `bun:"by"`
	ExpiresAt    stamp  `bun:"expires_at"`
	Sealed       []byte `bun:"sealed"`
}

// PutOAuthFlow writes a sign-in that begins, after those of the organization
// went that are over. ErrNotFound without the connector, ErrTooMany.
func (db *DB) PutOAuthFlow(ctx context.Context, f action.OAuthFlow) error {
	r := &oauthFlowRow{
		StateHash: f.StateHash, Organization: f.Organization, Connector: f.Connector, By: f.By, ExpiresAt: at(f.ExpiresAt), Sealed: f.Sealed,
	}
	now := at(db.now())
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := connectorOf(ctx, tx, f.Organization, f.Connector); err != nil {
			return err
		}
		_, err := tx.NewDelete().Table("oauth_flows").Where("organization_id = ?", f.Organization).Where("expires_at <= ?", now).Exec(ctx)
		if err != nil {
			return fmt.Errorf("forgetting old sign-ins: %w", err)
		}
		n, err := oauthFlows(tx, f.Organization).Count(ctx)
		if err != nil {
			return fmt.Errorf("counting sign-ins: %w", err)
		}
		if n >= maxOAuthFlows {
			return action.NewError("too_many_sign_ins", n)
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing a sign-in: %w", err)
		}
		return nil
	})
}

func oauthFlows(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Table("oauth_flows").Where("organization_id = ?", organization)
}

// TakeOAuthFlow removes a sign-in and returns it, once: ErrNotFound afterwards,
// and ErrGone when it is over.
func (db *DB) TakeOAuthFlow(ctx context.Context, stateHash string, now time.Time) (action.OAuthFlow, error) {
	r := &oauthFlowRow{}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		err := tx.NewDelete().Model(r).Where("state_hash = ?", stateHash).Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return action.NewError("sign_in_not_found")
		}
		if err != nil {
			return fmt.Errorf("taking a sign-in: %w", err)
		}
		return nil
	})
	if err != nil {
		return action.OAuthFlow{}, err
	}
	if !now.Before(r.ExpiresAt.t) {
		return action.OAuthFlow{}, action.Errorf(action.ErrGone, "sign_in_over", "This sign-in took too long; connect again.")
	}
	return action.OAuthFlow{
		StateHash: r.StateHash, Organization: r.Organization, Connector: r.Connector, By: r.By, ExpiresAt: r.ExpiresAt.t, Sealed: r.Sealed,
	}, nil
}
