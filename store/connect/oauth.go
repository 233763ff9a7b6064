package connect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/redact"
	"sallyport/store/database"
	"sallyport/store/history"
)

// Limits of unfinished connection flows, per organization and per user, so that one
// user cannot block all others.
const (
	maxIntegrationFlows = 100
	maxUserFlows        = 10
)

type integrationFlowRow struct {
	bun.BaseModel `bun:"table:integration_flows"`
	action.IntegrationFlow
}

// PutIntegrationFlow stores a new connection flow, and deletes expired ones of the
// organization; ErrTooMany.
func (st *Store) PutIntegrationFlow(ctx context.Context, f action.IntegrationFlow) error {
	r := &integrationFlowRow{IntegrationFlow: f}
	now := database.NewTimestamp(st.db.Now())
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Table("integration_flows").Where("organization_id = ?", f.Organization).Where("expires_at <= ?", now).Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting expired connection flows: %w", err)
		}
		if err := checkFlows(ctx, tx, f.Organization, f.By); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing a connection flow: %w", err)
		}
		return nil
	})
}

// checkFlows refuses a flow over the limits.
func checkFlows(ctx context.Context, tx bun.Tx, organization, by string) error {
	all, err := IntegrationFlowsQuery(tx, organization).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting connection flows: %w", err)
	}
	own, err := IntegrationFlowsQuery(tx, organization).Where("? = ?", bun.Ident("by"), by).Count(ctx)
	if err != nil {
		return fmt.Errorf("counting a user's connection flows: %w", err)
	}
	switch {
	case own >= maxUserFlows:
		return action.Errorf(action.ErrTooMany, "too_many_connections", "You have %d unfinished connections. Finish one, or try again in a few minutes.", own)
	case all >= maxIntegrationFlows:
		return action.Errorf(action.ErrTooMany, "too_many_connections", "The organization has %d unfinished connections. Finish one, or try again in a few minutes.", all)
	}
	return nil
}

// IntegrationFlowsQuery selects the connection flows of an organization.
func IntegrationFlowsQuery(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Table("integration_flows").Where("organization_id = ?", organization)
}

// TakeIntegrationFlow deletes and returns a connection flow that the user started in
// the login. Errors: ErrNotFound, also the second time and for the flow of another
// user, which stays; ErrGone if it has expired.
func (st *Store) TakeIntegrationFlow(ctx context.Context, organization, stateHash, by, login string, now time.Time) (action.IntegrationFlow, error) {
	r := &integrationFlowRow{}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		err := tx.NewDelete().Model(r).Where("state_hash = ?", stateHash).Where("organization_id = ?", organization).
			Where("? = ?", bun.Ident("by"), by).Where("login = ?", login).Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return action.NewError("connection_not_found")
		}
		if err != nil {
			return fmt.Errorf("claiming a connection flow: %w", err)
		}
		return nil
	})
	if err != nil {
		return action.IntegrationFlow{}, err
	}
	if !now.Before(r.ExpiresAt) {
		return action.IntegrationFlow{}, action.NewError("connection_over")
	}
	return r.IntegrationFlow, nil
}

// maxOAuthFlows bounds the open sign-ins of an organization.
const maxOAuthFlows = 20

type oauthFlowRow struct {
	bun.BaseModel `bun:"table:oauth_flows"`
	action.OAuthFlow
}

// PutOAuthFlow stores a new sign-in, and deletes expired ones of the organization.
// Errors: ErrNotFound without the connector; ErrTooMany.
func (st *Store) PutOAuthFlow(ctx context.Context, f action.OAuthFlow) error {
	r := &oauthFlowRow{OAuthFlow: f}
	now := database.NewTimestamp(st.db.Now())
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := ReadConnector(ctx, tx, f.Organization, f.Connector); err != nil {
			return err
		}
		_, err := tx.NewDelete().Table("oauth_flows").Where("organization_id = ?", f.Organization).Where("expires_at <= ?", now).Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting expired sign-ins: %w", err)
		}
		n, err := OAuthFlowsQuery(tx, f.Organization).Count(ctx)
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

