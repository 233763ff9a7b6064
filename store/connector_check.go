package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/internal/redact"
)

// checkConnector refuses what would not be unique, show a credential, or send a
// secret where it does not belong. A secret that comes along is written first.
func (db *DB) checkConnector(ctx context.Context, tx bun.Tx, r *connectorRow, secret *action.SealedSecret, others []action.Connector) error {
	if r.leaks(others) {
		return invalid("/url", "This URL holds what looks like a credential, which everyone who sees the connector would read. "+
			"Leave it out, store it as a secret, and name that secret in the connector.")
	}
	if err := first(r.checkUnique(others), r.checkHeaders(others)); err != nil {
		return err
	}
	if secret != nil {
		if err := db.putSecretOf(ctx, tx, r, secret); err != nil {
			return err
		}
	}
	if err := checkClient(ctx, tx, r); err != nil {
		return err
	}
	return checkBinding(ctx, tx, r)
}

// leaks reports whether a new URL shows a credential. One that is there already
// does not keep people from turning its connector off.
func (r *connectorRow) leaks(others []action.Connector) bool {
	return redact.JSON{}.RedactText(r.URL, nil) != r.URL &&
		!slices.ContainsFunc(others, func(o action.Connector) bool { return o.ID == r.ID && o.URL == r.URL })
}

// checkUnique keeps names and slugs apart, also from each other: policy may
// name a connector by either.
func (r *connectorRow) checkUnique(others []action.Connector) error {
	for i := range others {
		o := &others[i]
		switch {
		case o.ID == r.ID:
		case r.Slug == o.Slug && r.Slug == "":
			return connectorTaken("/slug", "The connector %q has the empty slug already, and only one may; choose a slug.", o.Name)
		case hasName(o, r.Name):
			return connectorTaken("/name", "The connector %q has this name already; choose another.", o.Name)
		case r.Slug != "" && hasName(o, r.Slug):
			return connectorTaken("/slug", "The connector %q has this slug already; choose another.", o.Name)
		}
	}
	return nil
}

func connectorTaken(field, format, name string) error {
	e := action.Errorf(action.ErrConflict, "connector_exists", format, name)
	e.Field = field
	return e
}

// checkBinding keeps a secret to its host.
func checkBinding(ctx context.Context, tx bun.Tx, r *connectorRow) error {
	if r.Secret == "" {
		return nil
	}
	host, err := secretHost(ctx, tx, r.Organization, r.Secret)
	if err != nil {
		return err
	}
	if host == "" {
		return invalid("/secret", fmt.Sprintf("There is no secret %q; set it first, for the host of the URL.", r.Secret))
	}
	if !action.SameHost(host, r.URL) {
		return action.Errorf(action.ErrInvalid, "secret_host",
			"The secret %q was given for %s and is sent to no other host; give it again together with this URL.", r.Secret, host).WithField("/secret")
	}
	return nil
}
