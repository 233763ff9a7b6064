package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type integrationProviders struct{ remote }

func (c *integrationProviders) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListProviders, api.None{}, cells("PROVIDER SERVICE CONNECTED_WITH ACTIONS", func(p *api.Provider) []string {
		return []string{p.ID, p.Title, providerKinds(p), strconv.Itoa(len(p.Actions))}
	}))
}

func providerKinds(p *api.Provider) string {
	var kinds []string
	for i := range p.Needs {
		kinds = append(kinds, string(p.Needs[i].Kind))
	}
	return strings.Join(kinds, ", ")
}

// inBrowsers tells that a person signs in at the service; otherwise a command can
// connect it.
func inBrowsers(kind action.IntegrationKind) bool {
	return kind == action.KindOAuth2 || kind == action.KindApp
}

type integrationConnect struct {
	remote
	api.NewIntegration
	Nango   bool `field:"broker" env:"-" help:"Sign in through Nango, which stores the tokens."`
	Private bool `field:"visibility" env:"-" help:"Hide it from other people."`
}

func (*integrationConnect) route() api.Operation { return api.CreateIntegration.Operation }

func (c *integrationConnect) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	providers, _, err := fetch(ctx, server, api.ListProviders, api.None{})
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
	if inBrowsers(kind) {
		rest := c.Connecting
		rest.Provider, rest.Kind = "", ""
		if !reflect.ValueOf(rest).IsZero() {
			return wrongUse("%s is connected in the browser, where the page asks for name, settings and the rest; leave those flags out", c.Provider)
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
	return c.print(std, raw, func(w io.Writer) { c.connected(w, made, status == http.StatusOK) })
}

// kind is how the service is to be connected.
func (c *integrationConnect) kind(p *api.Provider) (action.IntegrationKind, error) {
	kind := c.Kind
	if c.Nango {
		if kind != "" && kind != action.KindOAuth2 {
			return "", wrongUse("--nango keeps tokens of kind oauth2; leave --kind out")
		}
		kind = action.KindOAuth2
	}
	i := slices.IndexFunc(p.Needs, func(n api.ProviderNeed) bool { return n.Kind == kind || kind == "" && !inBrowsers(n.Kind) })
	switch {
	case i >= 0:
		return p.Needs[i].Kind, nil
	case kind == "" && len(p.Needs) > 0:
		return p.Needs[0].Kind, nil
	}
	return "", wrongUse("%s is not connected with %s; --kind may be: %s", p.Title, kind, providerKinds(p))
}

// connected says what to do with an integration that was just connected, or
// connected again.
func (c *integrationConnect) connected(w io.Writer, in *api.IntegrationView, again bool) {
	if again {
		said(integrationName(in) + " is renewed, for the account " + accountName(in) + ", which was connected before; the sessions that see it still do")(w)
		return
	}
	said(integrationName(in) + " is connected, for the account " + accountName(in))(w)
	if in.User != "" {
		said("it is used in your own sessions, where an action bears your name")(w)
		return
	}
	said("agents see it in sessions that are minted with: " + c.hint("session", "create", "--connect", in.ID))(w)
}

type integrationUpdate struct {
	theIntegration
	api.IntegrationChange
	Private     bool `field:"visibility" env:"-" xor:"visibility" help:"Hide it from other people; only for integrations you created."`
	Public      bool `env:"-" xor:"visibility" help:"Share it with the whole organization."`
	SecretStdin bool `env:"-" help:"Read a new credential of the same account from standard input."`
}

func (c *integrationUpdate) Run(ctx context.Context, std *stdio) error {
	switch {
	case c.Private:
		c.Visibility = new(action.VisiblePrivate)
	case c.Public:
		c.Visibility = new(action.VisibleOrganization)
	}
	if reflect.ValueOf(c.IntegrationChange).IsZero() && !c.SecretStdin {
		return wrongUse("nothing to change: give one of the flags that integration update --help lists")
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
	return perform(ctx, &c.remote, std, api.UpdateIntegration, api.ByIDWith[api.IntegrationChange]{ByID: api.ByID{ID: in.ID}, Body: c.IntegrationChange}, showIntegration)
}
