package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
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

func (c *connectorList) Run(ctx context.Context, std *command.Streams) error {
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
func alterConnector[In any](ctx context.Context, r *remote, std *command.Streams, route api.Route[In, api.ConnectorView], in In, human func(io.Writer, *api.ConnectorView)) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	now, raw, err := Fetch(ctx, server, route, in)
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

func (c *connectorEnable) Run(ctx context.Context, std *command.Streams) error {
	return alterConnector(ctx, &c.remote, std, api.EnableConnector, c.ref(), connectorIs("is enabled"))
}

type connectorDisable struct{ theConnector }

func (c *connectorDisable) Run(ctx context.Context, std *command.Streams) error {
	return alterConnector(ctx, &c.remote, std, api.DisableConnector, c.ref(), connectorIs("is disabled"))
}

type connectorRemove struct{ theConnector }

// Run says which secret stays: others may use it, so that nothing deletes it.
func (c *connectorRemove) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	was, _, err := Fetch(ctx, server, api.GetConnector, c.ref())
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

type connectorPresets struct{ remote }

func (*connectorPresets) route() api.Operation { return api.ListPresets.Operation }

func (c *connectorPresets) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.ListPresets, api.None{}, func(w io.Writer, presets *api.List[api.Preset]) {
		for i := range presets.Items {
			p := &presets.Items[i]
			said(p.Name + "  " + p.Title + "  " + p.URL)(w)
			said("    takes: " + strings.Join(p.Auth, " or ") + ". " + p.Hint)(w)
			if len(p.Unsure) > 0 {
				said("    check in its documentation: " + strings.Join(p.Unsure, ", "))(w)
			}
			for _, v := range p.Variants {
				said("    --variant " + v.Name + ": " + v.Title)(w)
			}
		}
	})
}

type connectorValidate struct {
	remote
	connectorFields
	Name string `arg:"" name:"name|url" help:"Name, slug or ID of a connector, or the URL of a new server."`
}

// Run asks the server and fails when it cannot be used.
func (c *connectorValidate) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	state, raw, err := c.state(ctx, std, server)
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) { showCheck(w, state) }); err != nil || state.Error == "" {
		return err
	}
	return fmt.Errorf("%s cannot be used: %s", command.Printable(c.Name), command.Printable(connectorFault(state)))
}

// state is how the server is when it is asked. Of one that is no connector yet, a
// slug is to be chosen in the names that agents will see.
func (c *connectorValidate) state(ctx context.Context, std *command.Streams, server *Client) (*api.ConnectorView, json.RawMessage, error) {
	if !strings.Contains(c.Name, "://") {
		if !reflect.ValueOf(c.connectorFields).IsZero() {
			return nil, nil, command.UsageErrorf("the flags of a connector go with a URL; connector %s has its own, see: %s", command.Printable(c.Name), command.Printable(c.hint("connector", "update", "--help")))
		}
		return Fetch(ctx, server, api.ValidateConnector, connectorRef(c.Name))
	}
	if err := c.complete(std, new(action.Connector)); err != nil {
		return nil, nil, err
	}
	c.Upstream.URL = &c.Name
	state, raw, err := Fetch(ctx, server, api.TryConnector, api.Body[api.TriedConnector]{Body: api.TriedConnector{Upstream: c.Upstream}})
	for i, t := range state.Tools {
		state.Tools[i].Tool = "<slug>_" + strings.TrimPrefix(t.Tool, state.Slug+"_")
	}
	return state, raw, err
}

// showCheck tells how a server was reached and what it offers.
func showCheck(w io.Writer, c *api.ConnectorView) {
	for _, s := range c.Steps {
		switch {
		case s.Failed:
			s.Detail = strings.TrimSpace("FAILED " + s.Detail)
		case s.TookMS == 0:
			continue // it was not needed
		}
		said(strings.TrimRight(fmt.Sprintf("%-18s %8.1f ms  %s", s.Name, s.TookMS, s.Detail), " "))(w)
	}
	for _, warning := range c.Warnings {
		said("warning: " + warning)(w)
	}
	if c.Error != "" {
		return
	}
	said(fmt.Sprintf("MCP %s: %s, %s, %s, %s", cmp.Or(c.Protocol, "of an unknown version"),
		command.Plural(len(c.Tools), "tool"), command.Plural(c.ResourceCount, "resource"), command.Plural(c.TemplateCount, "resource template"), command.Plural(c.PromptCount, "prompt")))(w)
	tableOf(w, "ACTION TOOL_AS_AGENTS_SEE_IT RISK MODE", append(c.Tools, c.Beside...), func(t *api.ToolView) []string {
		return []string{t.Name, t.Tool, string(t.Risk), string(t.Mode)}
	})
}

