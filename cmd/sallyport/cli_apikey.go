package main

import (
	"context"
	"fmt"
	"io"

	"sallyport/action"
	"sallyport/api"
)

type apiKeyCommand struct {
	Create apiKeyCreate `cmd:"" help:"Create a key and print it once."`
	List   apiKeyList   `cmd:"" help:"List keys without their values."`
	Revoke apiKeyRevoke `cmd:"" help:"Revoke a key."`
}

type apiKeyCreate struct {
	remote
	api.NewKey
}

func (c *apiKeyCreate) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.CreateKey, api.Body[api.NewKey]{Body: c.NewKey}, func(w io.Writer, k *api.MintedKey) {
		fmt.Fprintln(w, visible(k.Key))
		fmt.Fprintf(std.Err, "key %s; it is not shown again\n", visible(k.ID))
	})
}

type apiKeyList struct{ remote }

func (*apiKeyList) route() api.Operation { return api.ListKeys.Operation }

func (c *apiKeyList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListKeys, api.None{}, cells("NAME ROLE OF CREATED STATE ID", func(k *action.APIKey) []string {
		role, state := string(k.Role), "good"
		if k.Scope != "" {
			role = "only " + string(k.Scope)
		}
		if k.RevokedAt != nil {
			state = "revoked " + since(k.RevokedAt)
		}
		return []string{k.Name, role, k.User, since(&k.CreatedAt), state, k.ID}
	}))
}

type apiKeyRevoke struct {
	remote
	ID string `arg:"" help:"ID of the key."`
}

func (c *apiKeyRevoke) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.RevokeKey, api.ByID{ID: c.ID}, done("key "+c.ID+" is revoked"))
}
