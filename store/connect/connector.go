package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/redact"
	"sallyport/store/database"
	"sallyport/store/history"
)

// MaxConnectors bounds the connectors of an organization.
const MaxConnectors = 50

// ConnectorRow is a row of the table connectors.
type ConnectorRow struct {
	bun.BaseModel `bun:"table:connectors"`
	action.Connector
	TrustedAt *time.Time // see ObserveTools
	ProfileBy string     `bun:",nullzero"` // who chose the profile that is not applied yet; empty: it is
}

// newConnectorRow returns the row of a new connector.
func newConnectorRow(c action.Connector, now database.Timestamp) *ConnectorRow {
	r := &ConnectorRow{Connector: c}
	r.Revision, r.UpdatedAt = 1, now.Time
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	if len(r.Risks) == 0 {
		r.Risks = nil
	}
	if len(r.MayAsk) == 0 {
		r.MayAsk = nil
	}
	if len(r.PresetModes) == 0 {
		r.PresetModes = nil
	}
	switch c.Review {
	case "":
		r.Review = action.ReviewTrust
	case action.ReviewRequired:
		r.TrustedAt = now.Ptr() // no list is trusted, even after the rule is relaxed
	}
	return r
}

// Event implements [history.Recorded].
func (r *ConnectorRow) Event(by string) action.PolicyEvent {
	return action.PolicyEvent{Organization: r.Organization, Kind: action.EventConnector, Subject: r.Source(), By: by}
}

// Snapshot implements [history.Recorded].
func (r *ConnectorRow) Snapshot() any { return r.Connector }

// CreateConnector stores a connector with revision 1, whose profile is applied to its
// first list of tools, and unless secret is nil, a
// secret that it uses, as [Store.PutSecret] would. The caller sets the id.
func (st *Store) CreateConnector(ctx context.Context, c action.Connector, secret *action.SealedSecret, by string) error {
	if c.ID == "" {
		return errors.New("a connector needs an id")
	}
	if err := c.Check(); err != nil {
		return err
	}
	r := newConnectorRow(c, database.NewTimestamp(st.db.Now()))
	if c.Profile != "" {
		r.ProfileBy = by
	}
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		others, err := listConnectors(ctx, tx, c.Organization)
		if err != nil {
			return err
		}
		if len(others) >= MaxConnectors {
			return action.NewError("too_many_connectors", MaxConnectors)
		}
		if err := st.checkConnector(ctx, tx, r, secret, others); err != nil {
			return err
		}
		if err := st.history.Create(ctx, tx, r, by, 0); err != nil {
			return err
		}
		return history.BumpCatalogVersion(ctx, tx, c.Organization)
	})
}

// UpdateConnector replaces the connector with c.ID, except its slug, organization and profile,
// and stores a secret that it uses, unless secret is nil. It ignores c.Revision and
// increments the stored revision if calls would behave differently. Then, and if the
// connector is enabled or disabled, it also increments the policy version, so that
// earlier decisions are made again.
func (st *Store) UpdateConnector(ctx context.Context, c action.Connector, secret *action.SealedSecret, by string) error {
	if err := c.Check(); err != nil {
		return err
	}
	now := database.NewTimestamp(st.db.Now())
	return st.db.ExclusiveTransaction(ctx, func(ctx context.Context, tx bun.Tx) error {
		r := newConnectorRow(c, now)
		old, err := ReadConnector(ctx, tx, c.Organization, c.ID)
		if err != nil {
			return err
		}
		if r.Slug != old.Slug {
			return database.Invalid("/slug", "The slug of a connector cannot change, because its tool names contain it. Leave it out.")
		}
		others, err := listConnectors(ctx, tx, c.Organization)
		if err != nil {
			return err
		}
		if err := st.checkConnector(ctx, tx, r, secret, others); err != nil {
			return err
		}
		r.Profile, r.PresetModes, r.ProfileBy = old.Profile, old.PresetModes, old.ProfileBy // see SetModes
		if r.CreatedAt = old.CreatedAt; old.TrustedAt != nil {
			r.TrustedAt = old.TrustedAt
		}
		if r.Revision = old.Revision; r.differs(&old) {
			r.Revision++
		}
		if r.Revision != old.Revision || r.Enabled != old.Enabled {
			if err := st.recordConnectorChange(ctx, tx, &old, r, by); err != nil {
				return err
			}
		}
		_, err = tx.NewUpdate().Model(r).WherePK().Exec(ctx)
		if err != nil {
			return fmt.Errorf("changing connector %s: %w", c.ID, err)
		}
		return history.BumpCatalogVersion(ctx, tx, c.Organization)
	})
}

