package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

type apiKeyCommand struct {
	Create apiKeyCreate `cmd:"" help:"Create a key and print it, once."`
	List   apiKeyList   `cmd:"" help:"List keys, without the keys themselves."`
	Revoke apiKeyRevoke `cmd:"" help:"Revoke a key."`
}

type apiKeyCreate struct {
	remote
	Name string `arg:"" help:"What it is for."`
	Role string `enum:"owner,admin,member" default:"member" help:"What it may do, at most what you may: owner, admin or member (default)."`
	// Scope leaves the role without meaning.
	Scope string `enum:"runs," default:"" help:"runs: a key for workers, which claims, renews and finishes runs, and does nothing else."`
}

func (c *apiKeyCreate) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var made struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	body := map[string]any{"name": c.Name, "role": c.Role}
	if c.Scope != "" {
		body["scope"] = c.Scope
	}
	raw, err := server.change(ctx, http.MethodPost, "/api/v1/api-keys", body, &made)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		fmt.Fprintln(w, visible(made.Key))
		fmt.Fprintf(std.Err, "key %s; it is not shown again\n", visible(made.ID))
	})
}

type apiKeyList struct{ remote }

func (c *apiKeyList) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var keys list[struct {
		ID        string     `json:"id"`
		Name      string     `json:"name"`
		User      string     `json:"user_id"`
		Role      string     `json:"role"`
		Scope     string     `json:"scope"`
		CreatedAt *time.Time `json:"created_at"`
		RevokedAt *time.Time `json:"revoked_at"`
	}]
	raw, err := server.read(ctx, "/api/v1/api-keys", nil, &keys)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(keys.Items))
		for _, k := range keys.Items {
			state := "good"
			if k.RevokedAt != nil {
				state = "revoked " + since(k.RevokedAt)
			}
			role := k.Role
			if k.Scope != "" {
				role = "only " + k.Scope
			}
			rows = append(rows, []string{k.Name, role, k.User, since(k.CreatedAt), state, k.ID})
		}
		table(w, []string{"NAME", "ROLE", "OF", "CREATED", "STATE", "ID"}, rows)
	})
}

type apiKeyRevoke struct {
	remote
	ID string `arg:"" help:"Id of the key."`
}

func (c *apiKeyRevoke) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, "/api/v1/api-keys/"+url.PathEscape(c.ID), "key "+c.ID+" is revoked")
}
