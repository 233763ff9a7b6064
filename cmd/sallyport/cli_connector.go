package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
)

type connectorCommand struct {
	Add      connectorAdd      `cmd:"" help:"Add a remote MCP server."`
	List     connectorList     `cmd:"" help:"List connectors."`
	Update   connectorUpdate   `cmd:"" help:"Change a connector."`
	Validate connectorValidate `cmd:"" help:"Ask a connector, or a URL, for its tools now."`
	Review   connectorReview   `cmd:"" help:"Show the tools that are new, changed or gone, and accept them."`
	Enable   connectorEnable   `cmd:"" help:"Offer a connector's tools to agents."`
	Disable  connectorDisable  `cmd:"" help:"Offer a connector's tools no more."`
	Remove   connectorRemove   `cmd:"" help:"Remove a connector."`
}

// connectorFields are what add and update have in common.
type connectorFields struct {
	Header *string `placeholder:"H" help:"Header for the secret (default: Authorization)."`
	Prefix *string `placeholder:"P" help:"What stands before the secret, such as 'Bearer '."`
	Secret *string `placeholder:"KEY" help:"Secret that is sent along; see secret set."`
	Risk   *string `placeholder:"RISK" help:"Risk of tools that say nothing of themselves: read, write (default) or danger."`
}

func (f connectorFields) body() map[string]any {
	return present(map[string]*string{"header": f.Header, "prefix": f.Prefix, "secret": f.Secret, "default_risk": f.Risk})
}

// present keeps the fields that were given, also those given as empty.
func present(fields map[string]*string) map[string]any {
	body := make(map[string]any)
	for name, value := range fields {
		if value != nil {
			body[name] = *value
		}
	}
	return body
}

// connectorRules say what is to be thought of a connector's tools.
type connectorRules struct {
	Review   string            `enum:"trust,strict,required," default:"" placeholder:"RULE" help:"trust (default): what it lists first counts as reviewed; strict: and changed texts are drift; required: nothing runs before its review."`
	ToolRisk map[string]string `mapsep:"none" placeholder:"TOOL=RISK" help:"Risk of one tool, whatever it says of itself; again for more, TOOL= to forget one."`
}

type connectorRow struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Slug     string            `json:"slug"`
	URL      string            `json:"url"`
	Secret   string            `json:"secret"`
	Review   string            `json:"review"`
	Enabled  bool              `json:"enabled"`
	Fetched  *time.Time        `json:"fetched_at"`
	Count    int               `json:"tool_count"`
	Error    string            `json:"error"`
	Warnings []string          `json:"warnings"`
	Risks    map[string]string `json:"tool_risks"`
	Tools    []struct {
		Name string `json:"name"`
		Tool string `json:"tool"`
		Risk string `json:"risk"`
		Mode string `json:"mode"`
	} `json:"tools"`
}

// said is how a connector is named to a person.
func (c *connectorRow) said() string { return fmt.Sprintf("connector %s (connector:%s)", c.Name, c.ID) }

type connectorAdd struct {
	remote
	connectorFields
	connectorRules
	Name string  `arg:"" help:"What people call it."`
	At   string  `arg:"" name:"url" help:"Its streamable HTTP endpoint."`
	Slug *string `placeholder:"S" help:"Prefix of its tools' names; --slug= keeps their names (default: from the name)."`
}

func (c *connectorAdd) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	body := c.body()
	body["name"], body["url"] = c.Name, c.At
	if c.Slug != nil {
		body["slug"] = *c.Slug
	}
	if c.Review != "" {
		body["review"] = c.Review
	}
	if len(c.ToolRisk) > 0 {
		body["tool_risks"] = c.ToolRisk
	}
	var made connectorRow
	raw, err := server.change(ctx, http.MethodPost, "/api/v1/connectors", body, &made)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		said(made.said() + " is added")(w)
		verb := "validate"
		if made.Review == string(action.ReviewRequired) {
			verb = "review"
		}
		said("see its tools with: " + c.hint("connector", verb, made.Name))(w)
	})
}

type connectorList struct{ remote }

