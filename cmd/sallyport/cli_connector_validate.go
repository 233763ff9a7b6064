package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type connectorValidate struct {
	remote
	connectorFields
	Name string `arg:"" name:"name|url" help:"Name, slug or ID of a connector, or the URL of a new server."`
}

// Run asks the server and fails when it cannot be used.
func (c *connectorValidate) Run(ctx context.Context, std *stdio) error {
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
	return fmt.Errorf("%s cannot be used: %s", visible(c.Name), visible(connectorFault(state)))
}

// state is how the server is when it is asked. Of one that is no connector yet, a
// slug is to be chosen in the names that agents will see.
func (c *connectorValidate) state(ctx context.Context, std *stdio, server *client) (*api.ConnectorView, json.RawMessage, error) {
	if !strings.Contains(c.Name, "://") {
		if !reflect.ValueOf(c.connectorFields).IsZero() {
			return nil, nil, wrongUse("the flags of a connector go with a URL; connector %s has its own, see: %s", visible(c.Name), visible(c.hint("connector", "update", "--help")))
		}
		return fetch(ctx, server, api.ValidateConnector, connectorRef(c.Name))
	}
	if err := c.complete(std, new(action.Connector)); err != nil {
		return nil, nil, err
	}
	c.Upstream.URL = &c.Name
	state, raw, err := fetch(ctx, server, api.TryConnector, api.Body[api.TriedConnector]{Body: api.TriedConnector{Upstream: c.Upstream}})
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
		number(len(c.Tools), "tool"), number(c.ResourceCount, "resource"), number(c.TemplateCount, "resource template"), number(c.PromptCount, "prompt")))(w)
	tableOf(w, "ACTION TOOL_AS_AGENTS_SEE_IT RISK MODE", append(c.Tools, c.Beside...), func(t *api.ToolView) []string {
		return []string{t.Name, t.Tool, string(t.Risk), string(t.Mode)}
	})
}
