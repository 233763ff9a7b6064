package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type policyCommand struct {
	Set      policySet      `cmd:"" help:"Set the mode of source:action, source:* or *."`
	Unset    policyUnset    `cmd:"" help:"Remove the mode of a key."`
	Show     policyShow     `cmd:"" help:"List modes."`
	Explain  policyExplain  `cmd:"" help:"Show how a call would be decided, without running it."`
	Settings policySettings `cmd:"" help:"Show or change organization-wide approval settings."`
	Quota    quotaCommand   `cmd:"" help:"Manage quotas of actions."`
	Log      policyLog      `cmd:"" help:"List policy changes, newest first."`
}

type policySet struct {
	remote
	api.ByPolicyKey
	api.NewMode
}

func (c *policySet) Run(ctx context.Context, std *stdio) error {
	in := api.ByPolicyKeyWith[api.NewMode]{ByPolicyKey: c.ByPolicyKey, Body: c.NewMode}
	return perform(ctx, &c.remote, std, api.PutMode, in, func(w io.Writer, now *api.ModeView) {
		std.warn(now.Warning)
		said(now.Name + " is " + string(now.Mode) + " from now on")(w)
	})
}

type policyUnset struct {
	remote
	api.DeleteModeInput
}

func (c *policyUnset) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.DeleteMode, c.DeleteModeInput, done(c.Key+" has no mode of its own any more"))
}

type policyShow struct{ remote }

func (*policyShow) route() api.Operation { return api.ListModes.Operation }

func (c *policyShow) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	modes, raw, err := fetch(ctx, server, api.ListModes, api.None{})
	if err != nil {
		return err
	}
	if c.JSON {
		return std.printJSON(raw)
	}
	connectors, _, err := fetch(ctx, server, api.ListConnectors, api.None{})
	if err != nil {
		return err
	}
	used, _, err := fetch(ctx, server, api.ListIntegrations, api.None{})
	if err != nil {
		return err
	}
	names := server.labels(ctx, actors(api.ListAutomations.Operation)...)
	tableOf(std.Out, "KEY MODE AUTOMATION SET_BY", modes.Items, func(m *api.ModeView) []string {
		return []string{modeKey(m, connectors.Items, used.Items), string(m.Mode), names.of(m.Automation), names.of(m.UpdatedBy)}
	})
	fmt.Fprintln(std.Out, "anything else: reads are allowed, writes wait for approval, dangerous actions are denied")
	return nil
}

// modeKey is the key as policy set takes it: a name that a module and a
// connector share is told with which of them it is.
func modeKey(m *api.ModeView, connectors []api.ConnectorView, used []api.IntegrationView) string {
	source, _, _ := strings.Cut(m.Name, ":")
	ofConnector := strings.HasPrefix(m.Key, "connector:")
	switch {
	case ofConnector && slices.ContainsFunc(used, func(in api.IntegrationView) bool { return strings.EqualFold(in.Provider, source) }):
		return m.Key
	case !ofConnector && slices.ContainsFunc(connectors, func(c api.ConnectorView) bool { return c.Slug == source || strings.EqualFold(c.Name, source) }):
		return "module:" + m.Key
	}
	return m.Name
}

type policySettings struct {
	remote
	api.SettingsChange
}

// Run shows the settings, after changing those that were given.
func (c *policySettings) Run(ctx context.Context, std *stdio) error {
	if c.SettingsChange == (api.SettingsChange{}) {
		return perform(ctx, &c.remote, std, api.GetSettings, api.None{}, showSettings)
	}
	return perform(ctx, &c.remote, std, api.UpdateSettings, api.Body[api.SettingsChange]{Body: c.SettingsChange}, showSettings)
}

func showSettings(w io.Writer, s *action.Settings) {
	if s.SelfApproval {
		fmt.Fprintln(w, "whoever made a session may approve its calls")
	} else {
		fmt.Fprintln(w, "whoever made a session cannot approve its calls")
	}
	if s.DenialLimit == 0 {
		fmt.Fprintln(w, "however often people deny an action, it is asked for again")
	} else {
		fmt.Fprintf(w, "after %d denials by people, an action is denied for the rest of the session\n", s.DenialLimit)
	}
	if s.UnverifiedEvents {
		fmt.Fprintln(w, "events that a broker forwards without verifying who sent them may start runs")
	} else {
		fmt.Fprintln(w, "events that a broker forwards without verifying who sent them start nothing")
	}
}
