package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/api"
	apiclient "sallyport/client"
	"sallyport/cmd/sallyport/command"
)

type integrationCommand struct {
	Providers  request[api.None, api.List[api.Provider]]        `cmd:"" help:"List the providers and how to connect each."`
	Connect    integrationConnect                               `cmd:"" help:"Connect a service; the credential is read from standard input."`
	List       request[api.None, api.List[api.IntegrationView]] `cmd:"" help:"List the integrations you can see."`
	Show       integrationShow                                  `cmd:"" help:"Show an integration."`
	Update     integrationUpdate                                `cmd:"" help:"Change an integration or replace its credential."`
	Check      integrationCheck                                 `cmd:"" help:"Test the credential at the service."`
	Metadata   integrationMetadata                              `cmd:"" help:"List values for params, such as teams and projects, from the service."`
	Disconnect integrationDisconnect                            `cmd:"" help:"Disconnect an integration and revoke its credential if the service supports it."`
	App        integrationApp                                   `cmd:"" help:"Register the gateway at services that use OAuth or an app."`
	Bind       integrationBind                                  `cmd:"" help:"Set the integrations that sessions of an automation may use."`
	Bindings   integrationBindings                              `cmd:"" help:"List the integrations that sessions of an automation may use."`
}

// integrationName names an integration in messages.
func integrationName(in *api.IntegrationView) string {
	return fmt.Sprintf("integration %s (%s)", in.Name, in.ID)
}

// accountName returns the name of the account at the service.
func accountName(in *api.IntegrationView) string { return cmp.Or(in.AccountName, in.Account) }

// integrationState returns the status with its reason.
func integrationState(in *api.IntegrationView) string {
	if in.Usable || in.Why == "" {
		return string(in.Status)
	}
	return string(in.Status) + ": " + in.Why
}

// integrationVisibility describes who can see the integration.
func integrationVisibility(in *api.IntegrationView) string {
	switch {
	case in.User != "":
		return "your own"
	case in.Visibility == action.VisiblePrivate:
		return "private"
	}
	return "organization"
}

// integrationRef is the argument that names an integration.
type integrationRef struct {
	clientFlags
	Ref string `arg:"" help:"ID or name of the integration, or its provider if there is only one."`
}

// find connects and looks up the integration.
func (c *integrationRef) find(ctx context.Context) (*Client, api.IntegrationView, error) {
	server, err := c.connect()
	if err != nil {
		return nil, api.IntegrationView{}, err
	}
	all, _, err := Fetch(ctx, server, api.ListIntegrations, api.None{})
	if err != nil {
		return nil, api.IntegrationView{}, err
	}
	in, err := findIntegration(c.Ref, all.Items)
	return server, in, err
}

// findIntegration looks up an integration by ID, then by unique name, then as
// the only one of a provider.
func findIntegration(ref string, all []api.IntegrationView) (api.IntegrationView, error) {
	for _, matches := range []func(*api.IntegrationView) bool{
		func(in *api.IntegrationView) bool { return in.ID == ref },
		func(in *api.IntegrationView) bool { return in.Name == ref },
		func(in *api.IntegrationView) bool { return in.Provider == ref },
	} {
		found := slices.DeleteFunc(slices.Clone(all), func(in api.IntegrationView) bool { return !matches(&in) })
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return api.IntegrationView{}, ambiguousIntegrationError(ref, found)
		}
	}
	return api.IntegrationView{}, fmt.Errorf("there is no integration %q; see: sallyport integration list", ref)
}

// ambiguousIntegrationError lists the integrations that a reference matches.
func ambiguousIntegrationError(ref string, found []api.IntegrationView) error {
	var ids []string
	for i := range found {
		ids = append(ids, fmt.Sprintf("%s (%s, account %s)", found[i].ID, command.Printable(found[i].Name), command.Printable(accountName(&found[i]))))
	}
	return fmt.Errorf("%q matches several integrations; pass the ID of one: %s", ref, strings.Join(ids, ", "))
}

type integrationShow struct{ integrationRef }

func (c *integrationShow) Run(ctx context.Context, std *command.Streams) error {
	_, in, err := c.find(ctx)
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.GetIntegration, api.ByID{ID: in.ID}, showIntegration)
}

// showIntegration prints all fields of an integration.
func showIntegration(w io.Writer, in *api.IntegrationView) {
	printLine(w, integrationName(in)+": "+in.Title+", account "+accountName(in)+" ("+in.Account+")")
	printLine(w, "  "+integrationState(in))
	how := "  connected with " + string(in.Kind)
	if in.Broker != action.BrokerOwn {
		how += " through " + string(in.Broker)
	}
	printLine(w, how+" "+relativeTime(&in.CreatedAt)+", visible to: "+integrationVisibility(in))
	if in.BaseURL != "" {
		printLine(w, "  at "+in.BaseURL)
	}
	if in.ExpiresAt != nil {
		printLine(w, "  token "+expiryText(in.ExpiresAt))
	}
	if len(in.Scopes) > 0 {
		printLine(w, "  granted: "+strings.Join(in.Scopes, ", "))
	}
	if in.TimeoutSeconds > 0 {
		printLine(w, "  call timeout "+strconv.Itoa(in.TimeoutSeconds)+" s")
	}
	if len(in.Settings) > 0 {
		printLine(w, "  settings: "+string(in.Settings))
	}
}

