package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"sallyport/action"
)

type oauthGrantRow struct {
	bun.BaseModel `bun:"table:oauth_grants"`

	Organization string `bun:"organization_id,pk"`
	Connector    string `bun:"connector_id,pk"`
	Issuer       string `bun:"issuer"`
	ClientID     opt    `bun:"client_id"`
	Scope        opt    `bun:"scope"`
	Status       string `bun:"status"`
	Reason       opt    `bun:"reason"`
	By           opt    `bun:"by"`
	ExpiresAt    stamp  `bun:"expires_at"`
	UpdatedAt    stamp  `bun:"updated_at"`
	Version      int64  `bun:"version"`
	Sealed       []byte `bun:"sealed"`
}

func (r *oauthGrantRow) grant() action.OAuthGrant {
	return action.OAuthGrant{
		Organization: r.Organization, Connector: r.Connector, Issuer: r.Issuer, ClientID: string(r.ClientID), Scope: string(r.Scope),
		Status: action.OAuthStatus(r.Status), Reason: string(r.Reason), ExpiresAt: r.ExpiresAt.ptr(), By: string(r.By), UpdatedAt: r.UpdatedAt.t,
		Version: r.Version, Sealed: r.Sealed,
	}
}

func newOAuthGrantRow(g *action.OAuthGrant, now stamp) *oauthGrantRow {
	r := &oauthGrantRow{
		Organization: g.Organization, Connector: g.Connector, Issuer: g.Issuer, ClientID: opt(g.ClientID), Scope: opt(g.Scope),
		Status: string(g.Status), Reason: opt(g.Reason), By: opt(g.By), ExpiresAt: atPtr(g.ExpiresAt), UpdatedAt: at(g.UpdatedAt).or(now),
		Version: g.Version + 1, Sealed: g.Sealed,
	}
	if g.Status == action.OAuthConnected {
		r.Reason = "" // of the time before
	}
	return r
}

// signIn is what history says of tokens.
type signIn struct {
	Grant action.OAuthGrant `json:"oauth_grant"`
}

// OAuthGrant returns the tokens of a connector; ErrNotFound.
func (db *DB) OAuthGrant(ctx context.Context, organization, connector string) (action.OAuthGrant, error) {
	r, err := oauthGrantOf(ctx, db.read, organization, connector)
	switch {
	case err != nil:
		return action.OAuthGrant{}, err
	case r == nil:
		return action.OAuthGrant{}, noOAuthGrant()
	}
	return r.grant(), nil
}

// ListOAuthGrants returns what can be said of the tokens of the organization's
// connectors, by connector, without what is sealed.
func (db *DB) ListOAuthGrants(ctx context.Context, organization string) ([]action.OAuthGrant, error) {
	var rows []oauthGrantRow
	err := db.read.NewSelect().Model(&rows).ExcludeColumn("sealed").
		Where("organization_id = ?", organization).Order("connector_id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the sign-ins of connectors: %w", err)
	}
	list := make([]action.OAuthGrant, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].grant())
	}
	return list, nil
}

// PutOAuthGrant writes tokens in the place of those of g.Version; zero: there
// are none. They get the next version. ErrConflict, code "oauth_moved", when
// others are there, and ErrNotFound without the connector. That somebody signed
// in is recorded; a refresh is not.
func (db *DB) PutOAuthGrant(ctx context.Context, g action.OAuthGrant) error {
	r := newOAuthGrantRow(&g, at(db.now()))
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		c, err := connectorOf(ctx, tx, g.Organization, g.Connector)
		if err != nil {
			return err
		}
		old, err := oauthGrantOf(ctx, tx, g.Organization, g.Connector)
		if err != nil {
			return err
		}
		if at := old.version(); at != g.Version {
			return action.NewError("oauth_moved")
		}
		_, err = tx.NewInsert().Model(r).On("CONFLICT (organization_id, connector_id) DO UPDATE").
			Set("issuer = EXCLUDED.issuer, client_id = EXCLUDED.client_id, scope = EXCLUDED.scope, status = EXCLUDED.status, reason = EXCLUDED.reason").
			Set("by = EXCLUDED.by, expires_at = EXCLUDED.expires_at, updated_at = EXCLUDED.updated_at, version = EXCLUDED.version, sealed = EXCLUDED.sealed").
			Exec(ctx)
		if err != nil {
			return fmt.Errorf("writing the tokens of connector %s: %w", g.Connector, err)
		}
		if !r.signsIn(old) {
			return nil
		}
		return db.signInChanged(ctx, tx, c.event(g.By), old, r)
	})
}

// version is that of the row; zero when there is none.
func (r *oauthGrantRow) version() int64 {
	if r == nil {
		return 0
	}
	return r.Version
}

// signsIn reports whether the row is that of a person who signed in after the
// old one.
func (r *oauthGrantRow) signsIn(old *oauthGrantRow) bool {
	if r.By == "" || r.Status != string(action.OAuthConnected) {
		return false
	}
	return old == nil || old.By != r.By || old.Status != r.Status
}

// signInChanged records that a connector has tokens, or has them no more, and
// tells those who ask its server.
func (db *DB) signInChanged(ctx context.Context, tx bun.Tx, e action.PolicyEvent, old, r *oauthGrantRow) error {
	shown := func(r *oauthGrantRow) any {
		if r == nil {
			return nil
		}
		return signIn{r.grant()}
	}
	if err := db.recordChange(ctx, tx, e, shown(old), shown(r)); err != nil {
		return err
	}
	return catalogMoved(ctx, tx, e.Organization)
}

// DeleteOAuthGrant removes the tokens of a connector; ErrNotFound.
func (db *DB) DeleteOAuthGrant(ctx context.Context, organization, connector, by string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		c, err := connectorOf(ctx, tx, organization, connector)
		if err != nil {
			return err
		}
		old, err := oauthGrantOf(ctx, tx, organization, connector)
		if err != nil {
			return err
		}
		if old == nil {
			return noOAuthGrant()
		}
		if err := signOut(ctx, tx, &c); err != nil {
			return err
		}
		return db.signInChanged(ctx, tx, c.event(by), old, nil)
	})
}

// signOut removes the tokens of a connector, and the sign-ins that began.
func signOut(ctx context.Context, tx bun.Tx, c *connectorRow) error {
	for _, table := range []string{"oauth_grants", "oauth_flows"} {
		_, err := tx.NewDelete().Table(table).Where("organization_id = ?", c.Organization).Where("connector_id = ?", c.ID).Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting %s of connector %s: %w", table, c.ID, err)
		}
	}
	return nil
}

// oauthGrantOf reads the row of a connector; nil when there is none.
func oauthGrantOf(ctx context.Context, db bun.IDB, organization, connector string) (*oauthGrantRow, error) {
	return optional[oauthGrantRow](ctx, rowsOf[oauthGrantRow](db, organization).Where("connector_id = ?", connector))
}

func noOAuthGrant() error {
	return action.NewError("oauth_grant_not_found")
}
