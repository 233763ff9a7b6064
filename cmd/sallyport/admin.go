package main

import (
	"context"
	"encoding/hex"
	"os"
	"time"

	"sallyport/action"
	"sallyport/internal/token"
	"sallyport/store"
)

// endpointKeyName names the API keys that endpoint.json holds.
const endpointKeyName = "endpoint.json"

// openAdmin makes sure that somebody can sign in: a local owner exists from
// the first start on. Keys of earlier processes end here.
func (g *gateway) openAdmin(ctx context.Context) error {
	users, err := g.db.ListUsers(ctx, store.DefaultOrganization)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.Role == action.RoleOwner {
			g.admin = u
			break
		}
	}
	if g.admin.ID == "" {
		g.admin = action.User{
			ID: newID(), Organization: store.DefaultOrganization, Name: localName(),
			Role: action.RoleOwner, CreatedAt: time.Now(),
		}
		if err := g.db.CreateUser(ctx, g.admin); err != nil {
			return err
		}
	}
	keys, err := g.db.ListAPIKeys(ctx, store.DefaultOrganization)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Name == endpointKeyName && k.RevokedAt == nil {
			if err := g.db.RevokeAPIKey(ctx, k.Organization, k.ID, time.Now()); err != nil {
				return err
			}
		}
	}
	return nil
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
		ID: id, Organization: g.admin.Organization, Name: endpointKeyName,
		User: g.admin.ID, Role: role, CreatedAt: time.Now(),
	}
	if err := g.db.CreateAPIKey(ctx, row, hex.EncodeToString(hash)); err != nil {
		return "", err
	}
	e := endpoint{URL: g.url, MCPURL: g.url + "/mcp", APIKey: key, PID: os.Getpid()}
	if err := e.write(g.options.Data); err != nil {
		return "", err
	}
	g.wrote = true
	l, err := g.page.CreateLoginLink(ctx, g.admin.Organization, g.admin.ID)
	return l.URL, err
}
