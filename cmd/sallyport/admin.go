package main

import (
	"context"
	"encoding/hex"
	"errors"
	"os"

	"sallyport/action"
	"sallyport/internal/token"
	"sallyport/store"
)

// endpointKey names the API key that endpoint.json holds. Where instances
// share rows it names the folder too: each has a key of its own.
func (g *gateway) endpointKey() string {
	if !g.db.Shared() {
		return "endpoint.json"
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return "endpoint.json in " + host + ":" + g.options.Data
}

// openAdmin makes sure that somebody can sign in: a local owner exists from
// the first start on. Keys of earlier processes end here.
func (g *gateway) openAdmin(ctx context.Context) error {
	err := g.findOwner(ctx)
	if err == nil && g.admin.ID == "" {
		err = g.createOwner(ctx)
	}
	if err != nil {
		return err
	}
	keys, err := g.db.ListAPIKeys(ctx, store.DefaultOrganization)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Name == g.endpointKey() && k.RevokedAt == nil {
			if err := g.db.RevokeAPIKey(ctx, k.Organization, k.ID, g.db.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *gateway) findOwner(ctx context.Context) error {
	users, err := g.db.ListUsers(ctx, store.DefaultOrganization)
	for _, u := range users {
		if u.Role == action.RoleOwner {
			g.admin = u
			break
		}
	}
	return err
}

func (g *gateway) createOwner(ctx context.Context) error {
	owner := action.User{
		ID: newID(), Organization: store.DefaultOrganization, Name: localName(),
		Role: action.RoleOwner, CreatedAt: g.db.Now(),
	}
	err := g.db.CreateUser(ctx, owner)
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

// welcome writes endpoint.json, and returns a link with which the local owner
// signs in.
func (g *gateway) welcome(ctx context.Context) (link string, err error) {
	id, key, hash := token.NewAPIKey()
	role := action.RoleMember // reads, and mints plain sessions
	if g.options.LocalAdmin {
		role = action.RoleOwner
	}
	row := action.APIKey{
		ID: id, Organization: g.admin.Organization, Name: g.endpointKey(),
		User: g.admin.ID, Role: role, CreatedAt: g.db.Now(),
	}
	if err := g.db.CreateAPIKey(ctx, row, hex.EncodeToString(hash)); err != nil {
		return "", err
	}
	g.key = row
	e := endpoint{URL: g.url, MCPURL: g.url + "/mcp", APIKey: key, PID: os.Getpid()}
	if err := e.write(g.options.Data); err != nil {
		return "", err
	}
	g.wrote = true
	l, err := g.page.CreateLoginLink(ctx, g.admin.Organization, g.admin.ID)
	return l.URL, err
}
