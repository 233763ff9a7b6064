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
		provider, _ := p.EventProvider(v.Provider, "") // an old one is named by its id
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
	if p.err == nil {
		p.triggerSetup(&d)
		p.triggerRecent(&d)
	}
	return p.show("trigger", "triggers", v.Name, d)
}

// triggerSetup adds what a trigger is made of.
func (p *pageRequest) triggerSetup(d *triggerData) {
	provider, err := p.EventProvider(d.TriggerView.Provider, "")
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
	d.Secrets = view.SigningSecrets(load2(p, p.Inbound.SigningSecrets, p.org, d.ID))
}

// connected returns the integrations of a service that a trigger can use.
func (p *pageRequest) connected(provider string) []api.IntegrationView {
	return slices.DeleteFunc(load(p, p.Integrations, p.me), func(in api.IntegrationView) bool { return in.Provider != provider || in.Owner() != "" })
}

// triggerRecent adds what came of it lately.
func (p *pageRequest) triggerRecent(d *triggerData) {
	d.Events = load2(p, p.ListEvents, p.me, &api.EventQuery{Trigger: d.ID, Paging: api.Paging{Limit: 20}}).Items
	switch {
	case d.Kind == event.Polling:
		groups := load(p, p.PollGroups, p.org)
		if i := slices.IndexFunc(groups, func(g api.PollGroupView) bool { return g.Integration != "" && g.Integration == d.Integration }); i >= 0 {
			d.Group = &groups[i]
		}
	case d.Decides:
		d.Deliveries = load(p, p.Inbound.ListReceipts, event.ReceiptFilter{Organization: p.org, Trigger: d.ID, Limit: 10}).Items
	}
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
	_ = json.Unmarshal(config, &c) // it was checked when it was written
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
