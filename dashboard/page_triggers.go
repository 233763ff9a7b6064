package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
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

func (p *pages) triggersPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	f := readFilters(r, "automation")
	views, err := p.triggers(ctx, me, f.Get("automation"))
	if err != nil {
		return err
	}
	idle, err := p.idle(ctx, me.Organization)
	if err != nil {
		return err
	}
	signed, err := p.Inbound.SecretOwners(ctx, me.Organization)
	if err != nil {
		return err
	}
	rows := make([]triggerRow, len(views))
	for i, v := range views {
		if rows[i], err = p.triggerRow(ctx, me, v, idle, signed); err != nil {
			return err
		}
	}
	groups, err := p.pollGroups(ctx, me.Organization)
	if err != nil {
		return err
	}
	names, err := p.names(ctx, me.Organization)
	if err != nil {
		return err
	}
	return p.render(w, "triggers", "layout", view{Page: "triggers", Title: "Triggers", Me: me, Data: struct {
		Filters filters
		Rows    []triggerRow
		Groups  []api.PollGroupView
		Names   map[string]string
		Decides bool
	}{f, rows, groups, names, me.Role.Decides()}})
}

// idle are the automations that are disabled.
func (p *pages) idle(ctx context.Context, organization string) (map[string]bool, error) {
	all, err := p.Inbound.ListAutomations(ctx, organization)
	idle := map[string]bool{}
	for _, a := range all {
		idle[a.ID] = !a.Enabled
	}
	return idle, err
}

func (p *pages) triggerRow(ctx context.Context, me *Principal, v api.TriggerView, idle, signed map[string]bool) (triggerRow, error) {
	row := triggerRow{TriggerView: v, Idle: idle[v.Automation], TypeName: v.Type}
	provider, _ := p.eventProvider(v.Provider, "") // an old one is named by its id
	if provider != nil {
		row.TypeName = eventProviderTypeTitle(provider, v.Type)
	}
	row.SecretNeeded = provider != nil && provider.Gives && v.Kind == event.Webhooks && !signed[v.ID]
	if v.Enabled {
		return row, nil
	}
	var err error
	row.Off, err = p.disabled(ctx, me.Organization, v.ID)
	return row, err
}

// disabled finds who disabled a trigger, among the newest changes of it.
func (p *pages) disabled(ctx context.Context, organization, id string) (*action.PolicyEvent, error) {
	page, err := p.Policy.PolicyEvents(ctx, action.PolicyEventFilter{Organization: organization, Kind: action.EventTrigger, Subject: id, Limit: 50})
	for _, e := range page.Items {
		var before, after struct {
			Enabled *bool `json:"enabled"`
		}
		if json.Unmarshal(e.Before, &before) != nil || json.Unmarshal(e.After, &after) != nil || after.Enabled == nil || *after.Enabled {
			continue
		}
		if before.Enabled != nil && *before.Enabled {
			return &e, err
		}
	}
	return nil, err
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

func (p *pages) triggerPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	t, err := p.Inbound.Trigger(ctx, me.Organization, r.PathValue("id"))
	if err != nil {
		return err
	}
	d := triggerData{Decides: me.Role.Decides()}
	v, err := p.viewTrigger(ctx, me, t)
	if err != nil {
		return err
	}
	idle, err := p.idle(ctx, me.Organization)
	if err != nil {
		return err
	}
	signed, err := p.Inbound.SecretOwners(ctx, me.Organization)
	if err != nil {
		return err
	}
	if d.triggerRow, err = p.triggerRow(ctx, me, v, idle, signed); err != nil {
		return err
	}
	if err := p.triggerSetup(ctx, me, &d); err != nil {
		return err
	}
	if err := p.triggerRecent(ctx, me, &d); err != nil {
		return err
	}
	if d.Names, err = p.names(ctx, me.Organization); err != nil {
		return err
	}
	return p.render(w, "trigger", "layout", view{Page: "triggers", Title: v.Name, Me: me, Data: d})
}

// triggerSetup adds what a trigger is made of.
func (p *pages) triggerSetup(ctx context.Context, me *Principal, d *triggerData) (err error) {
	if d.Provider, err = p.eventProvider(d.TriggerView.Provider, ""); err != nil {
		d.Provider = nil // it is named by its id
	} else if d.Type = eventProviderTypeOf(d.Provider, d.TriggerView.Type); d.Type != nil {
		d.Form = configForm(d.Type.Config, d.Config)
	}
	if d.Connects, err = p.connected(ctx, me, d.TriggerView.Provider); err != nil {
		return err
	}
	if d.Kind != event.Webhooks {
		return nil
	}
	if d.TriggerView.Provider == "custom" {
		d.Sample = customSample(d.URL, d.Config)
	}
	secrets, err := p.Inbound.SigningSecrets(ctx, me.Organization, d.ID)
	d.Secrets = signingSecrets(secrets)
	return err
}

// connected are the integrations of a service that a trigger can name.
func (p *pages) connected(ctx context.Context, me *Principal, provider string) ([]api.IntegrationView, error) {
	all, err := p.integrations(ctx, me)
	return slices.DeleteFunc(all, func(in api.IntegrationView) bool { return in.Provider != provider || in.Owner() != "" }), err
}

// triggerRecent adds what came of it lately.
func (p *pages) triggerRecent(ctx context.Context, me *Principal, d *triggerData) error {
	events, err := p.listEvents(ctx, me, &api.EventQuery{Trigger: d.ID, Paging: api.Paging{Limit: 20}})
	if err != nil {
		return err
	}
	d.Events = events.Items
	if d.Kind == event.Polling {
		groups, err := p.pollGroups(ctx, me.Organization)
		if i := slices.IndexFunc(groups, func(g api.PollGroupView) bool { return g.Integration != "" && g.Integration == d.Integration }); i >= 0 {
			d.Group = &groups[i]
		}
		return err
	}
	if !d.Decides {
		return nil
	}
	page, err := p.Inbound.ListReceipts(ctx, event.ReceiptFilter{Organization: me.Organization, Trigger: d.ID, Limit: 10})
	d.Deliveries = page.Items
	return err
}
