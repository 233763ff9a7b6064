package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

// withSecret seals a value that came with a connector, for the host of its
// URL, and has the connector name it. Nil: none came.
func (s *Server) withSecret(ctx context.Context, p *Principal, c *action.Connector, value string) (*action.SealedSecret, error) {
	if value == "" {
		return nil, nil
	}
	if c.OAuth != nil {
		return nil, invalid("/oauth", "A connector sends a secret or OAuth tokens, not both; leave secret_value out, or set oauth.kind to none.")
	}
	if c.Secret == "" {
		c.Secret = cmp.Or(c.Slug, slugOf(c.Name))
		if err := s.checkUnused(ctx, c); err != nil {
			return nil, err
		}
	}
	n := api.NewSecret{Value: value, Host: hostOf(c.URL)}
	if err := checkSecret(c.Secret, n); err != nil {
		at := map[string]string{"/key": "/secret", "/value": "/secret_value", "/host": "/url"}
		return nil, placed(err, at[action.Public(err).Field])
	}
	sealed, err := s.SealSecret(p.Organization, c.Secret, []byte(value))
	if err != nil {
		return nil, err
	}
	now := s.now()
	return &action.SealedSecret{Sealed: sealed, Secret: action.Secret{
		Organization: p.Organization, Key: c.Secret, Host: n.Host, UpdatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}}, nil
}

// checkUnused refuses a key that nobody named and that another connector
// sends: its credential would be another at once.
func (s *Server) checkUnused(ctx context.Context, c *action.Connector) error {
	all, err := s.Sources.ListConnectors(ctx, c.Organization)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.ID != c.ID && (o.Secret == c.Secret || o.OAuth != nil && o.OAuth.ClientSecret == c.Secret) {
			return action.Errorf(action.ErrConflict, "secret_in_use",
				"The connector %s already uses a secret %q; set `secret` to another key for this value.", o.Name, c.Secret).WithField("/secret")
		}
	}
	return nil
}

// checkSecrets refuses secrets that are not there, and keeps the connector's to
// its host. Old is the connector before; nil: there was none. Written is what
// is written with it.
func (s *Server) checkSecrets(ctx context.Context, old, c *action.Connector, written *action.SealedSecret) error {
	if c.Secret == "" && (c.OAuth == nil || c.OAuth.ClientSecret == "") {
		return nil
	}
	all, err := s.Sources.ListSecrets(ctx, c.Organization)
	if err != nil {
		return err
	}
	find := func(key string) int {
		return slices.IndexFunc(all, func(secret action.Secret) bool { return secret.Key == key })
	}
	if c.OAuth != nil {
		if key := c.OAuth.ClientSecret; key != "" && find(key) < 0 {
			return invalid("/oauth/client_secret", fmt.Sprintf("There is no secret %q; set it first, with the host of the service's token endpoint.", plain(key)))
		}
		return nil
	}
	host, i := hostOf(c.URL), find(c.Secret)
	switch {
	case written != nil:
		return nil
	case i < 0:
		return invalid("/secret", fmt.Sprintf("There is no secret %q; create it first, with host %s, or send its value with secret_value.", plain(c.Secret), host))
	case action.SameHost(all[i].Host, c.URL):
		return nil
	case old != nil && old.Secret == c.Secret:
		return action.Errorf(action.ErrInvalid, "secret_host",
			"The secret %q was entered for %s and is not sent to %s; enter it again, with secret_value, if that host may have it.", c.Secret, all[i].Host, host).WithField("/secret_value")
	}
	return invalid("/secret", fmt.Sprintf("The secret %q is bound to %s and cannot go to %s; set another for that host.", c.Secret, all[i].Host, host))
}

// hostOf is the host of a URL that was checked, as secrets are bound to it.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}
