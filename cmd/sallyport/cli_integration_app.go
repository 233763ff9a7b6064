package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"sallyport/action"
)

type integrationApp struct {
	List   appList   `cmd:"" help:"List who the gateway is at services, with the names of its secrets."`
	Set    appSet    `cmd:"" help:"Say who the gateway is at a service, in place of all before."`
	Delete appDelete `cmd:"" help:"Forget it, when no integration needs it."`
}

const appsPath = integrationsPath + "/apps"

type appList struct{ remote }

func (c *appList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, appsPath, nil, func(w io.Writer, apps *list[action.ProviderApp]) {
		rows := make([][]string, 0, len(apps.Items))
		for _, a := range apps.Items {
			rows = append(rows, []string{a.Provider, a.ClientID, appNamed(a), strings.Join(a.Secrets, ", "), a.BaseURL, brokered(a.Keys), since(&a.UpdatedAt)})
		}
		table(w, []string{"PROVIDER", "CLIENT", "APP", "SECRETS", "URL", "KEYS", "SET"}, rows)
	})
}

func appNamed(a action.ProviderApp) string {
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
	Provider          string            `arg:"" help:"The service, or nango."`
	ClientID          *string           `env:"-" placeholder:"ID" help:"Of OAuth, as the service gave it."`
	ClientSecretStdin bool              `env:"-" xor:"stdin" help:"Read the client's secret from standard input."`
	AppID             *string           `name:"app-id" env:"-" placeholder:"N" help:"Of a GitHub App."`
	Slug              *string           `env:"-" placeholder:"NAME" help:"Of a GitHub App: its name in the address at which it is installed."`
	PrivateKey        string            `type:"path" env:"-" placeholder:"FILE" help:"Of a GitHub App: its private key, the .pem file that GitHub made."`
	APIKeyStdin       bool              `name:"api-key-stdin" env:"-" xor:"stdin" help:"Of nango: read the key of the environment from standard input."`
	BaseURL           *string           `env:"-" placeholder:"URL" help:"Where the service is not the public one; the secrets are sent to its host alone."`
	Key               map[string]string `field:"keys" mapsep:"none" env:"-" placeholder:"PROVIDER=NAME" help:"Of nango: what a provider is called there (default: as here); again for more."`
}

func (c *appSet) Run(ctx context.Context, std *stdio) error {
	body := present(map[string]*string{"client_id": c.ClientID, "app_id": c.AppID, "slug": c.Slug, "base_url": c.BaseURL})
	if len(c.Key) > 0 {
		body["keys"] = c.Key
	}
	if err := c.secrets(std, body); err != nil {
		return err
	}
	return alter(ctx, &c.remote, std, http.MethodPut, appsPath+"/"+url.PathEscape(c.Provider), body, func(w io.Writer, a *action.ProviderApp) {
		said("the gateway is registered at " + a.Provider + "; secrets that are set: " + orNone(strings.Join(a.Secrets, ", ")))(w)
		if a.Provider == string(action.BrokerNango) {
			said("connect a service through it with: " + c.hint("integration", "connect", "PROVIDER", "--nango"))(w)
			return
		}
		if at, err := c.public(); err == nil {
			said("it must lead back to " + at + "/oauth/callback/" + url.PathEscape(a.Provider) + "; connect it at " + at + "/integrations/" + url.PathEscape(a.Provider))(w)
		}
	})
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// secrets puts in what no command line may hold.
func (c *appSet) secrets(std *stdio, body map[string]any) (err error) {
	if c.ClientSecretStdin {
		if body["client_secret"], err = readSecret(std, "integration app set PROVIDER --client-id ID --client-secret-stdin"); err != nil {
			return err
		}
	}
	if c.APIKeyStdin {
		if body["api_key"], err = readSecret(std, "integration app set nango --api-key-stdin"); err != nil {
			return err
		}
	}
	if c.PrivateKey == "" {
		return nil
	}
	pem, err := os.ReadFile(c.PrivateKey)
	if err != nil {
		return fmt.Errorf("reading the private key: %w", err)
	}
	body["private_key"] = string(pem)
	return nil
}

type appDelete struct {
	remote
	Provider string `arg:"" help:"The service, or nango."`
}

func (c *appDelete) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, appsPath+"/"+url.PathEscape(c.Provider), "the gateway is registered at "+c.Provider+" no more")
}
