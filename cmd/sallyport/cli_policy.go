package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/api"
)

type policyCommand struct {
	Set      policySet      `cmd:"" help:"Set the mode of source:action, source:* or *."`
	Unset    policyUnset    `cmd:"" help:"Forget the mode of a key."`
	Show     policyShow     `cmd:"" help:"List the modes that were set."`
	Explain  policyExplain  `cmd:"" help:"Say how a call would be decided, without running it."`
	Settings policySettings `cmd:"" help:"Show or change what holds for the whole organization."`
	Quota    quotaCommand   `cmd:"" help:"Limit how often actions may be called."`
	Log      policyLog      `cmd:"" help:"Tell who changed what of policy, newest first."`
}

// keyed are the commands on one key of policy.
type keyed struct {
	remote
	Key        string `arg:"" help:"source:action, source:* or *; a connector goes by its name, slug or id, an integration by its provider or module:PROVIDER."`
	Automation string `placeholder:"ID" help:"Only for sessions of this automation."`
}

func (k *keyed) path() string {
	path := "/api/v1/policy/modes/" + url.PathEscape(k.Key)
	if k.Automation != "" {
		path += "?" + url.Values{"automation": {k.Automation}}.Encode()
	}
	return path
}

type policySet struct {
	keyed
	Mode string `arg:"" enum:"allow,deny,require_approval" help:"allow, deny or require_approval."`
}

type modeRow struct {
	Key        string `json:"key"`
	Name       string `json:"name"`
	Mode       string `json:"mode"`
	Automation string `json:"automation_id"`
	Warning    string `json:"warning"`
	UpdatedBy  string `json:"updated_by"`
}

func (c *policySet) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	body := map[string]any{"mode": c.Mode}
	if c.Automation != "" {
		body["automation"] = c.Automation
	}
	var now modeRow
	raw, err := server.change(ctx, http.MethodPut, "/api/v1/policy/modes/"+url.PathEscape(c.Key), body, &now)
	if err != nil {
		return err
	}
	std.warn(now.Warning)
	return c.print(std, raw, said(now.Name+" is "+now.Mode+" from now on"))
}

type policyUnset struct{ keyed }

func (c *policyUnset) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, c.path(), c.Key+" has no mode of its own any more")
}

type policyShow struct{ remote }

func (c *policyShow) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var modes list[modeRow]
	raw, err := server.read(ctx, "/api/v1/policy/modes", nil, &modes)
	if err != nil {
		return err
	}
	var connectors list[api.ConnectorView]
	var used list[integrationRow]
	if !c.JSON {
		if _, err := server.read(ctx, "/api/v1/connectors", nil, &connectors); err != nil {
			return err
		}
		if _, err := server.read(ctx, integrationsPath, nil, &used); err != nil {
			return err
		}
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(modes.Items))
		names := server.labels(ctx, usersPath, keysPath, api.ListAutomations.Path)
		for _, m := range modes.Items {
			rows = append(rows, []string{m.said(connectors.Items, used.Items), m.Mode, names.of(m.Automation), names.of(m.UpdatedBy)})
		}
		table(w, []string{"KEY", "MODE", "AUTOMATION", "SET BY"}, rows)
		fmt.Fprintln(w, "anything else: reads are allowed, writes wait for approval, dangerous actions are denied")
	})
}

// said is the key as policy set takes it: a name that a module and a connector
// share is told with which of them it is.
func (m *modeRow) said(connectors []api.ConnectorView, used []integrationRow) string {
	source, _, _ := strings.Cut(m.Name, ":")
	ofConnector := strings.HasPrefix(m.Key, "connector:")
	switch {
	case ofConnector && slices.ContainsFunc(used, func(in integrationRow) bool { return strings.EqualFold(in.Provider, source) }):
		return m.Key
	case !ofConnector && slices.ContainsFunc(connectors, func(c api.ConnectorView) bool { return c.Slug == source || strings.EqualFold(c.Name, source) }):
		return "module:" + m.Key
	}
	return m.Name
}
