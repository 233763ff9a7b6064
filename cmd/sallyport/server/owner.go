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

// endpointKey names the API key that endpoint.json holds, for people who look
// at a list of keys. Where instances share rows it names the folder too.
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

// keyLife is how long the key outlives an instance that was killed, where no
// later one can know it for its own: it is renewed all the time.
const (
	keyLife  = time.Hour
	keyRenew = keyLife / 6
)

// keyExpiry is when the key ends unless it is renewed; nil: with the next
// start in this folder.
func (g *Gateway) keyExpiry() *time.Time {
	if !g.DB.Shared() {
		return nil
	}
	t := g.DB.Now().Add(keyLife)
	return &t
}

// renewKey goes on with the key of endpoint.json, or makes another when it was
// over before the rows could be reached again.
func (g *Gateway) renewKey(ctx context.Context) {
	until := g.keyExpiry()
	if until == nil {
		return
	}
	err := g.DB.RenewAPIKey(ctx, g.key.Organization, g.key.ID, *until)
	if errors.Is(err, action.ErrNotFound) {
		err = g.writeKey(ctx)
	}
	if err != nil && ctx.Err() == nil {
		g.log.Warn("renewing the key of endpoint.json", "error", err)
	}
}

// openAdmin makes sure that somebody can sign in: a local owner exists from
// the first start on. Keys of earlier processes end here.
func (g *Gateway) openAdmin(ctx context.Context) error {
	err := g.findOwner(ctx)
	if err == nil && g.admin.ID == "" {
		err = g.createOwner(ctx)
	}
	if err != nil {
		return err
	}
	if g.DB.Shared() {
		return nil // a key of the same name may be of a living instance
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
			g.admin = u // one of this gateway alone, if there is one
		}
	}
	return err
}

func (g *Gateway) createOwner(ctx context.Context) error {
	owner := action.User{
		ID: newID(), Organization: store.DefaultOrganization, Name: localName(),
		Role: action.RoleOwner, CreatedAt: g.DB.Now(),
	}
	err := g.DB.CreateUser(ctx, owner, owner.ID)
	if errors.Is(err, action.ErrConflict) {
		return g.findOwner(ctx) // another instance started at the same moment
	}
	g.admin, g.founded = owner, err == nil
	return err
}

// localName is what the local owner is called in "approved by".
func localName() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "local admin"
}

// localURL is where commands on this machine find this very instance: behind a
// balancer the public one leads anywhere.
func (g *Gateway) localURL() string {
	if g.Options.PublicURL == "" {
		return g.URL
	}
	return g.local
}

// Welcome writes endpoint.json, and returns a link with which the local owner
// signs in.
func (g *Gateway) Welcome(ctx context.Context) (link string, err error) {
	if err := g.writeKey(ctx); err != nil {
		return "", err
	}
	l, err := g.page.CreateLoginLink(ctx, g.admin.Organization, g.admin.ID)
	return l.URL, err
}

// writeKey makes a key, and writes endpoint.json with it.
func (g *Gateway) writeKey(ctx context.Context) (err error) {
	if g.claim == nil {
		if g.claim, err = command.LockFolder(g.Options.Data); err != nil {
			return err
		}
	}
	id, key, hash := token.NewAPIKey()
	role := action.RoleMember // reads, and mints plain sessions
	if g.Options.LocalAdmin {
		role = action.RoleOwner
	}
	row := action.APIKey{
		ID: id, Organization: g.admin.Organization, Name: g.endpointKey(),
		User: g.admin.ID, Role: role, CreatedAt: g.DB.Now(), ExpiresAt: g.keyExpiry(),
	}
	if err := g.DB.CreateAPIKey(ctx, row, hex.EncodeToString(hash)); err != nil {
		return err
	}
	g.key = row
	e := command.Endpoint{URL: g.localURL(), MCPURL: g.URL + "/mcp", APIKey: key, PID: os.Getpid()}
	if err := e.Write(g.Options.Data); err != nil {
		return err
	}
	g.wrote = true
	return nil
}
