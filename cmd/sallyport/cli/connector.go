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
	Add      connectorAdd                                   `cmd:"" help:"Add a remote MCP server."`
	Presets  request[api.None, api.List[api.Preset]]        `cmd:"" help:"List known servers for add --preset."`
	List     request[api.None, api.List[api.ConnectorView]] `cmd:"" help:"List connectors."`
	Update   connectorUpdate                                `cmd:"" help:"Change a connector."`
	SignIn   connectorSignIn                                `cmd:"" help:"Start a sign-in at the connector's service and print the URL to open."`
	SignOut  connectorSignOut                               `cmd:"" help:"Delete the tokens of a connector and revoke them if the service supports it."`
	Validate connectorValidate                              `cmd:"" help:"Test a connector or URL and list its tools."`
	Onboard  connectorOnboard                               `cmd:"" help:"List the tools of a connector and set their modes."`
	Profile  connectorProfile                               `cmd:"" help:"Set the modes of a connector's tools by a profile, by pattern or for all that are denied."`
	Review   connectorReview                                `cmd:"" help:"List new, changed and removed tools, and accept them."`
	Enable   connectorEnable                                `cmd:"" help:"Show a connector's tools to agents."`
	Disable  connectorDisable                               `cmd:"" help:"Hide a connector's tools from agents."`
	Remove   connectorRemove                                `cmd:"" help:"Remove a connector."`
}

// connectorRef is the argument that names a connector.
type connectorRef struct {
	clientFlags
	Ref string `arg:"" name:"name" help:"Name, slug or ID of the connector."`
}

func (c *connectorRef) ref() api.ByRef { return byConnector(c.Ref) }

// byConnector returns the path parameter of a connector, also for a source ID.
func byConnector(ref string) api.ByRef {
	return api.ByRef{Ref: strings.TrimPrefix(ref, "connector:")}
}

// connectorName names a connector in messages.
func connectorName(c *api.ConnectorView) string {
	return fmt.Sprintf("connector %s (connector:%s)", c.Name, c.ID)
}

// connectorCredential describes the credential: the name of a secret, or OAuth.
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
		return "not signed in"
	case c.RetryAt != nil && c.RetryAt.After(time.Now()):
		return "failing, next attempt " + relativeTime(c.RetryAt) + ": " + connectorError(c)
	case c.Error != "":
		return "failing: " + connectorError(c)
	case c.FetchedAt == nil:
		return "not listed yet"
	}
	return "enabled"
}

// connectorError returns the error of the connector with its diagnosis code.
func connectorError(c *api.ConnectorView) string {
	if c.Diagnosis == nil {
		return c.Error
	}
	return withoutPeriod(c.Error) + " [" + c.Diagnosis.Code + "]"
}

// changeConnector changes a connector and prints the result, with a warning if
// the credential is sent over plain HTTP.
func changeConnector[In any](ctx context.Context, r *clientFlags, std *command.Streams, route api.Route[In, api.ConnectorView], in In, show func(io.Writer, *api.ConnectorView)) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	updated, raw, err := Fetch(ctx, server, route, in)
	if err != nil {
		return err
	}
	u, err := url.Parse(updated.URL)
	if err == nil && strings.EqualFold(u.Scheme, "http") && !guard.Loopback(u) && connectorCredential(updated) != "" {
		printLine(std.Err, "warning: the credential is sent unencrypted, because the URL is http")
	}
	return r.print(std, raw, func(w io.Writer) { show(w, updated) })
}

func connectorMessage(message string) func(io.Writer, *api.ConnectorView) {
	return func(w io.Writer, updated *api.ConnectorView) { printLine(w, connectorName(updated)+" "+message) }
}

type connectorEnable struct{ connectorRef }

func (c *connectorEnable) Run(ctx context.Context, std *command.Streams) error {
	return changeConnector(ctx, &c.clientFlags, std, api.EnableConnector, c.ref(), connectorMessage("is enabled"))
}

type connectorDisable struct{ connectorRef }

func (c *connectorDisable) Run(ctx context.Context, std *command.Streams) error {
	return changeConnector(ctx, &c.clientFlags, std, api.DisableConnector, c.ref(), connectorMessage("is disabled"))
}

type connectorRemove struct{ connectorRef }

// Run names the secret that remains, because other connectors may use it.
func (c *connectorRemove) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	removed, _, err := Fetch(ctx, server, api.GetConnector, c.ref())
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.DeleteConnector, api.ByRef{Ref: removed.ID}, func(w io.Writer, _ *api.None) {
		printLine(w, "connector "+removed.Name+" is removed")
		if key := connectorSecret(removed); key != "" {
			printLine(w, "secret "+key+" is kept; if nothing else uses it, delete it with: "+c.hint("secret", "delete", key))
		}
	})
}