func (c *connectorList) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var connectors list[connectorRow]
	raw, err := server.read(ctx, "/api/v1/connectors", nil, &connectors)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(connectors.Items))
		for _, k := range connectors.Items {
			rows = append(rows, []string{k.Name, k.Slug, k.URL, k.Secret, strconv.Itoa(k.Count), k.state(), k.Review, k.ID})
		}
		table(w, []string{"NAME", "SLUG", "URL", "SECRET", "TOOLS", "STATE", "REVIEW", "ID"}, rows)
	})
}

func (c *connectorRow) state() string {
	switch {
	case !c.Enabled:
		return "disabled"
	case c.Error != "":
		return "failing: " + c.Error
	case c.Fetched == nil:
		return "not asked yet"
	}
	return "enabled"
}

type connectorUpdate struct {
	remote
	connectorFields
	connectorRules
	Ref  string  `arg:"" name:"name" help:"Name, slug or id of the connector."`
	Name *string `name:"rename" placeholder:"NAME" help:"Its new name."`
	At   *string `name:"endpoint" placeholder:"URL" help:"Its new endpoint."`
}

func (c *connectorUpdate) Run(ctx context.Context, std *stdio) error {
	body := c.body()
	for name, value := range present(map[string]*string{"name": c.Name, "url": c.At}) {
		body[name] = value
	}
	if c.Review != "" {
		body["review"] = c.Review
	}
	if len(body)+len(c.ToolRisk) == 0 {
		return usageError{errors.New("nothing to change: give --endpoint, --rename, --header, --prefix, --secret, --risk, --tool-risk or --review")}
	}
	if len(c.ToolRisk) > 0 {
		risks, err := c.risks(ctx)
		if err != nil {
			return err
		}
		body["tool_risks"] = risks
	}
	return c.act(ctx, std, http.MethodPatch, connectorPath(c.Ref), body, "is changed")
}

// risks are those of the connector with the given ones put in. The API takes
// the whole map.
func (c *connectorUpdate) risks(ctx context.Context) (map[string]string, error) {
	server, err := c.connect()
	if err != nil {
		return nil, err
	}
	var now connectorRow
	if _, err := server.read(ctx, connectorPath(c.Ref), nil, &now); err != nil {
		return nil, err
	}
	risks := map[string]string{}
	maps.Copy(risks, now.Risks)
	maps.Copy(risks, c.ToolRisk)
	maps.DeleteFunc(risks, func(_, risk string) bool { return risk == "" })
	return risks, nil
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
	return r.print(std, raw, said(now.said()+" "+done))
}

func connectorPath(ref string) string {
	return "/api/v1/connectors/" + url.PathEscape(strings.TrimPrefix(ref, "connector:"))
}

// named are the commands that take nothing but a connector.
type named struct {
	remote
	Name string `arg:"" help:"Name, slug or id of the connector."`
}

type connectorValidate struct {
	remote
	connectorFields
	Name string `arg:"" name:"name|url" help:"Name, slug or id of a connector, or the URL of a server that is none yet."`
}

// Run asks the server and fails when it cannot be used.
func (c *connectorValidate) Run(ctx context.Context, std *stdio) error {
	path, body := connectorPath(c.Name)+"/validate", any(nil)
	if strings.Contains(c.Name, "://") {
		fields := c.body()
		fields["url"] = c.Name
		path, body = "/api/v1/connectors/validate", fields
	} else if len(c.body()) > 0 {
		return usageError{errors.New("--header, --prefix, --secret and --risk go with a URL; a connector has its own")}
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	var state connectorRow
	raw, err := server.change(ctx, http.MethodPost, path, body, &state)
	if err != nil {
		return err
	}
	if err := c.print(std, raw, state.report); err != nil || state.Error == "" {
		return err
	}
	return fmt.Errorf("%s cannot be used: %s", visible(c.Name), visible(state.Error))
}

// report tells what a server offers.
func (c *connectorRow) report(w io.Writer) {
	for _, warning := range c.Warnings {
		said("warning: " + warning)(w)
	}
	if c.Error != "" {
		return
	}
	rows := make([][]string, 0, len(c.Tools))
	for _, t := range c.Tools {
		rows = append(rows, []string{t.Name, t.Tool, t.Risk, t.Mode})
	}
	table(w, []string{"TOOL", "AS AGENTS SEE IT", "RISK", "MODE"}, rows)
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

func (c *connectorRemove) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, connectorPath(c.Name), "connector "+c.Name+" is removed")
}
