package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type policyCommand struct {
	Set      request[api.ByPolicyKeyWith[api.NewMode], api.ModeView] `cmd:"" help:"Set the mode of source:action, source:* or *."`
	Unset    request[api.DeleteModeInput, api.None]                  `cmd:"" help:"Remove the mode of a key."`
	Show     policyShow                                              `cmd:"" help:"List modes."`
	Explain  policyExplain                                           `cmd:"" help:"Show how a call would be decided, without running it."`
	Settings policySettings                                          `cmd:"" help:"Show or change organization-wide approval settings."`
	Quota    quotaCommand                                            `cmd:"" help:"Manage quotas of actions."`
	Log      policyLog                                               `cmd:"" help:"List policy changes, newest first."`
}

type policyShow struct{ clientFlags }

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
	names := server.loadLabels(ctx, actorLists(api.ListAutomations.Operation)...)
	printTable(std.Out, "KEY MODE AUTOMATION SET_BY", modes.Items, func(m *api.ModeView) []string {
		return []string{modeKey(m, connectors.Items, used.Items), string(m.Mode), names.name(m.Automation), names.name(m.UpdatedBy)}
	})
	fmt.Fprintln(std.Out, "default: reads are allowed, writes need approval, dangerous actions are denied")
	return nil
}

// modeKey returns the key in the form of policy set. A name that an integration
// and a connector share is qualified.
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
	clientFlags
	api.SettingsChange
}

// Run applies the changes, if any, and shows the settings.
func (c *policySettings) Run(ctx context.Context, std *command.Streams) error {
	if c.SettingsChange == (api.SettingsChange{}) {
		return perform(ctx, &c.clientFlags, std, api.GetSettings, api.None{}, showSettings)
	}
	return perform(ctx, &c.clientFlags, std, api.UpdateSettings, api.Body[api.SettingsChange]{Body: c.SettingsChange}, showSettings)
}

func showSettings(w io.Writer, s *action.Settings) {
	if s.SelfApproval {
		fmt.Fprintln(w, "creators of sessions can approve their calls")
	} else {
		fmt.Fprintln(w, "creators of sessions cannot approve their calls")
	}
	if s.DenialLimit == 0 {
		fmt.Fprintln(w, "denials do not stop an action from being requested again")
	} else {
		fmt.Fprintf(w, "after %d denials by people, an action is denied for the rest of the session\n", s.DenialLimit)
	}
	if s.UnverifiedEvents {
		fmt.Fprintln(w, "unverified events from a broker start runs")
	} else {
		fmt.Fprintln(w, "unverified events from a broker start no runs")
	}
	if s.DefaultGroup == "" {
		fmt.Fprintln(w, "sessions created without a group have no group, so no capability limits them")
	} else {
		printLine(w, "sessions created without a group are in group "+s.DefaultGroup+", whose capabilities limit them")
	}
}

type policyExplain struct {
	clientFlags
	api.Asked
	Action string `placeholder:"KEY" help:"source:action."`
	Key    string `arg:"" optional:"" help:"source:action, instead of --action."`
}

func (c *policyExplain) Run(ctx context.Context, std *command.Streams) error {
	if err := c.validate(); err != nil {
		return err
	}
	c.Asked.Action = cmp.Or(c.Action, c.Key)
	return perform(ctx, &c.clientFlags, std, api.ExplainPolicy, c.Asked, showExplanation)
}

// validate checks for missing flags and invalid JSON.
func (c *policyExplain) validate() error {
	switch {
	case c.Key != "" && c.Action != "":
		return command.UsageErrorf("pass either KEY or --action: both name the action")
	case c.Action == "" && c.Key == "" || c.Session == "":
		return command.UsageErrorf("name the session and the action: %s", command.Printable(c.hint("policy", "explain",
			"--session", cmp.Or(c.Session, "ID"), "--action", cmp.Or(c.Action, c.Key, "SOURCE:ACTION"))))
	case c.Params != "" && !json.Valid([]byte(c.Params)):
		return command.UsageErrorf("--params is not valid JSON. Pass an object such as '{\"channel\":\"C1\"}'")
	}
	return nil
}

func showExplanation(w io.Writer, e *api.Explanation) {
	text := fmt.Sprintf("%s, decided by layer %s", e.Mode, e.Source)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Refused != "" {
		printLine(w, "the call would be refused at once: "+cmp.Or(e.Note, e.Refused))
	}
	printLine(w, text)
	source := func(key string) string { return key[:strings.LastIndexByte(key, ':')+1] }
	printTable(w, "LAYER KEY MODE WHY", e.Steps, func(s *action.Step) []string {
		return []string{string(s.Layer), strings.Replace(s.Key, source(e.Key), source(e.Name), 1), string(s.Mode), s.Note}
	})
	for _, l := range e.Limits {
		printLine(w, fmt.Sprintf("the call would count against the limit of %s in %s of %s", command.Plural(l.Calls, "call"), l.Span(), l.What))
	}
	if len(e.Grants) > 0 {
		printLine(w, "the call would use grant "+strings.Join(e.Grants, ", or of "))
	}
}

type quotaCommand struct {
	Set   request[api.ByPolicyKeyWith[api.NewQuota], api.QuotaView] `cmd:"" help:"Set a quota for source:action, source:* or *."`
	Unset request[api.DeleteQuotaInput, api.None]                   `cmd:"" help:"Remove a quota."`
	List  request[api.None, api.List[api.QuotaView]]                `cmd:"" help:"List quotas."`
}