// OAuthFlowsQuery selects the open sign-ins of an organization.
func OAuthFlowsQuery(db bun.IDB, organization string) *bun.SelectQuery {
	return db.NewSelect().Table("oauth_flows").Where("organization_id = ?", organization)
}

// TakeOAuthFlow deletes and returns a sign-in. Errors: ErrNotFound, also the second
// time; ErrGone if it has expired.
func (st *Store) TakeOAuthFlow(ctx context.Context, stateHash string, now time.Time) (action.OAuthFlow, error) {
	r := &oauthFlowRow{}
	err := st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		err := tx.NewDelete().Model(r).Where("state_hash = ?", stateHash).Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return action.NewError("sign_in_not_found")
		}
		if err != nil {
			return fmt.Errorf("claiming a sign-in: %w", err)
		}
		return nil
	})
	if err != nil {
		return action.OAuthFlow{}, err
	}
	if !now.Before(r.ExpiresAt) {
		return action.OAuthFlow{}, action.Errorf(action.ErrGone, "sign_in_over", "This sign-in took too long. Start it again.")
	}
	return r.OAuthFlow, nil
}

// OAuthGrantRow is a row of the table oauth_grants: the tokens of a connector.
type OAuthGrantRow struct {
	bun.BaseModel `bun:"table:oauth_grants"`
	action.OAuthGrant
}

// signInRecord is the snapshot of tokens in history.
type signInRecord struct {
	Grant action.OAuthGrant `json:"oauth_grant"`
}

// OAuthGrant returns the tokens of a connector; ErrNotFound.
func (st *Store) OAuthGrant(ctx context.Context, organization, connector string) (action.OAuthGrant, error) {
	return database.One[action.OAuthGrant](ctx, oauthGrantQuery(st.db.Read, organization, connector), oauthGrantNotFound())
}

// ListOAuthGrants returns the tokens of all connectors of an organization, by
// connector, without their sealed values.
func (st *Store) ListOAuthGrants(ctx context.Context, organization string) ([]action.OAuthGrant, error) {
	q := database.RowsOf[OAuthGrantRow](st.db.Read, organization).ExcludeColumn("sealed").Order("connector_id")
	return database.List[action.OAuthGrant](ctx, q)
}

// PutOAuthGrant replaces the tokens of version g.Version (zero: none) and increments the
// version. It records a sign-in of a person, but no refresh. Errors: ErrConflict, code
// "oauth_moved", if the stored version differs; ErrNotFound without the connector.
func (st *Store) PutOAuthGrant(ctx context.Context, g action.OAuthGrant) error {
	r := &OAuthGrantRow{OAuthGrant: g}
	r.Version, r.UpdatedAt = g.Version+1, database.NewTimestamp(g.UpdatedAt).Or(database.NewTimestamp(st.db.Now())).Time
	if r.ExpiresAt = database.TimestampFromPtr(g.ExpiresAt).Ptr(); g.Status == action.OAuthConnected {
		r.Reason = "" // of an earlier failure
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		c, err := ReadConnector(ctx, tx, g.Organization, g.Connector)
		if err != nil {
			return err
		}
		old, err := findOAuthGrant(ctx, tx, g.Organization, g.Connector)
		if err != nil {
			return err
		}
		if old == nil && g.Version != 0 || old != nil && old.Version != g.Version {
			return action.NewError("oauth_moved")
		}
		if old == nil {
			_, err = tx.NewInsert().Model(r).Exec(ctx)
		} else {
			_, err = tx.NewUpdate().Model(r).WherePK().Exec(ctx)
		}
		if err != nil {
			return fmt.Errorf("writing the tokens of connector %s: %w", g.Connector, err)
		}
		if !r.isNewSignIn(old) {
			return nil
		}
		return st.recordSignIn(ctx, tx, c.Event(g.By), old, r)
	})
}

