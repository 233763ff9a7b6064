package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

// providerData is the data of a service's page.
type providerData struct {
	Provider     api.Provider
	Integrations []integrationRow
	Ways         []connectMethod
	Settings     []setting
	App          *action.ProviderApp // the gateway's registration at the service; nil if there is none
	AppFor       []action.IntegrationKind
	Nango        *action.ProviderApp // the registration at the broker; nil if there is none
	Redirect     string              // redirect URL for the service
	Names        map[string]string
	Decides      bool
}

// integrationRow is an integration in the list.
type integrationRow struct {
	api.IntegrationView
	Manages bool // the user may change it
	Keyed   bool // a form can replace its credential
	Sharing []choice
	Binds   []event.Automation // automations that are bound to it
}

// connectMethod is a method to connect the service.
type connectMethod struct {
	api.ProviderNeed
	Browser bool // it continues at the service
	OwnOnly bool // the user can connect only in their own name
	Ready   bool // the gateway is registered, if that is required
	Nango   bool // a broker supports it
}

// setting is a property of a service's settings schema.
type setting struct{ Name, Type, Text string }

func (p *pageRequest) integrationsPage() error {
	return p.show("integrations", "integrations", "Integrations", struct {
		Integrations []api.IntegrationView
		Providers    []api.Provider
		Names        map[string]string
	}{load(p, p.Integrations, p.me), p.Providers, p.loadNames()})
}

func (p *pageRequest) providerPage() error {
	provider := p.Provider(p.r.PathValue("provider"))
	if provider == nil {
		return action.Errorf(action.ErrNotFound, "no_such_provider", "This service is not supported. Choose one from the list of integrations.")
	}
	d := providerData{
		Provider: *provider, Names: p.loadNames(), Decides: p.decides(), Redirect: p.PublicURL + "/oauth/callback/" + provider.ID, Settings: settingsOf(provider.Settings),
	}
	for _, v := range load(p, p.Integrations, p.me) {
		if v.Provider == provider.ID {
			d.Integrations = append(d.Integrations, integrationRow{
				IntegrationView: v, Manages: view.Manages(p.me, &v.Integration) == nil,
				Keyed:   v.Kind == action.KindAPIKey || v.Kind == action.KindBotToken,
				Sharing: choose(string(v.Visibility), "organization", "Everyone in the organization", "private", "Private (only the creator)"),
			})
		}
	}
	if len(d.Integrations) > 0 {
		for _, a := range p.loadAutomations() {
			ids := load2(p, p.Sources.Bindings, p.org, a.ID)
			for i := range d.Integrations {
				if slices.Contains(ids, d.Integrations[i].ID) {
					d.Integrations[i].Binds = append(d.Integrations[i].Binds, a)
				}
			}
		}
	}
	d.addWays(load(p, p.Sources.ListProviderApps, p.org))
	return p.show("provider", "integrations", provider.Title, d)
}

// addWays adds the methods with which the user can connect the service. Those that
// are ready come first.
func (d *providerData) addWays(apps []action.ProviderApp) {
	app := func(id string) *action.ProviderApp {
		if i := slices.IndexFunc(apps, func(a action.ProviderApp) bool { return a.Provider == id }); i >= 0 {
			return &apps[i]
		}
		return nil
	}
	d.App, d.Nango = app(d.Provider.ID), app(string(action.BrokerNango))
	for _, n := range d.Provider.Needs {
		browser := n.Kind == action.KindOAuth2 || n.Kind == action.KindApp
		if browser {
			d.AppFor = append(d.AppFor, n.Kind)
		}
		if !d.Decides && !n.Users {
			continue
		}
		nango := n.Kind == action.KindOAuth2 && d.Nango != nil
		d.Ways = append(d.Ways, connectMethod{n, browser, !d.Decides, !browser || d.App != nil || nango, nango})
	}
	slices.SortStableFunc(d.Ways, func(a, b connectMethod) int {
		switch {
		case a.Ready == b.Ready:
			return 0
		case a.Ready:
			return -1
		}
		return 1
	})
}