// differs reports whether calls would behave differently than with old.
func (r *ConnectorRow) differs(old *ConnectorRow) bool {
	text := func(o *action.OAuthSettings) string { return database.JSON[*action.OAuthSettings]{V: o}.Text() }
	return r.URL != old.URL || r.Header != old.Header || r.Prefix != old.Prefix || r.Secret != old.Secret ||
		r.DefaultRisk != old.DefaultRisk || r.Review != old.Review || !maps.Equal(r.Risks, old.Risks) ||
		!maps.Equal(r.Headers, old.Headers) || text(r.OAuth) != text(old.OAuth) ||
		!slices.Equal(r.MayAsk, old.MayAsk) || r.PerAgent != old.PerAgent || r.PinnedProtocol != old.PinnedProtocol || r.TimeoutSeconds != old.TimeoutSeconds
}

// recordConnectorChange records a change and invalidates what depends on the old row:
// reviews and grants if the URL changes, since it may lead to another server;
// automatic reviews if a person must review from now on; and OAuth tokens, which must
// not be sent elsewhere than where they were issued for.
func (st *Store) recordConnectorChange(ctx context.Context, tx bun.Tx, old, r *ConnectorRow, by string) (err error) {
	switch {
	case r.URL != old.URL:
		if err = st.ResetReviews(ctx, tx, old, "", by); err == nil {
			err = st.policy.RevokeSourceGrants(ctx, tx, old.Organization, old.Source(), by)
		}
	case r.Review == action.ReviewRequired && r.Review != old.Review:
		err = st.ResetReviews(ctx, tx, old, firstListReviewer, by)
	}
	if err == nil && old.OAuth != nil && !r.KeepsTokens(&old.Connector) {
		err = deleteTokens(ctx, tx, old)
	}
	if err != nil {
		return err
	}
	return st.history.RecordPolicyChange(ctx, tx, r.Event(by), old.Snapshot(), r.Snapshot())
}

// ListConnectors returns the connectors of an organization, by name.
func (st *Store) ListConnectors(ctx context.Context, organization string) ([]action.Connector, error) {
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	rows := []action.Connector{}
	if err := st.stmts.connectors.Models(ctx, st.db.Read, &rows, organization); err != nil {
		return nil, fmt.Errorf("listing connectors: %w", err)
	}
	return rows, nil
}

// Connector returns a connector; ErrNotFound.
func (st *Store) Connector(ctx context.Context, organization, id string) (action.Connector, error) {
	r, err := ReadConnector(ctx, st.db.Read, organization, id)
	return r.Connector, err
}

// ConnectorByName returns the connector with the slug or the name; ErrNotFound. At most
// one matches, because no name equals the slug of another connector.
func (st *Store) ConnectorByName(ctx context.Context, organization, name string) (action.Connector, error) {
	rows, err := st.ListConnectors(ctx, organization)
	if err != nil {
		return action.Connector{}, err
	}
	i := slices.IndexFunc(rows, func(c action.Connector) bool { return hasName(&c, name) })
	if name == "" || i < 0 {
		return action.Connector{}, database.ConnectorNotFound(name)
	}
	return rows[i], nil
}

// hasName reports whether name is the slug or the name of the connector.
func hasName(c *action.Connector, name string) bool {
	return strings.EqualFold(c.Slug, name) || strings.EqualFold(c.Name, name)
}

func listConnectors(ctx context.Context, db bun.IDB, organization string) ([]action.Connector, error) {
	return database.List[action.Connector](ctx, connectorsQuery(db, organization))
}

func connectorsQuery(db bun.IDB, organization any) *bun.SelectQuery {
	return db.NewSelect().Model((*ConnectorRow)(nil)).ExcludeColumn("trusted_at", "profile_by").
		Where("organization_id = ?", organization).OrderExpr("lower(name), id")
}

func connectorsSQL(db *bun.DB) string { return connectorsQuery(db, bun.Safe("?1")).String() }

