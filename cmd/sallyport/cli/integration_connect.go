package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

func providerKinds(p *api.Provider) string {
	var kinds []string
	for i := range p.Needs {
		kinds = append(kinds, string(p.Needs[i].Kind))
	}
	return strings.Join(kinds, ", ")
}

// usesBrowser reports whether the user signs in at the service. Otherwise a
// command can connect it.
func usesBrowser(kind action.IntegrationKind) bool {
	return kind == action.KindOAuth2 || kind == action.KindApp
}

type integrationConnect struct {
	clientFlags
	api.NewIntegration
	Nango   bool `field:"broker" env:"-" help:"Sign in through Nango, which stores the tokens."`
	Private bool `field:"visibility" env:"-" help:"Hide it from other people."`
}

func (*integrationConnect) route() api.Operation { return api.CreateIntegration.Operation }

func (c *integrationConnect) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	providers, _, err := Fetch(ctx, server, api.ListProviders, api.None{})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(providers.Items, func(p api.Provider) bool { return p.ID == c.Provider })
	if i < 0 {
		return fmt.Errorf("there is no provider %q; see: %s", c.Provider, c.hint("integration", "providers"))
	}
	kind, err := c.kind(&providers.Items[i])
	if err != nil {
		return err
	}
	if c.Private {
		c.Visibility = action.VisiblePrivate
	}
	if usesBrowser(kind) {
		rest := c.Connecting
		rest.Provider, rest.Kind = "", ""
		if !reflect.ValueOf(rest).IsZero() {
			return command.UsageErrorf("%s is connected in the browser, where you enter the name and settings; leave out those flags", c.Provider)
		}
		return c.inBrowser(ctx, std, server, &providers.Items[i], kind)
	}
	c.Kind = kind
	if kind != action.KindNone {
		if c.Secret, err = readSecret(std, "integration connect "+c.Provider); err != nil {
			return err
		}
	}
	status, made, raw, err := fetchStatus(ctx, server, api.CreateIntegration, api.Body[api.NewIntegration]{Body: c.NewIntegration})
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { c.showConnected(w, made, status == http.StatusOK) })
}

// kind returns the kind of connection to create.
func (c *integrationConnect) kind(p *api.Provider) (action.IntegrationKind, error) {
	kind := c.Kind
	if c.Nango {
		if kind != "" && kind != action.KindOAuth2 {
			return "", command.UsageErrorf("--nango stores tokens of kind oauth2; leave out --kind")
		}
		kind = action.KindOAuth2
	}
	i := slices.IndexFunc(p.Needs, func(n api.ProviderNeed) bool { return n.Kind == kind || kind == "" && !usesBrowser(n.Kind) })
	switch {
	case i >= 0:
		return p.Needs[i].Kind, nil
	case kind == "" && len(p.Needs) > 0:
		return p.Needs[0].Kind, nil
	}
	return "", command.UsageErrorf("%s does not support %s; use one of these kinds: %s", p.Title, kind, providerKinds(p))
}

// showConnected prints a new or renewed integration and the next step.
func (c *integrationConnect) showConnected(w io.Writer, in *api.IntegrationView, again bool) {
	if again {
		printLine(w, integrationName(in)+" is renewed, for the account "+accountName(in)+"; sessions that use it are unchanged")
		return
	}
	printLine(w, integrationName(in)+" is connected, for the account "+accountName(in))
	if in.User != "" {
		printLine(w, "your own sessions use it for actions in your name")
		return
	}
	printLine(w, "create sessions that use it with: "+c.hint("session", "create", "--connect", in.ID))
}

type integrationUpdate struct {
	integrationRef
	api.IntegrationChange
	Private     bool `field:"visibility" env:"-" xor:"visibility" help:"Hide it from other people; only for integrations you created."`
	Public      bool `env:"-" xor:"visibility" help:"Share it with the whole organization."`
	SecretStdin bool `env:"-" help:"Read a new credential of the same account from standard input."`
}

func (c *integrationUpdate) Run(ctx context.Context, std *command.Streams) error {
	switch {
	case c.Private:
		c.Visibility = new(action.VisiblePrivate)
	case c.Public:
		c.Visibility = new(action.VisibleOrganization)
	}
	if reflect.ValueOf(c.IntegrationChange).IsZero() && !c.SecretStdin {
		return command.UsageErrorf("nothing to change: pass one of the flags that integration update --help lists")
	}
	_, in, err := c.find(ctx)
	if err != nil {
		return err
	}
	if c.SecretStdin {
		if c.Secret, err = readSecret(std, "integration update REF --secret-stdin"); err != nil {
			return err
		}
	}
	return perform(ctx, &c.clientFlags, std, api.UpdateIntegration, api.ByIDWith[api.IntegrationChange]{ByID: api.ByID{ID: in.ID}, Body: c.IntegrationChange}, showIntegration)
}

