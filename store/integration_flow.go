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

// How many connections may have begun and not ended: of an organization, and of
// one person in it, who could else keep all others from theirs.
const (
	maxIntegrationFlows = 100
	maxFlowsOfOnePerson = 10
)

type integrationFlowRow struct {
	bun.BaseModel `bun:"table:integration_flows"`

	StateHash    string `bun:"state_hash,pk"`
	Organization string `bun:"organization_id"`
	Provider     string `bun:"provider"`
	By           string `bun:"by"`
	Login        string `bun:"login"`
	ExpiresAt    stamp  `bun:"expires_at"`
	Sealed       []byte `bun:"sealed"`
}

// PutIntegrationFlow writes a connection that begins, after those of the
// organization went that are over. ErrTooMany.
func (db *DB) PutIntegrationFlow(ctx context.Context, f action.IntegrationFlow) error {
	r := &integrationFlowRow{
		StateHash: f.StateHash, Organization: f.Organization, Provider: f.Provider, By: f.By, Login: f.Login, ExpiresAt: at(f.ExpiresAt), Sealed: f.Sealed,
	}
	now := at(db.now())
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Table("integration_flows").Where("organization_id = ?", f.Organization).Where("expires_at <= ?", now).Exec(ctx)
		if err != nil {
			return fmt.Errorf("forgetting old connections: %w", err)
		}
		if err := checkFlows(ctx, tx, f.Organization, f.By); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing a connection: %w", err)
		}
		return nil
	})
}

// checkFlows refuses one more than may be under way.
func checkFlows(ctx context.Context, tx bun.Tx, organization, by string) error {
	all, err := integrationFlows(tx, organization).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting connections: %w", err)
	}
	his, err := integrationFlows(tx, organization).Where("? = ?", bun.Ident("by"), by).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting a person's connections: %w", err)
	}
	switch {
	case his >= maxFlowsOfOnePerson:
		return action.Errorf(action.ErrTooMany, "too_many_connections", "You began %d connections and ended none of them; end one, or try again in some minutes.", his)
	case all >= maxIntegrationFlows:
		return action.Errorf(action.ErrTooMany, "too_many_connections", "%d connections were begun and not ended; end one of them, or try again in some minutes.", all)
	}
	return nil
}

func integrationFlows(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Table("integration_flows").Where("organization_id = ?", organization)
}

// TakeIntegrationFlow removes a connection that the user began with the login
// and returns it, once: ErrNotFound afterwards, and ErrGone when it is over. That
// of another stays as it is, and is not found.
func (db *DB) TakeIntegrationFlow(ctx context.Context, organization, stateHash, by, login string, now time.Time) (action.IntegrationFlow, error) {
	r := &integrationFlowRow{}
	err := db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		err := tx.NewDelete().Model(r).Where("state_hash = ?", stateHash).Where("organization_id = ?", organization).
			Where("? = ?", bun.Ident("by"), by).Where("login = ?", login).Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return action.NewError("connection_not_found")
		}
		if err != nil {
			return fmt.Errorf("taking a connection: %w", err)
		}
		return nil
	})
	if err != nil {
		return action.IntegrationFlow{}, err
	}
	if !now.Before(r.ExpiresAt.t) {
		return action.IntegrationFlow{}, action.NewError("connection_over")
	}
	return action.IntegrationFlow{
		StateHash: r.StateHash, Organization: r.Organization, Provider: r.Provider, By: r.By, Login: r.Login, ExpiresAt: r.ExpiresAt.t, Sealed: r.Sealed,
	}, nil
}
