package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// MaxConnectors is how many an organization may have.
const MaxConnectors = 50

type connectorRow struct {
	bun.BaseModel `bun:"table:connectors"`

	ID           string `bun:"id,pk"`
	Organization string `bun:"organization_id"`
	Name         string `bun:"name"`
	Slug         string `bun:"slug"`
	URL          string `bun:"url"`
	Header       opt    `bun:"header"`
	Prefix       opt    `bun:"prefix"`
	Secret       opt    `bun:"secret_key"`
	DefaultRisk  opt    `bun:"default_risk"`
	Enabled      bool   `bun:"enabled"`
	Revision     int64  `bun:"revision"`
	Review       string `bun:"review"`
	TrustedAt    stamp  `bun:"trusted_at"` // see ObserveTools
	Risks        risks  `bun:"tool_risks"`
	CreatedAt    stamp  `bun:"created_at"`
	UpdatedAt    stamp  `bun:"updated_at"`

	Headers  asJSON[map[string]string]     `bun:"headers"`
	OAuth    asJSON[*action.OAuthSettings] `bun:"oauth"`
	MayAsk   asJSON[[]action.AskKind]      `bun:"may_ask"`
	PerAgent bool                          `bun:"per_agent"`
	Preset   opt                           `bun:"preset"`
	Timeout  int                           `bun:"timeout_seconds"`
}

func (r *connectorRow) connector() action.Connector {
	return action.Connector{
		ID: r.ID, Organization: r.Organization, Name: r.Name, Slug: r.Slug, URL: r.URL,
		Header: string(r.Header), Prefix: string(r.Prefix), Secret: string(r.Secret), DefaultRisk: action.Risk(r.DefaultRisk),
		Risks: r.Risks, Review: action.ReviewRule(r.Review), Enabled: r.Enabled, Revision: r.Revision, CreatedAt: r.CreatedAt.t, UpdatedAt: r.UpdatedAt.t,
		Headers: r.Headers.v, OAuth: r.OAuth.v, MayAsk: r.MayAsk.v, PerAgent: r.PerAgent, Preset: string(r.Preset),
		TimeoutSeconds: r.Timeout,
	}
}

func newConnectorRow(c *action.Connector, now stamp) *connectorRow {
	r := &connectorRow{
		ID: c.ID, Organization: c.Organization, Name: c.Name, Slug: c.Slug, URL: c.URL,
		Header: opt(c.Header), Prefix: opt(c.Prefix), Secret: opt(c.Secret), DefaultRisk: opt(c.DefaultRisk),
		Risks: c.Risks, Review: string(c.Review), Enabled: c.Enabled, Revision: 1, CreatedAt: at(c.CreatedAt).or(now), UpdatedAt: now,
		PerAgent: c.PerAgent, Preset: opt(c.Preset), Timeout: c.TimeoutSeconds,
	}
	r.Headers.v, r.OAuth.v, r.MayAsk.v = c.Headers, c.OAuth, c.MayAsk
	switch c.Review {
	case "":
		r.Review = string(action.ReviewTrust)
	case action.ReviewRequired:
		r.TrustedAt = now // no list is to be trusted, also when the rule is milder one day
	}
	return r
}

func (r *connectorRow) source() string { return "connector:" + r.ID }

func (r *connectorRow) event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventConnector, Subject: r.source(), By: by}
}

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
	r := newConnectorRow(&c, at(db.now()))
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		others, err := connectorRows(ctx, tx, c.Organization)
		if err != nil {
			return err
		}
		if len(others) >= MaxConnectors {
			return action.Errorf(action.ErrTooMany, "too_many_connectors", "An organization has at most %d connectors; remove one first.", MaxConnectors)
		}
		if err := db.checkConnector(ctx, tx, r, secret, others); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing connector %s: %w", c.ID, err)
		}
		if err := db.recordChange(ctx, tx, r.event(by), nil, r.connector()); err != nil {
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
		r := newConnectorRow(&c, now)
		old, err := connectorRowOf(ctx, tx, c.Organization, c.ID)
		if err != nil {
			return err
		}
		if r.Slug != old.Slug {
			return invalid("/slug", "A connector keeps its slug: the names of its tools rest on it.")
		}
		others, err := connectorRows(ctx, tx, c.Organization)
		if err != nil {
			return err
		}
		if err := db.checkConnector(ctx, tx, r, secret, others); err != nil {
			return err
		}
		r.CreatedAt, r.TrustedAt = old.CreatedAt, old.TrustedAt.or(r.TrustedAt)
		if r.Revision = old.Revision; r.differs(old) {
			r.Revision++
		}
		if r.Revision != old.Revision || r.Enabled != old.Enabled {
			if err := db.connectorChanged(ctx, tx, old, r, by); err != nil {
				return err
			}
		}
		_, err = tx.NewUpdate().Model(r).WherePK().Where("organization_id = ?", c.Organization).Exec(ctx)
		if err != nil {
			return fmt.Errorf("changing connector %s: %w", c.ID, err)
		}
		return catalogMoved(ctx, tx, c.Organization)
	})
}