// inBrowser prints the page where the user continues: the browser that starts a
// sign-in must also complete it.
func (c *integrationConnect) inBrowser(ctx context.Context, std *command.Streams, server *Client, p *api.Provider, kind action.IntegrationKind) error {
	if std.Given() {
		return command.UsageErrorf("%s is connected with %s in the browser, which needs no standard input; leave it out, or pass another --kind: %s", p.ID, kind, providerKinds(p))
	}
	at, err := c.publicURL()
	if err != nil {
		return err
	}
	page := at + "/integrations/" + url.PathEscape(p.ID)
	raw, err := json.Marshal(map[string]any{"provider": p.ID, "kind": kind, "page": page})
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		if first := c.registrationCommand(ctx, server, p.ID, kind); first != "" {
			printLine(w, "the gateway is not registered there; first: "+first)
		}
		printLine(w, p.ID+" is connected with "+string(kind)+" in a browser where you are signed in to Sallyport. Open:")
		printLine(w, page)
	})
}

// registrationCommand returns the command that registers the gateway at the
// service, or "" if it is registered or the caller may not list registrations.
func (c *integrationConnect) registrationCommand(ctx context.Context, server *Client, provider string, kind action.IntegrationKind) string {
	apps, _, err := Fetch(ctx, server, api.ListApps, api.None{})
	if err != nil {
		return ""
	}
	registered := func(id string, with func(a *action.ProviderApp) bool) bool {
		return slices.ContainsFunc(apps.Items, func(a action.ProviderApp) bool { return a.Provider == id && with(&a) })
	}
	nango := string(action.BrokerNango)
	switch {
	case c.Nango && !registered(nango, func(*action.ProviderApp) bool { return true }):
		return c.hint("integration", "app", "set", nango, "--api-key-stdin")
	case !c.Nango && kind == action.KindApp && !registered(provider, func(a *action.ProviderApp) bool { return a.AppID != "" }):
		return c.hint("integration", "app", "set", provider, "--app-id", "N", "--slug", "NAME", "--private-key", "FILE")
	case !c.Nango && kind == action.KindOAuth2 && !registered(provider, func(a *action.ProviderApp) bool { return a.ClientID != "" }):
		return c.hint("integration", "app", "set", provider, "--client-id", "ID", "--client-secret-stdin")
	}
	return ""
}

// publicURL returns the URL of the server for browsers.
func (r *clientFlags) publicURL() (string, error) {
	if r.URL != "" {
		return strings.TrimSuffix(r.URL, "/"), nil
	}
	e, err := command.ReadEndpoint(r.dataFolder())
	return strings.TrimSuffix(e.MCPURL, "/mcp"), err
}

type integrationApp struct {
	List   request[api.None, api.List[action.ProviderApp]] `cmd:"" help:"List registrations and the names of their secrets."`
	Set    appSet                                          `cmd:"" help:"Set the registration of the gateway at a service."`
	Delete request[api.ByProvider, api.None]               `cmd:"" help:"Delete a registration that no integration uses."`
}

func appLabel(a *action.ProviderApp) string {
	if a.AppID == "" {
		return ""
	}
	return a.Slug + " (" + a.AppID + ")"
}

// brokerKeys lists the broker's names of providers.
func brokerKeys(keys map[string]string) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		parts = append(parts, id+"="+keys[id])
	}
	return strings.Join(parts, ", ")
}

type appSet struct {
	clientFlags
	api.ByProvider
	api.NewApp
	ClientSecretStdin bool   `env:"-" xor:"stdin" help:"Read the client secret from standard input."`
	PrivateKeyFile    string `name:"private-key" type:"path" env:"-" placeholder:"FILE" help:"Private key of the GitHub App, the .pem file from GitHub."`
	APIKeyStdin       bool   `name:"api-key-stdin" env:"-" xor:"stdin" help:"Read the Nango environment key from standard input."`
}

func (*appSet) route() api.Operation { return api.PutApp.Operation }

func (c *appSet) Run(ctx context.Context, std *command.Streams) error {
	if err := c.secrets(std); err != nil {
		return err
	}
	in := api.ByProviderWith[api.NewApp]{ByProvider: c.ByProvider, Body: c.NewApp}
	return perform(ctx, &c.clientFlags, std, api.PutApp, in, func(w io.Writer, a *action.ProviderApp) {
		printLine(w, "the gateway is registered at "+a.Provider+"; secrets set: "+cmp.Or(strings.Join(a.Secrets, ", "), "none"))
		if a.Provider == string(action.BrokerNango) {
			printLine(w, "connect a service through it with: "+c.hint("integration", "connect", "PROVIDER", "--nango"))
			return
		}
		if at, err := c.publicURL(); err == nil {
			printLine(w, "set its callback URL to "+at+"/oauth/callback/"+url.PathEscape(a.Provider)+"; connect it at "+at+"/integrations/"+url.PathEscape(a.Provider))
		}
	})
}

// secrets reads the secrets from standard input and files.
func (c *appSet) secrets(std *command.Streams) (err error) {
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

func providerRow(p *api.Provider) []string {
	return []string{p.ID, p.Title, providerKinds(p), strconv.Itoa(len(p.Actions))}
}

func appRow(a *action.ProviderApp) []string {
	return []string{a.Provider, a.ClientID, appLabel(a), strings.Join(a.Secrets, ", "), a.BaseURL, brokerKeys(a.Keys), relativeTime(&a.UpdatedAt)}
}
