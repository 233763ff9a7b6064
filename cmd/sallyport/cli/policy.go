package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
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

func (c *policySet) Run(ctx context.Context, std *command.Streams) error {
	in := api.ByPolicyKeyWith[api.NewMode]{ByPolicyKey: c.ByPolicyKey, Body: c.NewMode}
	return perform(ctx, &c.remote, std, api.PutMode, in, func(w io.Writer, now *api.ModeView) {
		std.Warn(now.Warning)
		said(now.Name + " is " + string(now.Mode) + " from now on")(w)
	})
}

type policyUnset struct {
	remote
	api.DeleteModeInput
}

func (c *policyUnset) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.DeleteMode, c.DeleteModeInput, done(c.Key+" has no mode of its own any more"))
}

type policyShow struct{ remote }

func (*policyShow) route() api.Operation { return api.ListModes.Operation }

func (c *policyShow) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	modes, raw, err := Fetch(ctx, server, api.ListModes, api.None{})
	if err != nil {
		return err
	}
	if c.JSON {
		return std.PrintJSON(raw)
	}
	connectors, _, err := Fetch(ctx, server, api.ListConnectors, api.None{})
	if err != nil {
		return err
	}
	used, _, err := Fetch(ctx, server, api.ListIntegrations, api.None{})
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
func (c *policySettings) Run(ctx context.Context, std *command.Streams) error {
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

type policyExplain struct {
	remote
	api.Asked
	Action string `placeholder:"KEY" help:"source:action."`
	Key    string `arg:"" optional:"" hidden:""`
}

func (c *policyExplain) Run(ctx context.Context, std *command.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	c.Asked.Action = c.Action
	return perform(ctx, &c.remote, std, api.ExplainPolicy, c.Asked, showExplanation)
}

// check helps those who leave out a flag or its name.
func (c *policyExplain) check() error {
	switch {
	case c.Key != "" || c.Action == "" || c.Session == "":
		return command.UsageErrorf("say who would call what: %s", command.Printable(c.hint("policy", "explain",
			"--session", cmp.Or(c.Session, "ID"), "--action", cmp.Or(c.Action, c.Key, "SOURCE:ACTION"))))
	case c.Params != "" && !json.Valid([]byte(c.Params)):
		return command.UsageErrorf("--params is not JSON; write an object, such as '{\"channel\":\"C1\"}'")
	}
	return nil
}

func showExplanation(w io.Writer, e *api.Explanation) {
	text := fmt.Sprintf("%s, says the layer %s", e.Mode, e.Source)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Refused != "" {
		said("would be refused without asking: " + cmp.Or(e.Note, e.Refused))(w)
	}
	said(text)(w)
	source := func(key string) string { return key[:strings.LastIndexByte(key, ':')+1] }
	tableOf(w, "LAYER KEY MODE WHY", e.Steps, func(s *action.Step) []string {
		return []string{string(s.Layer), strings.Replace(s.Key, source(e.Key), source(e.Name), 1), string(s.Mode), s.Note}
	})
	for _, l := range e.Limits {
		said(fmt.Sprintf("it would count against %s in %s of %s", command.Plural(l.Calls, "call"), l.Span(), l.What))(w)
	}
	if len(e.Grants) > 0 {
		said("it would use up a call of grant " + strings.Join(e.Grants, ", or of "))(w)
	}
}

type quotaCommand struct {
	Set   quotaSet   `cmd:"" help:"Set a quota for source:action, source:* or *."`
	Unset quotaUnset `cmd:"" help:"Remove a quota."`
	List  quotaList  `cmd:"" help:"List quotas."`
}

type quotaSet struct {
	remote
	api.ByPolicyKey
	api.NewQuota
}

func (c *quotaSet) Run(ctx context.Context, std *command.Streams) error {
	in := api.ByPolicyKeyWith[api.NewQuota]{ByPolicyKey: c.ByPolicyKey, Body: c.NewQuota}
	return perform(ctx, &c.remote, std, api.PutQuota, in, func(w io.Writer, q *api.QuotaView) {
		std.Warn(q.Warning)
		said(fmt.Sprintf("%s: %s in %s for each %s from now on", q.Name, command.Plural(q.Calls, "call"), quotaSpan(q), q.Per))(w)
	})
}

func quotaSpan(q *api.QuotaView) string { return action.Rate{Seconds: q.Seconds}.Span() }

type quotaUnset struct {
	remote
	api.DeleteQuotaInput
}

func (c *quotaUnset) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.DeleteQuota, c.DeleteQuotaInput, done(c.Key+" is not limited for each "+string(c.Per)+" any more"))
}

type quotaList struct{ remote }

func (*quotaList) route() api.Operation { return api.ListQuotas.Operation }

func (c *quotaList) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.ListQuotas, api.None{}, func(w io.Writer, all *api.List[api.QuotaView]) {
		names := c.labels(ctx, actors()...)
		cells("KEY PER CALLS IN SET_BY", func(q *api.QuotaView) []string {
			return []string{q.Name, string(q.Per), strconv.Itoa(q.Calls), quotaSpan(q), names.of(q.UpdatedBy)}
		})(w, all)
	})
}