// ReadConnector reads a connector; ErrNotFound.
func ReadConnector(ctx context.Context, db bun.IDB, organization, id string) (ConnectorRow, error) {
	return database.One[ConnectorRow](ctx, database.RowsOf[ConnectorRow](db, organization).Where("id = ?", id), database.ConnectorNotFound(id))
}

// checkConnector refuses a connector that is not unique, exposes a credential, or sends
// a secret to a host that the secret is not for. It stores secret first, unless nil.
func (st *Store) checkConnector(ctx context.Context, tx bun.Tx, r *ConnectorRow, secret *action.SealedSecret, others []action.Connector) error {
	if r.addsCredentialURL(others) {
		return database.Invalid("/url", "This URL seems to contain a credential, which everyone who sees the connector could read. "+
			"Leave it out, store it as a secret, and name that secret in the connector.")
	}
	if err := cmp.Or(r.checkUnique(others), r.checkHeaders(others)); err != nil {
		return err
	}
	if secret != nil {
		if err := st.putConnectorSecret(ctx, tx, r, secret); err != nil {
			return err
		}
	}
	if err := checkClient(ctx, tx, r); err != nil {
		return err
	}
	return checkBinding(ctx, tx, r)
}

// addsCredentialURL reports whether a new URL contains a credential. A stored URL is
// accepted, so that its connector can still be disabled.
func (r *ConnectorRow) addsCredentialURL(others []action.Connector) bool {
	return redact.JSON{}.RedactText(r.URL, nil) != r.URL &&
		!slices.ContainsFunc(others, func(o action.Connector) bool { return o.ID == r.ID && o.URL == r.URL })
}

// checkUnique refuses a name or slug that is the name or slug of another connector:
// policy may refer to a connector by either.
func (r *ConnectorRow) checkUnique(others []action.Connector) error {
	for i := range others {
		o := &others[i]
		switch {
		case o.ID == r.ID:
		case r.Slug == o.Slug && r.Slug == "":
			return connectorExists("/slug", "The connector %q already has the empty slug, which only one can have. Choose a slug.", o.Name)
		case hasName(o, r.Name):
			return connectorExists("/name", "The connector %q already has this name. Choose another.", o.Name)
		case r.Slug != "" && hasName(o, r.Slug):
			return connectorExists("/slug", "The connector %q already has this slug. Choose another.", o.Name)
		}
	}
	return nil
}

func connectorExists(field, format, name string) error {
	e := action.Errorf(action.ErrConflict, "connector_exists", format, name)
	e.Field = field
	return e
}

// checkBinding refuses a connector whose URL is not on the host of its secret.
func checkBinding(ctx context.Context, tx bun.Tx, r *ConnectorRow) error {
	if r.Secret == "" {
		return nil
	}
	host, err := secretHost(ctx, tx, r.Organization, r.Secret)
	if err != nil {
		return err
	}
	if host == "" {
		return database.Invalid("/secret", fmt.Sprintf("There is no secret %q. Set it first, for the host of the URL.", r.Secret))
	}
	if !action.SameHost(host, r.URL) {
		return action.Errorf(action.ErrInvalid, "secret_host",
			"The secret %q was set for %s and is not sent to other hosts. Set it again together with this URL.", r.Secret, host).WithField("/secret")
	}
	return nil
}

// checkHeaders refuses new headers that contain a credential. Stored ones are accepted,
// so that their connector can still be disabled.
func (r *ConnectorRow) checkHeaders(others []action.Connector) error {
	before := map[string]string{}
	if i := slices.IndexFunc(others, func(o action.Connector) bool { return o.ID == r.ID }); i >= 0 {
		before = others[i].Headers
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		value := r.Headers[name]
		if old, known := before[name]; (!known || old != value) && showsCredential(name, value) {
			return database.Invalid("/headers/"+strings.ReplaceAll(name, "~", "~0"), "This header seems to contain a credential, which everyone who sees the connector could read. "+
				"Leave it out, store the value as a secret, and name that secret in the connector.")
		}
	}
	return nil
}

// showsCredential reports whether a header looks like a credential by its value or its
// name.
func showsCredential(name, value string) bool {
	raw, err := json.Marshal(map[string]string{name: value})
	return err != nil || string(redact.JSON{}.Redact(raw, nil)) != string(raw)
}
