package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

// automationRow is an automation in the list.
type automationRow struct {
	event.Automation
	Triggers, Schedules int
	Last                *event.Run // nil if it never ran
}

// automationData is the data of an automation's page.
type automationData struct {
	Automation event.Automation
	Triggers   []api.TriggerView
	Schedules  []api.ScheduleView
	Runs       []event.Run // newest first
	Bound      []bindableIntegration
	Modes      []api.ModeView
	Names      map[string]string
	Decides    bool

	Groups       []string // to choose from
	DefaultGroup string
}

// bindableIntegration is an integration that an automation can be bound to.
type bindableIntegration struct {
	api.IntegrationView
	On bool
}

func (p *pageRequest) automationsPage() error {
	list, last := p.loadAutomations(), load(p, p.Inbound.LastRuns, p.org)
	rows := make([]automationRow, len(list))
	at := map[string]*automationRow{}
	for i, a := range list {
		rows[i].Automation, at[a.ID] = a, &rows[i]
		if run, ok := last[a.ID]; ok {
			rows[i].Last = &run
		}
	}
	for _, t := range load2(p, p.Inbound.ListTriggers, p.org, "") {
		if a := at[t.Automation]; a != nil {
			a.Triggers++
		}
	}
	for _, s := range load2(p, p.Inbound.ListSchedules, p.org, "") {
		if a := at[s.Automation]; a != nil {
			a.Schedules++
		}
	}
	return p.show("automations", "automations", "Automations", struct {
		Rows    []automationRow
		Decides bool
	}{rows, p.decides()})
}

func (p *pageRequest) automationPage() error {
	a, err := p.Automation(p.ctx(), p.me, p.r.PathValue("id"), "")
	if err != nil {
		return err
	}
	ids := load2(p, p.Sources.Bindings, p.org, a.ID)
	var bound []bindableIntegration
	for _, in := range load(p, p.Integrations, p.me) {
		on := slices.Contains(ids, in.ID) || slices.Equal(ids, []string{action.AllConnections})
		if in.User == "" || on {
			bound = append(bound, bindableIntegration{in, on})
		}
	}
	var groups []string
	for _, c := range load2(p, p.Policy.ListCapabilities, p.org, "") { // ordered by group
		groups = append(groups, c.Group)
	}
	return p.show("automation", "automations", a.Name, automationData{
		Groups:       slices.Compact(groups),
		DefaultGroup: load(p, p.Policy.Settings, p.org).DefaultGroup,

		Automation: a,
		Triggers:   load2(p, p.Triggers, p.me, a.ID),
		Schedules:  load2(p, p.Schedules, p.me, a.ID),
		Runs:       load(p, p.Inbound.ListRuns, event.RunFilter{Organization: p.org, Automation: a.ID, Limit: 10}).Items,
		Bound:      bound,
		Modes:      slices.DeleteFunc(load(p, p.Modes, p.org), func(m api.ModeView) bool { return m.Automation != a.ID }),
		Names:      p.loadNames(),
		Decides:    p.decides(),
	})
}

// scheduleRow is a schedule with its last run.
type scheduleRow struct {
	api.ScheduleView
	Idle bool // the automation is disabled
	Runs []event.Run
}

func (p *pageRequest) schedulesPage() error {
	f := p.readFilters("automation", "edit")
	views, idle := load2(p, p.Schedules, p.me, f.Get("automation")), p.idle()
	rows := make([]scheduleRow, len(views))
	for i, v := range views {
		rows[i] = scheduleRow{v, idle[v.Automation], load(p, p.Inbound.ListRuns, event.RunFilter{Organization: p.org, Trigger: v.ID, Limit: 5}).Items}
	}
	var edited event.Schedule // zero: a new one is created
	if id := f.Get("edit"); id != "" {
		edited = load2(p, p.Inbound.Schedule, p.org, id)
	}
	return p.show("schedules", "schedules", "Schedules", struct {
		Filters     filters
		Rows        []scheduleRow
		Automations []event.Automation
		Edited      event.Schedule
		Decides     bool
	}{f, rows, p.loadAutomations(), edited, p.decides()})
}

// triggerRow is a trigger in the list.
type triggerRow struct {
	api.TriggerView
	Off      *action.PolicyEvent // event that disabled it; nil if it is enabled or was created disabled
	Idle     bool                // the automation is disabled
	TypeName string
}

