package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
)

type integrationCommand struct {
	Providers  integrationProviders  `cmd:"" help:"List the services that can be connected, and how."`
	Connect    integrationConnect    `cmd:"" help:"Connect a service; its key or token is read from standard input."`
	List       integrationList       `cmd:"" help:"List the integrations that you may see."`
	Show       integrationShow       `cmd:"" help:"Show one integration."`
	Update     integrationUpdate     `cmd:"" help:"Change an integration, or replace its key."`
	Check      integrationCheck      `cmd:"" help:"Ask the service now whether the credential is good."`
	Metadata   integrationMetadata   `cmd:"" help:"Ask the service for what params are made of, such as teams and projects."`
	Disconnect integrationDisconnect `cmd:"" help:"End an integration; its credential is given back where the service takes it, and wiped."`
	App        integrationApp        `cmd:"" help:"Say who the gateway is at a service where people sign in, or install its app."`
	Bind       integrationBind       `cmd:"" help:"Say which integrations the sessions of an automation see, in place of those before."`
	Bindings   integrationBindings   `cmd:"" help:"List the integrations that the sessions of an automation see."`
}

// integrationRow is an integration as the API shows it.
type integrationRow struct {
	action.Integration
	Title  string `json:"provider_title"`
	Usable bool   `json:"usable"`
	Why    string `json:"unusable_reason"`
}

// said is how an integration is named to a person.
func (in *integrationRow) said() string { return fmt.Sprintf("integration %s (%s)", in.Name, in.ID) }

// state is the status, with what to do about it.
func (in *integrationRow) state() string {
	if in.Usable || in.Why == "" {
		return string(in.Status)
	}
	return string(in.Status) + ": " + in.Why
}

// of is whose it is.
func (in *integrationRow) of() string {
	switch {
	case in.User != "":
		return "your own"
	case in.Visibility == action.VisiblePrivate:
		return "private"
	}
	return "organization"
}

func (in *integrationRow) account() string {
	if in.AccountName == "" {
		return in.Account
	}
	return in.AccountName
}

type integrationList struct{ remote }

func (c *integrationList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, integrationsPath, nil, func(w io.Writer, all *list[integrationRow]) {
		rows := make([][]string, 0, len(all.Items))
		for _, in := range all.Items {
			rows = append(rows, []string{in.Name, in.Provider, in.account(), string(in.Kind), in.of(), in.state(), in.ID})
		}
		table(w, []string{"NAME", "PROVIDER", "ACCOUNT", "KIND", "WHOSE", "STATUS", "ID"}, rows)
	})
}

const integrationsPath = "/api/v1/integrations"

// which are the commands that are about one integration.
type which struct {
	remote
	Ref string `arg:"" help:"Id or name of the integration, or its provider when there is just one of it."`
}

// find connects, and finds the route about the integration.
func (c *which) find(ctx context.Context) (server *client, path string, err error) {
	if server, err = c.connect(); err != nil {
		return nil, "", err
	}
	path, err = c.path(ctx, server)
	return server, path, err
}

// path finds the integration, and the route about it.
func (c *which) path(ctx context.Context, server *client) (string, error) {
	in, err := server.integration(ctx, c.Ref)
	return integrationsPath + "/" + url.PathEscape(in.ID), err
}

// integration finds the one that a reference means.
func (c *client) integration(ctx context.Context, ref string) (integrationRow, error) {
	var all list[integrationRow]
	if _, err := c.read(ctx, integrationsPath, nil, &all); err != nil {
		return integrationRow{}, err
	}
	return meant(ref, all.Items)
}