// differs reports whether a call would do something else than before.
func (r *connectorRow) differs(old *connectorRow) bool {
	return r.URL != old.URL || r.Header != old.Header || r.Prefix != old.Prefix || r.Secret != old.Secret ||
		r.DefaultRisk != old.DefaultRisk || r.Review != old.Review || !maps.Equal(r.Risks, old.Risks) ||
		!maps.Equal(r.Headers.v, old.Headers.v) || r.OAuth.text() != old.OAuth.text() ||
		!slices.Equal(r.MayAsk.v, old.MayAsk.v) || r.PerAgent != old.PerAgent || r.Timeout != old.Timeout
}

// connectorChanged counts a change, and takes back the reviews and grants that
// do not outlast it. Behind another URL may be another server. Where people must
// review, what they never looked at is not reviewed. Tokens go nowhere but where
// they were had for.
func (db *DB) connectorChanged(ctx context.Context, tx bun.Tx, old, r *connectorRow, by string) (err error) {
	switch {
	case r.URL != old.URL:
		if err = db.resetReviews(ctx, tx, old, "", by); err == nil {
			err = db.revokeGrantsOf(ctx, tx, old.Organization, old.source(), by)
		}
	case r.Review == string(action.ReviewRequired) && r.Review != old.Review:
		err = db.resetReviews(ctx, tx, old, firstList, by)
	}
	if now, was := r.connector(), old.connector(); err == nil && was.OAuth != nil && !now.KeepsTokens(&was) {
		err = signOut(ctx, tx, old)
	}
	if err != nil {
		return err
	}
	return db.policyChanged(ctx, tx, r.event(by), old.connector(), r.connector())
}

// ListConnectors returns the organization's connectors by name.
func (db *DB) ListConnectors(ctx context.Context, organization string) ([]action.Connector, error) {
	rows, err := db.connectorRows(ctx, organization)
	if err != nil {
		return nil, err
	}
	list := make([]action.Connector, 0, len(rows))
	for i := range rows {
		list = append(list, rows[i].connector())
	}
	return list, nil
}

// Connector returns one connector; ErrNotFound.
func (db *DB) Connector(ctx context.Context, organization, id string) (action.Connector, error) {
	r, err := connectorRowOf(ctx, db.read, organization, id)
	if err != nil {
		return action.Connector{}, err
	}
	return r.connector(), nil
}

// ConnectorByName returns the connector with the slug or the name; ErrNotFound.
// No name is another's slug, so there is one at most.
func (db *DB) ConnectorByName(ctx context.Context, organization, name string) (action.Connector, error) {
	rows, err := db.connectorRows(ctx, organization)
	if err != nil {
		return action.Connector{}, err
	}
	i := slices.IndexFunc(rows, func(r connectorRow) bool { return r.called(name) })
	if name == "" || i < 0 {
		return action.Connector{}, noConnector(name)
	}
	return rows[i].connector(), nil
}

// called reports whether people may mean the connector by the name.
func (r *connectorRow) called(name string) bool {
	return strings.EqualFold(r.Slug, name) || strings.EqualFold(r.Name, name)
}

func noConnector(name string) error {
	return action.Errorf(action.ErrNotFound, "connector_not_found", "There is no connector %q.", name)
}

func connectorRows(ctx context.Context, db bun.IDB, organization string) ([]connectorRow, error) {
	var rows []connectorRow
	err := connectorsOf(db.NewSelect().Model(&rows), organization).Scan(ctx)
	return rows, listing(err)
}

// connectorRows reads them outside of a transaction.
func (db *DB) connectorRows(ctx context.Context, organization string) (rows []connectorRow, err error) {
	ctx, stop := db.lookup(ctx)
	defer stop()
	err = db.stmts.connectors.models(ctx, db.read, &rows, organization)
	return rows, listing(err)
}

func connectorsOf(q *bun.SelectQuery, organization any) *bun.SelectQuery {
	return q.Where("organization_id = ?", organization).OrderExpr("lower(name), id")
}

func connectorsQuery(db *bun.DB) string {
	return connectorsOf(db.NewSelect().Model((*connectorRow)(nil)), bun.Safe("?1")).String()
}

func listing(err error) error {
	if err != nil {
		return fmt.Errorf("listing connectors: %w", err)
	}
	return nil
}

func connectorRowOf(ctx context.Context, db bun.IDB, organization, id string) (*connectorRow, error) {
	r := &connectorRow{ID: id}
	err := db.NewSelect().Model(r).WherePK().Where("organization_id = ?", organization).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noConnector(id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading connector %s: %w", id, err)
	}
	return r, nil
}