// triggerData is the data of a trigger's page.
type triggerData struct {
	triggerRow
	Provider   *api.EventProvider // nil if the gateway no longer has it
	Type       *api.EventType
	Form       []control
	Connects   []api.IntegrationView // integrations of the service
	Sample     string                // example of a custom sender
	Secrets    []api.SigningSecret
	Events     []api.InboundEvent // newest first
	Deliveries []event.Receipt
	Group      *api.PollGroupView
	Names      map[string]string
	Decides    bool
}

func (p *pageRequest) triggersPage() error {
	f := p.readFilters("automation")
	return p.show("triggers", "triggers", "Triggers", struct {
		Filters filters
		Rows    []triggerRow
		Groups  []api.PollGroupView
		Names   map[string]string
		Decides bool
	}{
		f, p.triggerRows(load2(p, p.Triggers, p.me, f.Get("automation"))), load(p, p.PollGroups, p.org), p.loadNames(), p.decides(),
	})
}

// idle returns the disabled automations.
func (p *pageRequest) idle() map[string]bool {
	idle := map[string]bool{}
	for _, a := range p.loadAutomations() {
		idle[a.ID] = !a.Enabled
	}
	return idle
}

func (p *pageRequest) triggerRows(views []api.TriggerView) []triggerRow {
	idle, signed := p.idle(), load(p, p.Inbound.SecretOwners, p.org)
	rows := make([]triggerRow, len(views))
	for i, v := range views {
		row := triggerRow{TriggerView: v, Idle: idle[v.Automation], TypeName: v.Type}
		provider, _ := p.EventProvider(v.Provider, "") // the ID of a removed one is shown
		if provider != nil {
			row.TypeName = eventTypeTitle(provider, v.Type)
		}
		row.SecretNeeded = provider != nil && provider.Gives && v.Kind == event.Webhooks && !signed[v.ID]
		if !v.Enabled {
			row.Off = p.disabledBy(v.ID)
		}
		rows[i] = row
	}
	return rows
}

// disabledBy finds the recent event that disabled a trigger.
func (p *pageRequest) disabledBy(trigger string) *action.PolicyEvent {
	for _, e := range load(p, p.Policy.PolicyEvents, action.PolicyEventFilter{Organization: p.org, Kind: action.EventTrigger, Subject: trigger, Limit: 50}).Items {
		var before, after struct {
			Enabled *bool `json:"enabled"`
		}
		if json.Unmarshal(e.Before, &before) != nil || json.Unmarshal(e.After, &after) != nil || after.Enabled == nil || *after.Enabled {
			continue
		}
		if before.Enabled != nil && *before.Enabled {
			return &e
		}
	}
	return nil
}

// eventTypeTitle returns the title of an event type.
func eventTypeTitle(p *api.EventProvider, id string) string {
	if t := eventProviderTypeOf(p, id); t != nil {
		return t.Title
	}
	return id
}

func eventProviderTypeOf(p *api.EventProvider, id string) *api.EventType {
	if i := slices.IndexFunc(p.Types, func(t api.EventType) bool { return t.ID == id }); i >= 0 {
		return &p.Types[i]
	}
	return nil
}

func (p *pageRequest) triggerPage() error {
	t, err := p.Inbound.Trigger(p.ctx(), p.org, p.r.PathValue("id"))
	if err != nil {
		return err
	}
	v := load2(p, p.ViewTrigger, p.me, t)
	d := triggerData{triggerRow: p.triggerRows([]api.TriggerView{v})[0], Names: p.loadNames(), Decides: p.decides()}
	if p.err != nil {
		return p.err
	}
	if provider, err := p.EventProvider(v.Provider, ""); err == nil { // otherwise its ID is shown
		d.Provider = provider
		if d.Type = eventProviderTypeOf(provider, v.Type); d.Type != nil {
			d.Form = configForm(d.Type.Config, d.Config)
		}
	}
	d.Connects = p.connected(v.Provider)
	d.Events = load2(p, p.ListEvents, p.me, &api.EventQuery{Trigger: d.ID, Paging: api.Paging{Limit: 20}}).Items
	if d.Kind == event.Webhooks {
		if v.Provider == "custom" {
			d.Sample = customSample(d.URL, d.Config)
		}
		d.Secrets = view.SigningSecrets(load2(p, p.Inbound.SigningSecrets, p.org, d.ID))
	}
	switch {
	case d.Kind == event.Polling:
		groups := load(p, p.PollGroups, p.org)
		if i := slices.IndexFunc(groups, func(g api.PollGroupView) bool { return g.Integration != "" && g.Integration == d.Integration }); i >= 0 {
			d.Group = &groups[i]
		}
	case d.Decides:
		d.Deliveries = load(p, p.Inbound.ListReceipts, event.ReceiptFilter{Organization: p.org, Trigger: d.ID, Limit: 10}).Items
	}
	return p.show("trigger", "triggers", v.Name, d)
}

