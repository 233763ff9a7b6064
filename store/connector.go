package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// MaxConnectors is how many an organization may have.
const MaxConnectors = 50

type connectorRow struct {
	bun.BaseModel `bun:"table:connectors"`
	action.Connector
	TrustedAt *time.Time // see ObserveTools
}

// newConnectorRow is that of a connector as it is first written.
func newConnectorRow(c action.Connector, now stamp) *connectorRow {
	r := &connectorRow{Connector: c}
	r.Revision, r.UpdatedAt = 1, now.t
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	if len(r.Risks) == 0 {
		r.Risks = nil
	}
	if len(r.MayAsk) == 0 {
		r.MayAsk = nil
	}
	switch c.Review {
	case "":
		r.Review = action.ReviewTrust
	case action.ReviewRequired:
		r.TrustedAt = now.ptr() // no list is to be trusted, also when the rule is milder one day
	}
	return r
}

func (r *connectorRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventConnector, Subject: r.Source(), By: by}
}

func (r *connectorRow) snapshot() any { return r.Connector }

// CreateConnector writes a connector with revision 1, and with it, unless it is
// nil, a secret that it uses, as [DB.PutSecret] would. An empty id is filled in
// by nobody: the caller needs it.
func (db *DB) CreateConnector(ctx context.Context, c action.Connector, secret *action.SealedSecret, by string) error {
	if c.ID == "" {
		return errors.New("a connector needs an id")
	}
	if err := c.Check(); err != nil {
		return err
	}
	r := newConnectorRow(c, at(db.now()))
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		others, err := connectorsOf(ctx, tx, c.Organization)
		if err != nil {
			return err
		}
		if len(others) >= MaxConnectors {
			return action.NewError("too_many_connectors", MaxConnectors)
		}
		if err := db.checkConnector(ctx, tx, r, secret, others); err != nil {
			return err
		}
		if err := db.create(ctx, tx, r, by, 0); err != nil {
			return err
		}
		return catalogMoved(ctx, tx, c.Organization)
	})
}

// UpdateConnector replaces the row of c.ID; its slug and organization stay. With
// it, unless it is nil, a secret is written that it uses from now on.
// The revision counts up when a call would do something else than before.
// Then, and when it is turned on or off, policy moves too, so that no decision
// outlives what it rested on. The caller's Revision is not looked at.
func (db *DB) UpdateConnector(ctx context.Context, c action.Connector, secret *action.SealedSecret, by string) error {
	if err := c.Check(); err != nil {
		return err
	}
	now := at(db.now())
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		r := newConnectorRow(c, now)
		old, err := connectorOf(ctx, tx, c.Organization, c.ID)
		if err != nil {
			return err
		}
		if r.Slug != old.Slug {
			return invalid("/slug", "A connector keeps its slug: the names of its tools rest on it.")
		}
		others, err := connectorsOf(ctx, tx, c.Organization)
		if err != nil {
			return err
		}
		if err := db.checkConnector(ctx, tx, r, secret, others); err != nil {
			return err
		}
		if r.CreatedAt = old.CreatedAt; old.TrustedAt != nil {
			r.TrustedAt = old.TrustedAt
		}
		if r.Revision = old.Revision; r.differs(&old) {
			r.Revision++
		}
		if r.Revision != old.Revision || r.Enabled != old.Enabled {
			if err := db.connectorChanged(ctx, tx, &old, r, by); err != nil {
				return err
			}
		}
		_, err = tx.NewUpdate().Model(r).WherePK().Exec(ctx)
		if err != nil {
			return fmt.Errorf("changing connector %s: %w", c.ID, err)
		}
		return catalogMoved(ctx, tx, c.Organization)
	})
}

// differs reports whether a call would do something else than before.
func (r *connectorRow) differs(old *connectorRow) bool {
	text := func(o *action.OAuthSettings) string { return asJSON[*action.OAuthSettings]{o}.text() }
	return r.URL != old.URL || r.Header != old.Header || r.Prefix != old.Prefix || r.Secret != old.Secret ||
		r.DefaultRisk != old.DefaultRisk || r.Review != old.Review || !maps.Equal(r.Risks, old.Risks) ||
		!maps.Equal(r.Headers, old.Headers) || text(r.OAuth) != text(old.OAuth) ||
		!slices.Equal(r.MayAsk, old.MayAsk) || r.PerAgent != old.PerAgent || r.TimeoutSeconds != old.TimeoutSeconds
}

// connectorChanged counts a change, and takes back the reviews and grants that
// do not outlast it. Behind another URL may be another server. Where people must
// review, what they never looked at is not reviewed. Tokens go nowhere but where
// they were had for.
func (db *DB) connectorChanged(ctx context.Context, tx bun.Tx, old, r *connectorRow, by string) (err error) {
	switch {
	case r.URL != old.URL:
		if err = db.resetReviews(ctx, tx, old, "", by); err == nil {
			err = db.revokeGrantsOf(ctx, tx, old.Organization, old.Source(), by)
		}
	case r.Review == action.ReviewRequired && r.Review != old.Review:
		err = db.resetReviews(ctx, tx, old, firstList, by)
	}
	if err == nil && old.OAuth != nil && !r.KeepsTokens(&old.Connector) {
		err = signOut(ctx, tx, old)
	}
	if err != nil {
		return err
	}
	return db.policyChanged(ctx, tx, r.event(by), old.snapshot(), r.snapshot())
}

// ListConnectors returns the organization's connectors by name.
func (db *DB) ListConnectors(ctx context.Context, organization string) ([]action.Connector, error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	rows := []action.Connector{}
	if err := db.stmts.connectors.models(ctx, db.read, &rows, organization); err != nil {
		return nil, fmt.Errorf("listing connectors: %w", err)
	}
	return rows, nil
}

// Connector returns one connector; ErrNotFound.
func (db *DB) Connector(ctx context.Context, organization, id string) (action.Connector, error) {
	r, err := connectorOf(ctx, db.read, organization, id)
	return r.Connector, err
}

// ConnectorByName returns the connector with the slug or the name; ErrNotFound.
// No name is another's slug, so there is one at most.
func (db *DB) ConnectorByName(ctx context.Context, organization, name string) (action.Connector, error) {
	rows, err := db.ListConnectors(ctx, organization)
	if err != nil {
		return action.Connector{}, err
	}
	i := slices.IndexFunc(rows, func(c action.Connector) bool { return hasName(&c, name) })
	if name == "" || i < 0 {
		return action.Connector{}, noConnector(name)
	}
	return rows[i], nil
}

// hasName reports whether people may mean the connector by the name.
func hasName(c *action.Connector, name string) bool {
	return strings.EqualFold(c.Slug, name) || strings.EqualFold(c.Name, name)
}

func noConnector(name string) error {
	return action.NewError("connector_not_found", name)
}

func connectorsOf(ctx context.Context, db bun.IDB, organization string) ([]action.Connector, error) {
	return list[action.Connector](ctx, connectorList(db, organization))
}

func connectorList(db bun.IDB, organization any) *bun.SelectQuery {
	return db.NewSelect().Model((*connectorRow)(nil)).ExcludeColumn("trusted_at").
		Where("organization_id = ?", organization).OrderExpr("lower(name), id")
}

func connectorsQuery(db *bun.DB) string { return connectorList(db, bun.Safe("?1")).String() }

func connectorOf(ctx context.Context, db bun.IDB, organization, id string) (connectorRow, error) {
	return one[connectorRow](ctx, rowsOf[connectorRow](db, organization).Where("id = ?", id), noConnector(id))
}
