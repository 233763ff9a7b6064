package dashboard

import (
	"encoding/json"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// triggerRow is a trigger as the list of them shows it.
type triggerRow struct {
	api.TriggerView
	Off      *action.PolicyEvent // how it was disabled; nil: it is not, or from the beginning
	Idle     bool                // its automation is disabled
	TypeName string
}

// triggerData is all that the page of a trigger shows.
type triggerData struct {
	triggerRow
	Provider   *api.EventProvider // nil: this gateway has it no more
	Type       *api.EventType
	Form       []control
	Connects   []api.IntegrationView // of the service
	Sample     string                // how a sender of one's own posts
	Secrets    []api.SigningSecret
	Events     []api.InboundEvent // the newest
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
		f, p.triggerRows(load2(p, p.triggers, p.me, f.Get("automation"))), load(p, p.pollGroups, p.org), p.loadNames(), p.decides(),
	})
}

// idle are the automations that are disabled.
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
		provider, _ := p.eventProvider(v.Provider, "") // an old one is named by its id
		if provider != nil {
			row.TypeName = eventProviderTypeTitle(provider, v.Type)
		}
		row.SecretNeeded = provider != nil && provider.Gives && v.Kind == event.Webhooks && !signed[v.ID]
		if !v.Enabled {
			row.Off = p.disabled(v.ID)
		}
		rows[i] = row
	}
	return rows
}

// disabled finds who disabled a trigger, among the newest changes of it.
func (p *pageRequest) disabled(trigger string) *action.PolicyEvent {
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

// eventProviderTypeTitle is what people call a type of event.
func eventProviderTypeTitle(p *api.EventProvider, id string) string {
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
	v := load2(p, p.viewTrigger, p.me, t)
	d := triggerData{triggerRow: p.triggerRows([]api.TriggerView{v})[0], Names: p.loadNames(), Decides: p.decides()}
	if p.err == nil {
		p.triggerSetup(&d)
		p.triggerRecent(&d)
	}
	return p.show("trigger", "triggers", v.Name, d)
}

// triggerSetup adds what a trigger is made of.
func (p *pageRequest) triggerSetup(d *triggerData) {
	provider, err := p.eventProvider(d.TriggerView.Provider, "")
	if err == nil { // else it is named by its id
		d.Provider = provider
		if d.Type = eventProviderTypeOf(provider, d.TriggerView.Type); d.Type != nil {
			d.Form = configForm(d.Type.Config, d.Config)
		}
	}
	d.Connects = p.connected(d.TriggerView.Provider)
	if d.Kind != event.Webhooks {
		return
	}
	if d.TriggerView.Provider == "custom" {
		d.Sample = customSample(d.URL, d.Config)
	}
	d.Secrets = signingSecrets(load2(p, p.Inbound.SigningSecrets, p.org, d.ID))
}

// connected are the integrations of a service that a trigger can name.
func (p *pageRequest) connected(provider string) []api.IntegrationView {
	return slices.DeleteFunc(load(p, p.integrations, p.me), func(in api.IntegrationView) bool { return in.Provider != provider || in.Owner() != "" })
}

// triggerRecent adds what came of it lately.
func (p *pageRequest) triggerRecent(d *triggerData) {
	d.Events = load2(p, p.listEvents, p.me, &api.EventQuery{Trigger: d.ID, Paging: api.Paging{Limit: 20}}).Items
	switch {
	case d.Kind == event.Polling:
		groups := load(p, p.pollGroups, p.org)
		if i := slices.IndexFunc(groups, func(g api.PollGroupView) bool { return g.Integration != "" && g.Integration == d.Integration }); i >= 0 {
			d.Group = &groups[i]
		}
	case d.Decides:
		d.Deliveries = load(p, p.Inbound.ListReceipts, event.ReceiptFilter{Organization: p.org, Trigger: d.ID, Limit: 10}).Items
	}
}
