package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
)

type connectorCommand struct {
	Add      connectorAdd      `cmd:"" help:"Add a remote MCP server."`
	Presets  connectorPresets  `cmd:"" help:"List the servers that add --preset knows."`
	List     connectorList     `cmd:"" help:"List connectors."`
	Update   connectorUpdate   `cmd:"" help:"Change a connector."`
	SignIn   connectorSignIn   `cmd:"" help:"Begin to sign in at a connector's service: print the URL to open."`
	SignOut  connectorSignOut  `cmd:"" help:"Forget the tokens of a connector, and revoke them where the service can."`
	Validate connectorValidate `cmd:"" help:"Ask a connector, or a URL, for its tools now, and tell each step."`
	Onboard  connectorOnboard  `cmd:"" help:"Show a connector's tools, and say what agents may do with each."`
	Review   connectorReview   `cmd:"" help:"Show the tools that are new, changed or gone, and accept them."`
	Enable   connectorEnable   `cmd:"" help:"Offer a connector's tools to agents."`
	Disable  connectorDisable  `cmd:"" help:"Offer a connector's tools no more."`
	Remove   connectorRemove   `cmd:"" help:"Remove a connector."`
}

// connectorRow is a connector as the API shows it.
type connectorRow struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Slug     string            `json:"slug"`
	URL      string            `json:"url"`
	Secret   string            `json:"secret"`
	Headers  map[string]string `json:"headers"`
	Review   string            `json:"review"`
	Enabled  bool              `json:"enabled"`
	Fetched  *time.Time        `json:"fetched_at"`
	Count    int               `json:"tool_count"`
	Error    string            `json:"error"`
	Warnings []string          `json:"warnings"`
	Risks    map[string]string `json:"tool_risks"`
	OAuth    map[string]any    `json:"oauth"`
	SignedIn *signedIn         `json:"oauth_status"`
	RetryAt  *time.Time        `json:"retry_at"`
	connectorCheck
}

// said is how a connector is named to a person.
func (c *connectorRow) said() string { return fmt.Sprintf("connector %s (connector:%s)", c.Name, c.ID) }

type connectorList struct{ remote }

func (c *connectorList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, "/api/v1/connectors", nil, func(w io.Writer, connectors *list[connectorRow]) {
		rows := make([][]string, 0, len(connectors.Items))
		for _, k := range connectors.Items {
			rows = append(rows, []string{k.Name, k.Slug, k.URL, k.credential(), strconv.Itoa(k.Count), k.state(), k.Review, k.ID})
		}
		table(w, []string{"NAME", "SLUG", "URL", "CREDENTIAL", "TOOLS", "STATE", "REVIEW", "ID"}, rows)
	})
}

// credential is what is sent along: the key of a secret, or tokens.
func (c *connectorRow) credential() string {
	if c.OAuth != nil {
		return "OAuth"
	}
	return c.Secret
}

func (c *connectorRow) state() string {
	switch {
	case !c.Enabled:
		return "disabled"
	case c.SignedIn != nil && c.SignedIn.Status == action.OAuthReconnect:
		return "reconnect needed: " + c.SignedIn.Reason
	case c.SignedIn != nil && c.SignedIn.Status != action.OAuthConnected && c.OAuth["kind"] == string(action.OAuthCode):
		return "nobody signed in yet"
	case c.RetryAt != nil && c.RetryAt.After(time.Now()):
		return "failing, asked again " + since(c.RetryAt) + ": " + c.fault()
	case c.Error != "":
		return "failing: " + c.fault()
	case c.Fetched == nil:
		return "not asked yet"
	}
	return "enabled"
}

// fault is why the server cannot be used, with the code of it.
func (c *connectorRow) fault() string {
	if c.Diagnosis == nil {
		return c.Error
	}
	return clause(c.Error) + " [" + c.Diagnosis.Code + "]"
}

// act changes a connector and says what is so now.
func (r *remote) act(ctx context.Context, std *stdio, method, path string, body any, done string) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	var now connectorRow
	raw, err := server.change(ctx, method, path, body, &now)
	if err != nil {
		return err
	}
	now.warn(std)
	return r.print(std, raw, said(now.said()+" "+done))
}

// warn says when anybody on the way can read the credential.
func (c *connectorRow) warn(std *stdio) {
	u, err := url.Parse(c.URL)
	if err == nil && strings.EqualFold(u.Scheme, "http") && !guard.Loopback(u) && c.credential() != "" {
		said("warning: the credential travels unencrypted, because the URL is http and not https")(std.Err)
	}
}

func connectorPath(ref string) string {
	return "/api/v1/connectors/" + url.PathEscape(strings.TrimPrefix(ref, "connector:"))
}

// named are the commands that take nothing but a connector.
type named struct {
	remote
	Name string `arg:"" help:"Name, slug or id of the connector."`
}

type connectorEnable struct{ named }

func (c *connectorEnable) Run(ctx context.Context, std *stdio) error {
	return c.act(ctx, std, http.MethodPost, connectorPath(c.Name)+"/enable", nil, "is enabled")
}

type connectorDisable struct{ named }

func (c *connectorDisable) Run(ctx context.Context, std *stdio) error {
	return c.act(ctx, std, http.MethodPost, connectorPath(c.Name)+"/disable", nil, "is disabled")
}

type connectorRemove struct{ named }

// Run says which secret stays: others may use it, so that nothing deletes it.
func (c *connectorRemove) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var was connectorRow
	if _, err := server.read(ctx, connectorPath(c.Name), nil, &was); err != nil {
		return err
	}
	raw, err := server.change(ctx, http.MethodDelete, connectorPath(was.ID), nil, nil)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		said("connector " + was.Name + " is removed")(w)
		if key := was.key(); key != "" {
			said("secret " + key + " stays; when nothing else uses it, delete it with: " + c.hint("secret", "delete", key))(w)
		}
	})
}

// key is of the secret that the gateway uses at the server or for it.
func (c *connectorRow) key() string {
	if key, ok := c.OAuth["client_secret"].(string); ok {
		return key
	}
	return c.Secret
}