// connected returns the integrations of a service that a trigger can use.
func (p *pageRequest) connected(provider string) []api.IntegrationView {
	return slices.DeleteFunc(load(p, p.Integrations, p.me), func(in api.IntegrationView) bool { return in.Provider != provider || in.Owner() != "" })
}

// newTriggerPage guides through provider, type and settings. Each step is in
// the URL.
func (p *pageRequest) newTriggerPage() error {
	f := p.readFilters("provider", "type", "automation")
	d := struct {
		Filters     filters
		Providers   []api.EventProvider
		Provider    *api.EventProvider
		Type        *api.EventType
		Form        []control
		Connects    []api.IntegrationView
		Automations []event.Automation
	}{Filters: f, Providers: p.EventProviders, Automations: p.loadAutomations()}
	if id := f.Get("provider"); id != "" {
		provider, err := p.EventProvider(id, "")
		if err != nil {
			return err
		}
		d.Provider, d.Connects = provider, p.connected(provider.ID)
		if d.Type = eventProviderTypeOf(provider, f.Get("type")); len(provider.Types) == 1 {
			d.Type = &provider.Types[0]
		}
	}
	if d.Type != nil {
		d.Form = configForm(d.Type.Config, json.RawMessage("{}"))
	}
	return p.show("trigger_new", "triggers", "New trigger", d)
}

// customSample returns a shell script that posts an event. It does not contain
// the secret.
func customSample(url string, config json.RawMessage) string {
	var c struct {
		Verification struct {
			Scheme string `json:"scheme"`
			Header string `json:"header"`
			Time   string `json:"timestamp_header"`
		} `json:"verification"`
		IDHeader string `json:"id_header"`
	}
	_ = json.Unmarshal(config, &c) // validated when it was stored
	v := c.Verification
	lines, headers := []string{`body='{"event":"test","title":"Test event"}'`}, []string{"Content-Type: application/json"}
	if c.IDHeader != "" && cmp.Or(v.Scheme, "standard") != "standard" {
		headers = append(headers, c.IDHeader+": test-$(date +%s)")
	}
	switch cmp.Or(v.Scheme, "standard") {
	case "standard":
		lines = append(lines, `id="msg_$(date +%s)"; time="$(date +%s)"`,
			`key="$(printf %s "${WEBHOOK_SECRET#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')"`,
			`signature="$(printf %s "$id.$time.$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)"`)
		headers = append(headers, "webhook-id: $id", "webhook-timestamp: $time", "webhook-signature: v1,$signature")
	case "hmac":
		signed := "$body"
		if v.Time != "" {
			lines, signed = append(lines, `time="$(date +%s)"`), "$time.$body"
			headers = append(headers, v.Time+": $time")
		}
		lines = append(lines, fmt.Sprintf(`signature="$(printf %%s "%s" | openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" | sed 's/^.*= *//')"`, signed))
		headers = append(headers, cmp.Or(v.Header, "X-Webhook-Signature")+": sha256=$signature")
	case "header":
		bearer := ""
		if strings.EqualFold(v.Header, "Authorization") {
			bearer = "Bearer "
		}
		headers = append(headers, cmp.Or(v.Header, "X-Webhook-Token")+": "+bearer+"$WEBHOOK_SECRET")
	}
	post := "curl -i " + url
	for _, h := range headers {
		post += " \\\n  -H \"" + h + "\""
	}
	return strings.Join(append(lines, post+" \\\n  --data-binary \"$body\""), "\n")
}
