package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type integrationApp struct {
	List   appList   `cmd:"" help:"List registrations and the names of their secrets."`
	Set    appSet    `cmd:"" help:"Set the registration of the gateway at a service."`
	Delete appDelete `cmd:"" help:"Delete a registration that no integration uses."`
}

type appList struct{ remote }

func (*appList) route() api.Operation { return api.ListApps.Operation }

func (c *appList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListApps, api.None{}, cells("PROVIDER CLIENT APP SECRETS URL KEYS SET", func(a *action.ProviderApp) []string {
		return []string{a.Provider, a.ClientID, appNamed(a), strings.Join(a.Secrets, ", "), a.BaseURL, brokered(a.Keys), since(&a.UpdatedAt)}
	}))
}

func appNamed(a *action.ProviderApp) string {
	if a.AppID == "" {
		return ""
	}
	return a.Slug + " (" + a.AppID + ")"
}

// brokered are a broker's names of providers.
func brokered(keys map[string]string) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		parts = append(parts, id+"="+keys[id])
	}
	return strings.Join(parts, ", ")
}

type appSet struct {
	remote
	api.ByProvider
	api.NewApp
	ClientSecretStdin bool   `env:"-" xor:"stdin" help:"Read the client secret from standard input."`
	PrivateKeyFile    string `name:"private-key" type:"path" env:"-" placeholder:"FILE" help:"Private key of the GitHub App, the .pem file from GitHub."`
	APIKeyStdin       bool   `name:"api-key-stdin" env:"-" xor:"stdin" help:"Read the Nango environment key from standard input."`
}

func (*appSet) route() api.Operation { return api.PutApp.Operation }

func (c *appSet) Run(ctx context.Context, std *stdio) error {
	if err := c.secrets(std); err != nil {
		return err
	}
	in := api.ByProviderWith[api.NewApp]{ByProvider: c.ByProvider, Body: c.NewApp}
	return perform(ctx, &c.remote, std, api.PutApp, in, func(w io.Writer, a *action.ProviderApp) {
		said("the gateway is registered at " + a.Provider + "; secrets that are set: " + cmp.Or(strings.Join(a.Secrets, ", "), "none"))(w)
		if a.Provider == string(action.BrokerNango) {
			said("connect a service through it with: " + c.hint("integration", "connect", "PROVIDER", "--nango"))(w)
			return
		}
		if at, err := c.public(); err == nil {
			said("it must lead back to " + at + "/oauth/callback/" + url.PathEscape(a.Provider) + "; connect it at " + at + "/integrations/" + url.PathEscape(a.Provider))(w)
		}
	})
}

// secrets reads what no command line may hold.
func (c *appSet) secrets(std *stdio) (err error) {
	if c.ClientSecretStdin {
		if c.ClientSecret, err = readSecret(std, "integration app set PROVIDER --client-id ID --client-secret-stdin"); err != nil {
			return err
		}
	}
	if c.APIKeyStdin {
		if c.APIKey, err = readSecret(std, "integration app set nango --api-key-stdin"); err != nil {
			return err
		}
	}
	if c.PrivateKeyFile == "" {
		return nil
	}
	pem, err := os.ReadFile(c.PrivateKeyFile)
	if err != nil {
		return fmt.Errorf("reading the private key: %w", err)
	}
	c.PrivateKey = string(pem)
	return nil
}

type appDelete struct {
	remote
	api.ByProvider
}

func (c *appDelete) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.DeleteApp, c.ByProvider, done("the gateway is registered at "+c.Provider+" no more"))
}