// connectorSecret returns the key of the connector's secret.
func connectorSecret(c *api.ConnectorView) string {
	if c.OAuth != nil && c.OAuth.ClientSecret != "" {
		return c.OAuth.ClientSecret
	}
	return c.Secret
}

type connectorValidate struct {
	clientFlags
	connectorFields
	Name string `arg:"" name:"name|url" help:"Name, slug or ID of a connector, or the URL of a new server."`
}

// Run tests the connection and fails if it does not work.
func (c *connectorValidate) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	state, raw, err := c.validate(ctx, std, server)
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) { showValidation(w, &c.clientFlags, state) }); err != nil || state.Error == "" {
		return err
	}
	return fmt.Errorf("%s cannot be used: %s", command.Printable(c.Name), command.Printable(connectorError(state)))
}

// validate tests the connection. A URL has no slug yet, so tool names contain a
// placeholder.
func (c *connectorValidate) validate(ctx context.Context, std *command.Streams, server *Client) (*api.ConnectorView, json.RawMessage, error) {
	if !strings.Contains(c.Name, "://") {
		if !reflect.ValueOf(c.connectorFields).IsZero() {
			return nil, nil, command.UsageErrorf("the flags of a connector need a URL; connector %s has its own settings, see: %s", command.Printable(c.Name), command.Printable(c.hint("connector", "update", "--help")))
		}
		return Fetch(ctx, server, api.ValidateConnector, byConnector(c.Name))
	}
	if err := c.fill(std, new(action.Connector)); err != nil {
		return nil, nil, err
	}
	c.Upstream.URL = &c.Name
	state, raw, err := Fetch(ctx, server, api.TryConnector, api.Body[api.TriedConnector]{Body: api.TriedConnector{Upstream: c.Upstream}})
	state.ID = "" // it is not stored
	for i, t := range state.Tools {
		state.Tools[i].Tool = "<slug>_" + strings.TrimPrefix(t.Tool, state.Slug+"_")
	}
	return state, raw, err
}

// showValidation prints the connection steps and the tools of a server.
func showValidation(w io.Writer, r *clientFlags, c *api.ConnectorView) {
	for _, s := range c.Steps {
		switch {
		case s.Failed:
			s.Detail = strings.TrimSpace("FAILED " + s.Detail)
		case s.TookMS == 0:
			continue // this step did not run
		}
		printLine(w, strings.TrimRight(fmt.Sprintf("%-18s %8.1f ms  %s", s.Name, s.TookMS, s.Detail), " "))
	}
	showWarnings(w, c)
	showSharedState(w, r, c)
	if c.Error != "" {
		return
	}
	printLine(w, fmt.Sprintf("MCP %s: %s, %s, %s, %s", cmp.Or(c.Protocol, "(unknown version)"),
		command.Plural(len(c.Tools), "tool"), command.Plural(c.ResourceCount, "resource"), command.Plural(c.TemplateCount, "resource template"), command.Plural(c.PromptCount, "prompt")))
	if c.Modes != nil {
		printLine(w, c.Modes.String())
	}
	printTable(w, "ACTION TOOL_NAME RISK MODE", append(c.Tools, c.Beside...), func(t *api.ToolView) []string {
		return []string{t.Name, t.Tool, string(t.Risk), string(t.Mode)}
	})
}

// showWarnings prints what an admin should know of a server that works.
func showWarnings(w io.Writer, c *api.ConnectorView) {
	for _, warning := range c.Warnings {
		printLine(w, "warning: "+warning)
	}
}

// showSharedState proposes a session for each agent with a server that keeps state.
func showSharedState(w io.Writer, r *clientFlags, c *api.ConnectorView) {
	switch {
	case c.SharedState == "":
	case c.ID == "":
		printLine(w, "warning: "+c.SharedState+" To do so, add it with --per-agent.")
	default:
		printLine(w, "warning: "+c.SharedState+" To do so: "+r.hint("connector", "update", c.Name, "--per-agent=true"))
	}
}

// signInLifetime is how long a sign-in URL is valid.
const signInLifetime = 10 * time.Minute

// signInDestination says which server the sign-in URL leads to.
func signInDestination(l *api.SignInLink) string {
	to := "the URL leads to " + command.Printable(l.Host)
	if l.Issuer != "" {
		to += ", for the authorization server " + command.Printable(l.Issuer)
	}
	if l.Known {
		return to
	}
	return to + "; open it only if you know that it belongs to the service, because the connector's server chose it"
}

