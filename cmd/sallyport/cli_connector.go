package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/guard"
)

type connectorCommand struct {
	Add      connectorAdd      `cmd:"" help:"Add a remote MCP server."`
	Presets  connectorPresets  `cmd:"" help:"List known servers for add --preset."`
	List     connectorList     `cmd:"" help:"List connectors."`
	Update   connectorUpdate   `cmd:"" help:"Change a connector."`
	SignIn   connectorSignIn   `cmd:"" help:"Start a sign-in at the connector's service and print the URL to open."`
	SignOut  connectorSignOut  `cmd:"" help:"Delete the tokens of a connector and revoke them if the service supports it."`
	Validate connectorValidate `cmd:"" help:"Test a connector or URL and list its tools."`
	Onboard  connectorOnboard  `cmd:"" help:"List the tools of a connector and set their modes."`
	Review   connectorReview   `cmd:"" help:"List new, changed and removed tools, and accept them."`
	Enable   connectorEnable   `cmd:"" help:"Show a connector's tools to agents."`
	Disable  connectorDisable  `cmd:"" help:"Hide a connector's tools from agents."`
	Remove   connectorRemove   `cmd:"" help:"Remove a connector."`
}

// theConnector names one.
type theConnector struct {
	remote
	Ref string `arg:"" name:"name" help:"Name, slug or ID of the connector."`
}

func (c *theConnector) ref() api.ByRef { return connectorRef(c.Ref) }

// connectorRef is a connector in a path, also where it is named by its source id.
func connectorRef(ref string) api.ByRef {
	return api.ByRef{Ref: strings.TrimPrefix(ref, "connector:")}
}

// connectorName is how a connector is named to a person.
func connectorName(c *api.ConnectorView) string {
	return fmt.Sprintf("connector %s (connector:%s)", c.Name, c.ID)
}

type connectorList struct{ remote }

func (*connectorList) route() api.Operation { return api.ListConnectors.Operation }

func (c *connectorList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListConnectors, api.None{}, cells("NAME SLUG URL CREDENTIAL TOOLS STATE REVIEW ID", func(k *api.ConnectorView) []string {
		return []string{k.Name, k.Slug, k.URL, connectorCredential(k), strconv.Itoa(k.ToolCount), connectorState(k), string(k.Review), k.ID}
	}))
}

// connectorCredential is what is sent along: the key of a secret, or tokens.
func connectorCredential(c *api.ConnectorView) string {
	if c.OAuth != nil {
		return "OAuth"
	}
	return c.Secret
}

func connectorState(c *api.ConnectorView) string {
	switch {
	case !c.Enabled:
		return "disabled"
	case signedIn(c, action.OAuthReconnect):
		return "reconnect needed: " + c.OAuthStatus.Reason
	case c.OAuthStatus != nil && !signedIn(c, action.OAuthConnected) && hasOAuth(c, action.OAuthCode):
		return "nobody signed in yet"
	case c.RetryAt != nil && c.RetryAt.After(time.Now()):
		return "failing, asked again " + since(c.RetryAt) + ": " + connectorFault(c)
	case c.Error != "":
		return "failing: " + connectorFault(c)
	case c.FetchedAt == nil:
		return "not asked yet"
	}
	return "enabled"
}

// connectorFault is why the server cannot be used, with the code of it.
func connectorFault(c *api.ConnectorView) string {
	if c.Diagnosis == nil {
		return c.Error
	}
	return clause(c.Error) + " [" + c.Diagnosis.Code + "]"
}

// alterConnector changes a connector and says what is so now, and whether anybody on
// the way can read the credential.
func alterConnector[In any](ctx context.Context, r *remote, std *stdio, route api.Route[In, api.ConnectorView], in In, human func(io.Writer, *api.ConnectorView)) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	now, raw, err := fetch(ctx, server, route, in)
	if err != nil {
		return err
	}
	u, err := url.Parse(now.URL)
	if err == nil && strings.EqualFold(u.Scheme, "http") && !guard.Loopback(u) && connectorCredential(now) != "" {
		said("warning: the credential travels unencrypted, because the URL is http and not https")(std.Err)
	}
	return r.print(std, raw, func(w io.Writer) { human(w, now) })
}

func connectorIs(done string) func(io.Writer, *api.ConnectorView) {
	return func(w io.Writer, now *api.ConnectorView) { said(connectorName(now) + " " + done)(w) }
}

type connectorEnable struct{ theConnector }

func (c *connectorEnable) Run(ctx context.Context, std *stdio) error {
	return alterConnector(ctx, &c.remote, std, api.EnableConnector, c.ref(), connectorIs("is enabled"))
}

type connectorDisable struct{ theConnector }

func (c *connectorDisable) Run(ctx context.Context, std *stdio) error {
	return alterConnector(ctx, &c.remote, std, api.DisableConnector, c.ref(), connectorIs("is disabled"))
}

type connectorRemove struct{ theConnector }

// Run says which secret stays: others may use it, so that nothing deletes it.
func (c *connectorRemove) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	was, _, err := fetch(ctx, server, api.GetConnector, c.ref())
	if err != nil {
		return err
	}
	return perform(ctx, &c.remote, std, api.DeleteConnector, api.ByRef{Ref: was.ID}, func(w io.Writer, _ *api.None) {
		said("connector " + was.Name + " is removed")(w)
		if key := connectorKey(was); key != "" {
			said("secret " + key + " stays; when nothing else uses it, delete it with: " + c.hint("secret", "delete", key))(w)
		}
	})
}

// connectorKey is of the secret that the gateway uses at the server or for it.
func connectorKey(c *api.ConnectorView) string {
	if c.OAuth != nil && c.OAuth.ClientSecret != "" {
		return c.OAuth.ClientSecret
	}
	return c.Secret
}