// registration is a form for the gateway's registration.
type registration struct {
	ID               string
	App              *action.ProviderApp // nil if it is not configured
	Set              action.ProviderApp
	OAuth, Installed bool // the fields that it shows
}

func registered(id string, app *action.ProviderApp, kinds []action.IntegrationKind) registration {
	r := registration{ID: id, App: app, Installed: slices.Contains(kinds, action.KindApp), OAuth: slices.Contains(kinds, action.KindOAuth2)}
	if app != nil {
		r.Set = *app
	}
	return r
}

// settingsOf reads the properties of a schema.
func settingsOf(schema json.RawMessage) (list []setting) {
	var s struct {
		Properties map[string]struct {
			Type        any    `json:"type"`
			Description string `json:"description"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		list = append(list, setting{name, fmt.Sprint(s.Properties[name].Type), s.Properties[name].Description})
	}
	return list
}

// kindText returns the name of a kind.
func kindText(k action.IntegrationKind) string {
	return map[action.IntegrationKind]string{
		action.KindAPIKey: "with a key", action.KindBotToken: "with a bot token", action.KindOAuth2: "with OAuth",
		action.KindApp: "with an app installation", action.KindNone: "without a credential",
	}[k]
}

// visibilityText explains who may see and use an integration.
func visibilityText(in action.Integration, names map[string]string) string {
	owner := in.Owner()
	switch {
	case in.User != "":
		return render.Plain(cmp.Or(names[owner], shortID(owner))) + " (personal)"
	case owner != "":
		return render.Plain(cmp.Or(names[owner], shortID(owner))) + " (private)"
	}
	return "everyone"
}

// accounts returns the accounts whose credential a module's action uses, or
// could use if none is chosen yet. Private integrations of others are mentioned
// without their name. The parameter all contains what the user may see.
func (p *pages) accounts(all []action.Integration, s *action.Session, inv *action.Invocation) (list []string) {
	if p.Provider(inv.Source) == nil {
		return nil
	}
	if inv.Integration != "" {
		i := slices.IndexFunc(all, func(in action.Integration) bool { return in.ID == inv.Integration })
		switch {
		case i < 0:
			return []string{"integration " + shortID(inv.Integration) + " (disconnected or not visible to you)"}
		case all[i].User != "":
			return []string{accountText(&all[i]) + " (personal account of the session creator)"}
		}
		return []string{accountText(&all[i])}
	}
	for _, in := range s.Bound(all, inv.Source) {
		list = append(list, accountText(&in))
	}
	if len(view.KeepListed(s.Connections, all)) < len(s.Connections) {
		list = append(list, "possibly one that is not visible to you")
	}
	if own, ok := s.OwnConnection(all, inv.Source); ok {
		list = append(list, accountText(&own)+" (personal account of the session creator, if the tool requires it)")
	}
	return list
}

// accountText formats an account with the service's name for it first, because
// users here cannot choose that name.
func accountText(in *action.Integration) string {
	text := cmp.Or(in.AccountName, in.Account)
	if in.Name != "" && !strings.EqualFold(in.Name, text) {
		text += " (" + in.Name + ")"
	}
	if in.BaseURL != "" {
		text += " at " + view.HostOf(in.BaseURL)
	}
	return text
}

// secretUse is a secret with the connectors that send it.
type secretUse struct {
	action.Secret
	Users []action.Connector
}

func (p *pageRequest) secretsPage() error {
	secrets, connectors := load(p, p.Sources.ListSecrets, p.org), p.loadConnectors()
	uses := make([]secretUse, len(secrets))
	for i, s := range secrets {
		uses[i].Secret = s
		for _, c := range connectors {
			if c.Secret == s.Key || c.OAuth != nil && c.OAuth.ClientSecret == s.Key {
				uses[i].Users = append(uses[i].Users, c)
			}
		}
	}
	return p.show("secrets", "secrets", "Secrets", struct {
		Secrets []secretUse
		Names   map[string]string
		Decides bool
	}{uses, p.loadNames(), p.decides()})
}
