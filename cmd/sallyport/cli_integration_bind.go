package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"sallyport/action"
)

// boundTo are the integrations that an automation's sessions see.
type boundTo struct {
	Automation  string   `json:"automation_id"`
	Connections []string `json:"connections"`
}

type integrationBind struct {
	remote
	Automation string   `arg:"" help:"The automation."`
	Refs       []string `arg:"" optional:"" name:"ref" field:"connections" help:"Id, name or provider of each integration; none: its sessions see none."`
}

func (c *integrationBind) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	ids, err := server.bindable(ctx, c.Refs)
	if err != nil {
		return err
	}
	return alter(ctx, &c.remote, std, http.MethodPut, bindingsPath(c.Automation), map[string]any{"connections": ids}, func(w io.Writer, b *boundTo) {
		said(fmt.Sprintf("sessions of %s that are minted from now on see %s", b.Automation, number(len(b.Connections), "integration")))(w)
	})
}

func bindingsPath(automation string) string {
	return "/api/v1/automations/" + url.PathEscape(automation) + "/connections"
}

// bindable are references as the API takes them: it knows ids and providers,
// and what is called by a name is told to it by its id.
func (c *client) bindable(ctx context.Context, refs []string) ([]string, error) {
	names := []string{}
	if len(refs) == 0 {
		return names, nil
	}
	var all list[integrationRow]
	if _, err := c.read(ctx, integrationsPath, nil, &all); err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if ref != action.AllConnections && slices.ContainsFunc(all.Items, func(in integrationRow) bool { return in.Name == ref }) {
			in, err := meant(ref, all.Items)
			if err != nil {
				return nil, err
			}
			ref = in.ID
		}
		names = append(names, ref)
	}
	return names, nil
}

type integrationBindings struct {
	remote
	Automation string `arg:"" help:"The automation."`
}

func (c *integrationBindings) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var bound boundTo
	raw, err := server.read(ctx, bindingsPath(c.Automation), nil, &bound)
	if err != nil {
		return err
	}
	var all list[integrationRow]
	if _, err := server.read(ctx, integrationsPath, nil, &all); err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		if len(bound.Connections) == 0 {
			said("sessions of " + c.Automation + " see no integration; bind some with: " + c.hint("integration", "bind", c.Automation, "REF"))(w)
			return
		}
		for _, id := range bound.Connections {
			said(nameOf(id, all.Items))(w)
		}
	})
}

// nameOf says an id with what it stands for.
func nameOf(id string, all []integrationRow) string {
	if i := slices.IndexFunc(all, func(in integrationRow) bool { return in.ID == id }); i >= 0 {
		return all[i].Provider + "  " + all[i].said() + "  " + all[i].state()
	}
	return id
}