// signInLife is how long a URL to sign in is good.
const signInLife = 10 * time.Minute

// destination says where the link leads.
func destination(l *api.SignInLink) string {
	to := "it leads to " + command.Printable(l.Host)
	if l.Issuer != "" {
		to += ", for the authorization server " + command.Printable(l.Issuer)
	}
	if l.Known {
		return to
	}
	return to + "; go there only if you know it as the service's: the connector's server named it"
}

type connectorSignIn struct {
	theConnector
	Wait time.Duration `placeholder:"D" help:"Wait for the sign-in, at most 10m."`
}

// Run prints where to sign in. It needs a browser that is signed in to
// Sallyport as the same person: nobody else can finish it.
func (c *connectorSignIn) Run(ctx context.Context, std *command.Streams) error {
	if c.Wait < 0 || c.Wait > signInLife {
		return command.UsageErrorf("--wait is a time of at most 10m: no URL to sign in is good for longer")
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	before, _, err := Fetch(ctx, server, api.GetConnector, c.ref())
	if err != nil {
		return err
	}
	if !hasOAuth(before, action.OAuthCode) {
		return c.nobody(before, "signs in")
	}
	link, raw, err := Fetch(ctx, server, api.SignInConnector, c.ref())
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) {
		fmt.Fprintln(std.Err, destination(link))
		fmt.Fprintln(std.Err, "open this within ten minutes, in a browser that is signed in to Sallyport as you:")
		fmt.Fprintln(w, command.Printable(link.AuthorizeURL))
	}); err != nil || c.Wait <= 0 {
		return err
	}
	return c.until(ctx, std, server, before.OAuthStatus)
}

// until waits for tokens that are not those from before.
func (c *connectorSignIn) until(ctx context.Context, std *command.Streams, server *Client, before *api.OAuthStatus) error {
	waiting, end := context.WithTimeout(ctx, c.Wait)
	defer end()
	for {
		select {
		case <-waiting.Done():
			return c.ended(ctx)
		case <-time.After(time.Second):
		}
		now, _, err := Fetch(waiting, server, api.GetConnector, c.ref())
		if waiting.Err() != nil {
			return c.ended(ctx)
		}
		if err != nil {
			return err
		}
		if signedIn(now, action.OAuthConnected) && !reflect.DeepEqual(now.OAuthStatus, before) {
			said("connector " + c.Ref + " is connected to " + now.OAuthStatus.Issuer)(std.Err)
			return nil
		}
	}
}

// ended says why the wait is over: of ctx, by a signal.
func (c *connectorSignIn) ended(ctx context.Context) error {
	why := "nobody signed in within " + c.Wait.String()
	if ctx.Err() != nil {
		why = "stopped before anybody signed in"
	}
	return fmt.Errorf("%s; the URL is good for ten minutes, and then: %s", why, command.Printable(c.hint("connector", "sign-in", c.Ref)))
}

// hasOAuth reports whether tokens of this kind are sent to the connector.
func hasOAuth(c *api.ConnectorView, kind action.OAuthKind) bool {
	return c.OAuth != nil && c.OAuth.Kind == kind
}

// signedIn reports whether the tokens of the connector are like this.
func signedIn(c *api.ConnectorView, as action.OAuthStatus) bool {
	return c.OAuthStatus != nil && c.OAuthStatus.Status == string(as)
}

type connectorSignOut struct{ theConnector }

func (c *connectorSignOut) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	now, _, err := Fetch(ctx, server, api.GetConnector, c.ref())
	signedOut := !signedIn(now, action.OAuthConnected) && !signedIn(now, action.OAuthReconnect)
	switch {
	case err != nil:
		return err
	case now.OAuth == nil, hasOAuth(now, action.OAuthClient) && signedOut:
		return c.nobody(now, "is signed in")
	case signedOut:
		return fmt.Errorf("nobody is signed in to connector %s; sign in first: %s", command.Printable(now.Name), command.Printable(c.hint("connector", "sign-in", now.Name)))
	}
	return perform(ctx, &c.remote, std, api.SignOutConnector, c.ref(), done("the tokens of connector "+c.Ref+" are forgotten"))
}
