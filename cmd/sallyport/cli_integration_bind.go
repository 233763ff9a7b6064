package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"sallyport/action"
	"sallyport/api"
)

type integrationBind struct {
	theAutomation
	api.NewBindings
}

func (c *integrationBind) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	if c.Connections, err = server.bindable(ctx, c.Connections); err != nil {
		return err
	}
	in := api.ByAutomationWith[api.NewBindings]{ByAutomation: c.ByAutomation, Body: c.NewBindings}
	return perform(ctx, &c.remote, std, api.PutBindings, in, func(w io.Writer, b *api.Bindings) {
		said(fmt.Sprintf("sessions of %s that are minted from now on see %s", b.Automation, number(len(b.Connections), "integration")))(w)
	})
}

// bindable are references as the API takes them: it knows ids and providers,
// and what is called by a name is told to it by its id.
func (c *client) bindable(ctx context.Context, refs []string) ([]string, error) {
	names := []string{}
	if len(refs) == 0 {
		return names, nil
	}
	all, _, err := fetch(ctx, c, api.ListIntegrations, api.None{})
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if ref != action.AllConnections && slices.ContainsFunc(all.Items, func(in api.IntegrationView) bool { return in.Name == ref }) {
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

type integrationBindings struct{ theAutomation }

func (c *integrationBindings) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	bound, raw, err := fetch(ctx, server, api.GetBindings, c.ByAutomation)
	if err != nil {
		return err
	}
	all, _, err := fetch(ctx, server, api.ListIntegrations, api.None{})
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		if len(bound.Connections) == 0 {
			said("sessions of " + c.Automation + " see no integration; bind some with: " + c.hint("integration", "bind", c.Automation, "REF"))(w)
			return
		}
		for _, id := range bound.Connections {
			line := id
			if i := slices.IndexFunc(all.Items, func(in api.IntegrationView) bool { return in.ID == id }); i >= 0 {
				in := &all.Items[i]
				line = in.Provider + "  " + integrationName(in) + "  " + integrationState(in)
			}
			said(line)(w)
		}
	})
}