type integrationCheck struct{ integrationRef }

func (c *integrationCheck) Run(ctx context.Context, std *command.Streams) error {
	_, in, err := c.find(ctx)
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.CheckIntegration, api.ByID{ID: in.ID}, func(w io.Writer, checked *api.IntegrationView) {
		printLine(w, integrationName(checked)+" is "+integrationState(checked))
	})
}

type integrationMetadata struct {
	integrationRef
	Query map[string]string `arg:"" optional:"" mapsep:"none" placeholder:"KEY=VALUE" help:"Filters of the provider: team=ENG for linear, organization=SLUG and project=SLUG for sentry, owner=NAME for github."`
}

// Run always prints JSON, because each service has its own format.
func (c *integrationMetadata) Run(ctx context.Context, std *command.Streams) error {
	server, in, err := c.find(ctx)
	if err != nil {
		return err
	}
	request, err := server.NewRequest(ctx, &api.GetIntegrationMetadata.Operation, api.ByID{ID: in.ID})
	if err != nil {
		return err
	}
	query := request.URL.Query()
	for name, value := range c.Query {
		query.Set(name, value)
	}
	request.URL.RawQuery = query.Encode()
	response, err := server.do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, apiclient.MaxAnswer))
	if err != nil {
		return err
	}
	return std.PrintJSON(raw)
}

type integrationDisconnect struct{ integrationRef }

// Run says whether the service revoked the credential.
func (c *integrationDisconnect) Run(ctx context.Context, std *command.Streams) error {
	_, in, err := c.find(ctx)
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.DeleteIntegration, api.ByID{ID: in.ID}, func(w io.Writer, result *api.Disconnected) {
		printLine(w, integrationName(&in)+" is disconnected")
		switch {
		case in.Kind == action.KindNone:
		case result.Revoked:
			printLine(w, in.Title+" revoked the credential")
		default:
			printLine(w, "the credential was not revoked at "+in.Title+"; if nothing else uses it, revoke it there")
		}
	})
}

type integrationBind struct {
	automationRef
	api.NewBindings
}

func (c *integrationBind) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	if c.Connections, err = server.integrationIDs(ctx, c.Connections); err != nil {
		return err
	}
	in := api.ByAutomationWith[api.NewBindings]{ByAutomation: c.ByAutomation, Body: c.NewBindings}
	return perform(ctx, &c.clientFlags, std, api.PutBindings, in, func(w io.Writer, b *api.Bindings) {
		printLine(w, fmt.Sprintf("new sessions of %s can use %s", b.Automation, command.Plural(len(b.Connections), "integration")))
	})
}

// integrationIDs replaces names by IDs. The API accepts only IDs and providers.
func (c *Client) integrationIDs(ctx context.Context, refs []string) ([]string, error) {
	names := []string{}
	if len(refs) == 0 {
		return names, nil
	}
	all, _, err := Fetch(ctx, c, api.ListIntegrations, api.None{})
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if ref != action.AllConnections && slices.ContainsFunc(all.Items, func(in api.IntegrationView) bool { return in.Name == ref }) {
			in, err := findIntegration(ref, all.Items)
			if err != nil {
				return nil, err
			}
			ref = in.ID
		}
		names = append(names, ref)
	}
	return names, nil
}

type integrationBindings struct{ automationRef }

func (c *integrationBindings) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	bound, raw, err := Fetch(ctx, server, api.GetBindings, c.ByAutomation)
	if err != nil {
		return err
	}
	all, _, err := Fetch(ctx, server, api.ListIntegrations, api.None{})
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		if len(bound.Connections) == 0 {
			printLine(w, "sessions of "+c.Automation+" have no integrations; bind some with: "+c.hint("integration", "bind", c.Automation, "REF"))
			return
		}
		for _, id := range bound.Connections {
			line := id
			if i := slices.IndexFunc(all.Items, func(in api.IntegrationView) bool { return in.ID == id }); i >= 0 {
				in := &all.Items[i]
				line = in.Provider + "  " + integrationName(in) + "  " + integrationState(in)
			}
			printLine(w, line)
		}
	})
}

func integrationRow(in *api.IntegrationView) []string {
	return []string{in.Name, in.Provider, accountName(in), string(in.Kind), integrationVisibility(in), integrationState(in), in.ID}
}
