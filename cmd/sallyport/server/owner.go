package server

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"time"

	"sallyport/action"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/token"
	"sallyport/store"
)

// endpointKey returns the name of the API key in endpoint.json, as people see
// it in the list of keys. If instances share a database, it includes the host
// and folder.
func (g *Gateway) endpointKey() string {
	if !g.DB.Shared() {
		return "endpoint.json"
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return "endpoint.json in " + host + ":" + g.Options.Data
}

// endpointKeyTTL is how long the key outlives an instance that was killed, if
// no later one can recognize it as its own. A running instance renews it.
const (
	endpointKeyTTL     = time.Hour
	endpointKeyRenewal = endpointKeyTTL / 6
)

// endpointKeyExpiry returns when the key expires unless it is renewed, or nil
// if the next start in this folder revokes it.
func (g *Gateway) endpointKeyExpiry() *time.Time {
	if !g.DB.Shared() {
		return nil
	}
	t := g.DB.Now().Add(endpointKeyTTL)
	return &t
}

// renewEndpointKey renews the key of endpoint.json, or creates another if it
// expired while the database was down.
func (g *Gateway) renewEndpointKey(ctx context.Context) {
	until := g.endpointKeyExpiry()
	if until == nil {
		return
	}
	err := g.DB.RenewAPIKey(ctx, g.endpointAPIKey.Organization, g.endpointAPIKey.ID, *until)
	if errors.Is(err, action.ErrNotFound) {
		err = g.writeEndpoint(ctx)
	}
	if err != nil && ctx.Err() == nil {
		g.log.Warn("could not renew the key of endpoint.json", "error", err)
	}
}

// openOwner ensures that someone can sign in: the first start creates a local
// owner. It revokes the keys of earlier processes.
func (g *Gateway) openOwner(ctx context.Context) error {
	err := g.findOwner(ctx)
	if err == nil && g.admin.ID == "" {
		err = g.createOwner(ctx)
	}
	if err != nil {
		return err
	}
	if g.DB.Shared() {
		return nil // a key of the same name may belong to a running instance
	}
	keys, err := g.DB.ListAPIKeys(ctx, store.DefaultOrganization)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Name == g.endpointKey() && k.RevokedAt == nil {
			if err := g.DB.RevokeAPIKey(ctx, k.Organization, k.ID, g.DB.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *Gateway) findOwner(ctx context.Context) error {
	users, err := g.DB.ListUsers(ctx, store.DefaultOrganization)
	for _, u := range users {
		if u.Role == action.RoleOwner && (g.admin.ID == "" || g.admin.Issuer != "" && u.Issuer == "") {
			g.admin = u // prefer an owner without an identity provider
		}
	}
	return err
}

func (g *Gateway) createOwner(ctx context.Context) error {
	owner := action.User{
		ID: newID(), Organization: store.DefaultOrganization, Name: localOwnerName(),
		Role: action.RoleOwner, CreatedAt: g.DB.Now(),
	}
	err := g.DB.CreateUser(ctx, owner, owner.ID)
	if errors.Is(err, action.ErrConflict) {
		return g.findOwner(ctx) // another instance created it first
	}
	g.admin, g.ownerCreated = owner, err == nil
	return err
}

// localOwnerName returns the local owner's name, as shown in "approved by".
func localOwnerName() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "local admin"
}

// localURL returns the URL at which commands on this machine reach this
// instance. A public URL may lead to another one behind a load balancer.
func (g *Gateway) localURL() string {
	if g.Options.PublicURL == "" {
		return g.URL
	}
	return g.loopbackURL
}

// Welcome writes endpoint.json and returns a sign-in link for the local owner.
func (g *Gateway) Welcome(ctx context.Context) (link string, err error) {
	if err := g.writeEndpoint(ctx); err != nil {
		return "", err
	}
	l, err := g.page.CreateLoginLink(ctx, g.admin.Organization, g.admin.ID)
	return l.URL, err
}

// writeEndpoint creates a key and writes endpoint.json with it.
func (g *Gateway) writeEndpoint(ctx context.Context) (err error) {
	if g.folderLock == nil {
		if g.folderLock, err = command.LockFolder(g.Options.Data); err != nil {
			return err
		}
	}
	id, key, hash := token.NewAPIKey()
	role := action.RoleMember // can read, and create plain sessions
	if g.Options.LocalAdmin {
		role = action.RoleOwner
	}
	row := action.APIKey{
		ID: id, Organization: g.admin.Organization, Name: g.endpointKey(),
		User: g.admin.ID, Role: role, CreatedAt: g.DB.Now(), ExpiresAt: g.endpointKeyExpiry(),
	}
	if err := g.DB.CreateAPIKey(ctx, row, hex.EncodeToString(hash)); err != nil {
		return err
	}
	g.endpointAPIKey = row
	e := command.Endpoint{URL: g.localURL(), MCPURL: g.URL + "/mcp", APIKey: key, PID: os.Getpid()}
	if err := e.Write(g.Options.Data); err != nil {
		return err
	}
	g.endpointWritten = true
	return nil
}