func quotaSpan(q *api.QuotaView) string { return action.Rate{Seconds: q.Seconds}.Span() }

type policyLog struct {
	clientFlags
	api.ListPolicyEventsInput
}

// Run prints one change per line; --json prints all fields.
func (c *policyLog) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	events, raw, err := Fetch(ctx, server, api.ListPolicyEvents, c.ListPolicyEventsInput)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.PrintJSON(raw)
	}
	sources, _, err := Fetch(ctx, server, api.ListConnectors, api.None{})
	if err != nil {
		return err
	}
	people := server.loadLabels(ctx, api.ListUsers.Operation)
	automations := server.loadLabels(ctx, api.ListAutomations.Operation)
	table("WHEN BY KIND SUBJECT CHANGE", func(e *action.PolicyEvent) []string {
		return []string{relativeTime(&e.At), cmp.Or(people[e.By], e.By), e.Kind, eventSubject(e, sources.Items, automations), eventChange(e, sources.Items)}
	})(std.Out, events)
	return nil
}

// eventChange describes the change of an event, in a special form for grants
// and reviews.
func eventChange(e *action.PolicyEvent, sources []api.ConnectorView) string {
	switch e.Kind {
	case action.EventGrant:
		return grantChange(e, sources)
	case action.EventReview:
		return reviewState(e.Before) + " → " + reviewState(e.After)
	}
	return diff(e.Before, e.After)
}

// grantChange describes a grant event, always with the terms of the grant.
func grantChange(e *action.PolicyEvent, sources []api.ConnectorView) string {
	var g api.GrantView
	was, is := objectMembers(e.Before), objectMembers(e.After)
	if json.Unmarshal(e.Before, &g) != nil || json.Unmarshal(e.After, &g) != nil {
		return diff(e.Before, e.After)
	}
	i := slices.IndexFunc(sources, func(s api.ConnectorView) bool { return "connector:"+s.ID == g.Terms.Source })
	if i >= 0 {
		g.Name = cmp.Or(sources[i].Slug, sources[i].Name)
	}
	text := fmt.Sprintf("%s for %s: %s", termsText(&g.Terms, g.Name), grantScope(&g), limitsText(&g.Terms))
	switch {
	case was == nil:
		return "nothing → " + text
	case is == nil:
		return text + " → nothing"
	}
	return text + "; " + diff(e.Before, e.After)
}

// reviewState describes the review state of one tool or several.
func reviewState(raw json.RawMessage) string {
	var one action.ToolReview
	if json.Unmarshal(raw, &one) == nil && one.State != "" {
		return string(one.State)
	}
	all := objectMembers(raw)
	if len(all) == 0 {
		return shortValue(raw)
	}
	return "reviewed: " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// eventSubject names the subject of an event as of that time.
func eventSubject(e *action.PolicyEvent, sources []api.ConnectorView, automations labels) string {
	var object struct {
		Name       string `json:"name"`
		Automation string `json:"automation_id"`
	}
	for _, raw := range []json.RawMessage{e.Before, e.After} {
		_ = json.Unmarshal(raw, &object) // not an object in every kind of event
	}
	switch e.Kind {
	case action.EventAutomation, action.EventTrigger, action.EventSchedule:
		return sourceName(object.Name, e.Subject)
	case action.EventRun:
		return sourceName("of "+automations.name(object.Automation), e.Subject)
	}
	return nameSource(e.Subject, sources)
}

// nameSource replaces a connector ID by its name, followed by the ID.
func nameSource(text string, sources []api.ConnectorView) string {
	for _, s := range sources {
		if id := "connector:" + s.ID; strings.Contains(text, id) {
			return strings.Replace(text, id, cmp.Or(s.Slug, s.Name), 1) + " (" + id + ")"
		}
	}
	return text
}

// diff describes the change between two values in a line; for objects, only the
// members that differ.
func diff(before, after json.RawMessage) string {
	was, now := objectMembers(before), objectMembers(after)
	if was == nil || now == nil {
		return shortValue(before) + " → " + shortValue(after)
	}
	names := maps.Clone(was)
	maps.Copy(names, now)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(was[name], now[name]) {
			parts = append(parts, name+": "+shortValue(was[name])+" → "+shortValue(now[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// objectMembers returns the members of an object without those that the event
// repeats, or nil if raw is not an object.
func objectMembers(raw json.RawMessage) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool {
		return slices.Contains([]string{"organization_id", "created_at", "updated_at", "updated_by"}, name)
	})
	return all
}

// shortValue formats a value in a few words.
func shortValue(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return "nothing"
	}
	text := string(raw)
	if all := objectMembers(raw); all != nil {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			parts = append(parts, name+" "+string(all[name]))
		}
		text = strings.Join(parts, ", ")
	}
	if short := []rune(text); len(short) > valueLimit {
		return string(short[:valueLimit]) + "…"
	}
	return text
}

// valueLimit is the maximum length of a value in a list.
const valueLimit = 300

func showQuota(w io.Writer, q *api.QuotaView) {
	printLine(w, fmt.Sprintf("quota of %s: %s in %s per %s", q.Name, command.Plural(q.Calls, "call"), quotaSpan(q), q.Per))
}

func quotaRow(names labels, q *api.QuotaView) []string {
	return []string{q.Name, string(q.Per), strconv.Itoa(q.Calls), quotaSpan(q), names.name(q.UpdatedBy)}
}