// isNewSignIn reports whether a person signed in since the old row, as opposed to a
// refresh.
func (r *OAuthGrantRow) isNewSignIn(old *OAuthGrantRow) bool {
	if r.By == "" || r.Status != action.OAuthConnected {
		return false
	}
	return old == nil || old.By != r.By || old.Status != r.Status
}

// recordSignIn records new or deleted tokens of a connector, and increments the catalog
// version.
func (st *Store) recordSignIn(ctx context.Context, tx bun.Tx, e action.PolicyEvent, old, r *OAuthGrantRow) error {
	snapshot := func(r *OAuthGrantRow) any {
		if r == nil {
			return nil
		}
		return signInRecord{r.OAuthGrant}
	}
	if err := st.history.RecordChange(ctx, tx, e, snapshot(old), snapshot(r)); err != nil {
		return err
	}
	return history.BumpCatalogVersion(ctx, tx, e.Organization)
}

// DeleteOAuthGrant removes the tokens of a connector; ErrNotFound.
func (st *Store) DeleteOAuthGrant(ctx context.Context, organization, connector, by string) error {
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		c, err := ReadConnector(ctx, tx, organization, connector)
		if err != nil {
			return err
		}
		old, err := findOAuthGrant(ctx, tx, organization, connector)
		if err != nil {
			return err
		}
		if old == nil {
			return oauthGrantNotFound()
		}
		if err := deleteTokens(ctx, tx, &c); err != nil {
			return err
		}
		return st.recordSignIn(ctx, tx, c.Event(by), old, nil)
	})
}

// deleteTokens removes the tokens of a connector, and the sign-ins that began.
func deleteTokens(ctx context.Context, tx bun.Tx, c *ConnectorRow) error {
	for _, table := range []string{"oauth_grants", "oauth_flows"} {
		_, err := tx.NewDelete().Table(table).Where("organization_id = ?", c.Organization).Where("connector_id = ?", c.ID).Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting %s of connector %s: %w", table, c.ID, err)
		}
	}
	return nil
}

// findOAuthGrant reads the tokens of a connector; nil if there are none.
func findOAuthGrant(ctx context.Context, db bun.IDB, organization, connector string) (*OAuthGrantRow, error) {
	return database.Optional[OAuthGrantRow](ctx, oauthGrantQuery(db, organization, connector))
}

func oauthGrantQuery(db bun.IDB, organization, connector string) *bun.SelectQuery {
	return database.RowsOf[OAuthGrantRow](db, organization).Where("connector_id = ?", connector)
}

func oauthGrantNotFound() error {
	return action.NewError("oauth_grant_not_found")
}

// checkClient refuses an issuer that contains a credential, and an OAuth client whose
// secret does not exist. The host of that secret is checked at the sign-in, which
// discovers the token endpoint.
func checkClient(ctx context.Context, tx bun.Tx, r *ConnectorRow) error {
	o := r.OAuth
	switch {
	case o == nil:
		return nil
	case redact.JSON{}.RedactText(o.Issuer, nil) != o.Issuer:
		return database.Invalid("/oauth/issuer", "An issuer must be an https URL without user, query and fragment; http is accepted on this machine only.")
	case o.ClientSecret == "":
		return nil
	}
	found, err := database.Exists(ctx, tx.NewSelect().Table("secrets").Where("organization_id = ?", r.Organization).Where("key = ?", o.ClientSecret))
	if err != nil {
		return fmt.Errorf("reading secret %s: %w", o.ClientSecret, err)
	}
	if !found {
		return database.Invalid("/oauth/client_secret", fmt.Sprintf("There is no secret %q. Set it first, for the host of the token endpoint.", o.ClientSecret))
	}
	return nil
}