type connectorSignIn struct {
	connectorRef
	Wait time.Duration `placeholder:"D" help:"Wait for the sign-in, at most 10m."`
}

// Run prints the sign-in URL. Only a browser that is signed in to Sallyport as
// the same user can complete it.
func (c *connectorSignIn) Run(ctx context.Context, std *command.Streams) error {
	if c.Wait < 0 || c.Wait > signInLifetime {
		return command.UsageErrorf("--wait must be at most 10m, because a sign-in URL expires then")
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
		return c.noSignInError(before, "nobody can sign in to")
	}
	link, raw, err := Fetch(ctx, server, api.SignInConnector, c.ref())
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) {
		fmt.Fprintln(std.Err, signInDestination(link))
		fmt.Fprintln(std.Err, "open this URL within ten minutes, in a browser where you are signed in to Sallyport:")
		fmt.Fprintln(w, command.Printable(link.AuthorizeURL))
	}); err != nil || c.Wait <= 0 {
		return err
	}
	return c.waitConnected(ctx, std, server, before.OAuthStatus)
}

// waitConnected polls until the connector has new tokens.
func (c *connectorSignIn) waitConnected(ctx context.Context, std *command.Streams, server *Client, before *api.OAuthStatus) error {
	waitCtx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	for {
		select {
		case <-waitCtx.Done():
			return c.waitError(ctx)
		case <-time.After(time.Second):
		}
		now, _, err := Fetch(waitCtx, server, api.GetConnector, c.ref())
		if waitCtx.Err() != nil {
			return c.waitError(ctx)
		}
		if err != nil {
			return err
		}
		if signedIn(now, action.OAuthConnected) && !reflect.DeepEqual(now.OAuthStatus, before) {
			printLine(std.Err, "connector "+c.Ref+" is connected to "+now.OAuthStatus.Issuer)
			return nil
		}
	}
}

// waitError says why the wait ended. ctx is canceled on a signal.
func (c *connectorSignIn) waitError(ctx context.Context) error {
	reason := "nobody signed in within " + c.Wait.String()
	if ctx.Err() != nil {
		reason = "stopped before the sign-in"
	}
	return fmt.Errorf("%s; the URL is valid for ten minutes. For a new one: %s", reason, command.Printable(c.hint("connector", "sign-in", c.Ref)))
}

// hasOAuth reports whether the connector uses this kind of OAuth.
func hasOAuth(c *api.ConnectorView, kind action.OAuthKind) bool {
	return c.OAuth != nil && c.OAuth.Kind == kind
}

// signedIn reports whether the connector has this OAuth status.
func signedIn(c *api.ConnectorView, as action.OAuthStatus) bool {
	return c.OAuthStatus != nil && c.OAuthStatus.Status == string(as)
}

type connectorSignOut struct{ connectorRef }

func (c *connectorSignOut) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	current, _, err := Fetch(ctx, server, api.GetConnector, c.ref())
	signedOut := !signedIn(current, action.OAuthConnected) && !signedIn(current, action.OAuthReconnect)
	switch {
	case err != nil:
		return err
	case current.OAuth == nil, hasOAuth(current, action.OAuthClient) && signedOut:
		return c.noSignInError(current, "nobody is signed in to")
	case signedOut:
		return fmt.Errorf("nobody is signed in to connector %s; sign in first: %s", command.Printable(current.Name), command.Printable(c.hint("connector", "sign-in", current.Name)))
	}
	return perform(ctx, &c.clientFlags, std, api.SignOutConnector, c.ref(), confirmation("the tokens of connector "+c.Ref+" are deleted"))
}

func connectorRow(k *api.ConnectorView) []string {
	return []string{k.Name, k.Slug, k.URL, connectorCredential(k), strconv.Itoa(k.ToolCount), connectorState(k), string(k.Review), k.ID}
}

func showPresets(w io.Writer, presets *api.List[api.Preset]) {
	for i := range presets.Items {
		p := &presets.Items[i]
		printLine(w, p.Name+"  "+p.Title+"  "+p.URL)
		printLine(w, "    authentication: "+strings.Join(p.Auth, " or ")+". "+p.Hint)
		if len(p.Unsure) > 0 {
			printLine(w, "    verify in its documentation: "+strings.Join(p.Unsure, ", "))
		}
		for _, v := range p.Variants {
			printLine(w, "    --variant "+v.Name+": "+v.Title)
		}
	}
}
