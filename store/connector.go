package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	CreatedAt    stamp  `bun:"created_at"`
	UpdatedAt    stamp  `bun:"updated_at"`
}

func (r *connectorRow) connector() action.Connector {
	return action.Connector{
		ID: r.ID, Organization: r.Organization, Name: r.Name, Slug: r.Slug, URL: r.URL,
		Header: string(r.Header), Prefix: string(r.Prefix), Secret: string(r.Secret), DefaultRisk: action.Risk(r.DefaultRisk),
		Enabled: r.Enabled, Revision: r.Revision, CreatedAt: r.CreatedAt.t, UpdatedAt: r.UpdatedAt.t,
	}
}

func newConnectorRow(c *action.Connector, now stamp) *connectorRow {
	return &connectorRow{
		ID: c.ID, Organization: c.Organization, Name: c.Name, Slug: c.Slug, URL: c.URL,
		Header: opt(c.Header), Prefix: opt(c.Prefix), Secret: opt(c.Secret), DefaultRisk: opt(c.DefaultRisk),
		Enabled: c.Enabled, Revision: 1, CreatedAt: at(c.CreatedAt).or(now), UpdatedAt: now,
	}
}

// CreateConnector writes a connector with revision 1. An empty id is filled
// in by nobody: the caller needs it.
func (db *DB) CreateConnector(ctx context.Context, c action.Connector) error {
	if c.ID == "" {
		return errors.New("a connector needs an id")
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
		if err := db.checkConnector(ctx, tx, r, others); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(r).Exec(ctx); err != nil {
			return fmt.Errorf("writing connector %s: %w", c.ID, err)
		}
		return catalogMoved(ctx, tx, c.Organization)
	})
}

// UpdateConnector replaces the row of c.ID; its slug and organization stay.
// The revision counts up when a call would do something else than before.
// Then, and when it is turned on or off, policy moves too, so that no decision
// outlives what it rested on. The caller's Revision is not looked at.
func (db *DB) UpdateConnector(ctx context.Context, c action.Connector) error {
	r := newConnectorRow(&c, at(db.now()))
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
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
		if err := db.checkConnector(ctx, tx, r, others); err != nil {
			return err
		}
		r.Revision, r.CreatedAt = old.Revision, old.CreatedAt
		moved := r.Enabled != old.Enabled
		if r.URL != old.URL || r.Header != old.Header || r.Prefix != old.Prefix || r.Secret != old.Secret || r.DefaultRisk != old.DefaultRisk {
			r.Revision++
			moved = true
		}
		if moved {
			if _, err := policyMoved(ctx, tx, c.Organization); err != nil {
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

// DeleteConnector removes a connector and what policy said of it; ErrNotFound.
// Its invocations stay; those that wait for a person are withdrawn.
func (db *DB) DeleteConnector(ctx context.Context, organization, id string) error {
	return db.do(ctx, func(ctx context.Context, tx bun.Tx) error {
		old, err := connectorRowOf(ctx, tx, organization, id)
		if err != nil {
			return err
		}
		source := (&action.Connector{ID: id}).Source()
		_, err = tx.NewDelete().Table("policy_overrides").
			Where("organization_id = ?", organization).Where("source_id = ?", source).Exec(ctx)
		if err != nil {
			return fmt.Errorf("deleting the policy of connector %s: %w", id, err)
		}
		if _, err := tx.NewDelete().Model(old).WherePK().Where("organization_id = ?", organization).Exec(ctx); err != nil {
			return fmt.Errorf("deleting connector %s: %w", id, err)
		}
		_, err = withdrawn(tx.NewUpdate().Table("invocations"), db.now(), "The connector was removed.").
			Where("organization_id = ?", organization).Where("status = 'pending'").Where("source_id = ?", source).Exec(ctx)
		if err != nil {
			return fmt.Errorf("withdrawing the calls of connector %s: %w", id, err)
		}
		if _, err := policyMoved(ctx, tx, organization); err != nil {
			return err
		}
		return catalogMoved(ctx, tx, organization)
	})
}

// ListConnectors returns the organization's connectors by name.
func (db *DB) ListConnectors(ctx context.Context, organization string) ([]action.Connector, error) {
	rows, err := connectorRows(ctx, db.read, organization)
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
	rows, err := connectorRows(ctx, db.read, organization)
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
	err := db.NewSelect().Model(&rows).Where("organization_id = ?", organization).OrderExpr("lower(name), id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing connectors: %w", err)
	}
	return rows, nil
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