// meant is the integration of that id, or else the only one of that name, or
// else the only one of that provider.
func meant(ref string, all []integrationRow) (integrationRow, error) {
	for _, means := range []func(*integrationRow) bool{
		func(in *integrationRow) bool { return in.ID == ref },
		func(in *integrationRow) bool { return in.Name == ref },
		func(in *integrationRow) bool { return in.Provider == ref },
	} {
		found := slices.DeleteFunc(slices.Clone(all), func(in integrationRow) bool { return !means(&in) })
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return integrationRow{}, several(ref, found)
		}
	}
	return integrationRow{}, fmt.Errorf("there is no integration %q; see: sallyport integration list", ref)
}

// several says how to name one of those that a reference may mean.
func several(ref string, found []integrationRow) error {
	var ids []string
	for _, in := range found {
		ids = append(ids, fmt.Sprintf("%s (%s, account %s)", in.ID, visible(in.Name), visible(in.account())))
	}
	return fmt.Errorf("%q may be several integrations; name one by its id: %s", ref, strings.Join(ids, ", "))
}

type integrationShow struct{ which }

func (c *integrationShow) Run(ctx context.Context, std *stdio) error {
	_, path, err := c.find(ctx)
	if err != nil {
		return err
	}
	return show(ctx, &c.remote, std, path, nil, func(w io.Writer, in *integrationRow) { in.report(w) })
}

// report shows all of an integration.
func (in *integrationRow) report(w io.Writer) {
	said(in.said() + ": " + in.Title + ", account " + in.account() + " (" + in.Account + ")")(w)
	said("  " + in.state())(w)
	how := "  connected with " + string(in.Kind)
	if in.Broker != action.BrokerOwn {
		how += " through " + string(in.Broker)
	}
	said(how + " " + since(&in.CreatedAt) + ", seen by: " + in.of())(w)
	if in.BaseURL != "" {
		said("  at " + in.BaseURL)(w)
	}
	if in.ExpiresAt != nil {
		said("  its token " + ends(in.ExpiresAt))(w)
	}
	if len(in.Scopes) > 0 {
		said("  granted: " + strings.Join(in.Scopes, ", "))(w)
	}
	if in.TimeoutSeconds > 0 {
		said("  a call may take " + strconv.Itoa(in.TimeoutSeconds) + " s")(w)
	}
	if len(in.Settings) > 0 {
		said("  settings: " + string(in.Settings))(w)
	}
}

type integrationCheck struct{ which }

func (c *integrationCheck) Run(ctx context.Context, std *stdio) error {
	_, path, err := c.find(ctx)
	if err != nil {
		return err
	}
	return alter(ctx, &c.remote, std, http.MethodPost, path+"/check", nil, func(w io.Writer, in *integrationRow) {
		said(in.said() + " is " + in.state())(w)
	})
}

type integrationMetadata struct {
	which
	Query map[string]string `arg:"" optional:"" mapsep:"none" placeholder:"KEY=VALUE" help:"What is asked for, in the provider's own words: team=ENG of linear, organization=SLUG and project=SLUG of sentry, owner=NAME of github; slack has none."`
}

// Run prints JSON in any case: what there is, each service says in its own way.
func (c *integrationMetadata) Run(ctx context.Context, std *stdio) error {
	server, path, err := c.find(ctx)
	if err != nil {
		return err
	}
	var data json.RawMessage
	raw, err := server.read(ctx, path+"/metadata", queryOf(c.Query), &data)
	if err != nil {
		return err
	}
	return std.printJSON(raw)
}

type integrationDisconnect struct{ which }

// Run says whether the service knows that it is over.
func (c *integrationDisconnect) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	in, err := server.integration(ctx, c.Ref)
	if err != nil {
		return err
	}
	var end struct{ Revoked bool }
	raw, err := server.change(ctx, http.MethodDelete, integrationsPath+"/"+url.PathEscape(in.ID), nil, &end)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		said(in.said() + " is disconnected")(w)
		switch {
		case in.Kind == action.KindNone:
		case end.Revoked:
			said(in.Title + " took the credential back")(w)
		default:
			said("the credential was not taken back at " + in.Title + "; if nothing else uses it, remove it there")(w)
		}
	})
}
