package dashboard

import (
	"net/http"
	"net/url"
	"slices"

	"sallyport/action"
)

func (p *pages) activity(w http.ResponseWriter, r *http.Request, me *Principal) error {
	q := r.URL.Query()
	status := action.Status(q.Get("status"))
	if status != "" && !status.Valid() {
		return invalid("/status", "There is no such status.")
	}
	page, err := p.Invocations.ListInvocations(r.Context(), InvocationFilter{
		Organization: me.Organization, Status: status, Session: q.Get("session"), Query: Query{Limit: 50, Cursor: q.Get("cursor")},
	})
	if err != nil {
		return err
	}
	names, err := p.names(r.Context(), me.Organization)
	if err != nil {
		return err
	}
	return p.render(w, "activity", "layout", view{Page: "activity", Title: "Activity", Me: me, Data: struct {
		Page[action.Invocation]
		Status   action.Status
		Statuses []action.Status
		Session  string
		Older    string
		First    bool
		Names    map[string]string
	}{page, status, statusOrder(), q.Get("session"), older(q, page.Next), q.Get("cursor") == "", names}})
}

func statusOrder() []action.Status {
	return []action.Status{
		action.StatusPending, action.StatusApproved, action.StatusExecuting, action.StatusCompleted,
		action.StatusFailed, action.StatusDenied, action.StatusExpired,
	}
}

// older is the address of the page after this one.
func older(q url.Values, next string) string {
	if next == "" {
		return ""
	}
	out := url.Values{"cursor": {next}}
	for _, name := range []string{"status", "session"} {
		if v := q.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	return "/activity?" + out.Encode()
}

// settingsData is all that the settings show.
type settingsData struct {
	Connectors   []ConnectorView
	Integrations []IntegrationView
	Providers    []Provider
	Presets      []Preset
	Form         upstreamForm // of a new connector
	Reviews      []reviewTable
	Sessions     Page[action.Session]
	Keys         []action.APIKey
	Modes        []ModeView
	Capabilities []CapabilityView
	Gates        []action.GateApproval
	Grants       List[GrantView]
	Users        []action.User
	Names        map[string]string
	Decides      bool
	MCPURL       string
}

func (p *pages) settings(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	d := settingsData{Decides: me.Role.Decides(), MCPURL: p.MCPURL, Presets: p.Presets, Form: p.upstreamForm(action.Connector{Review: action.ReviewTrust})}
	connectors, err := p.Connectors.ListConnectors(ctx, me.Organization)
	if err != nil {
		return err
	}
	d.Connectors = p.viewConnectors(ctx, me.Organization, connectors)
	d.Providers = p.Providers
	if d.Integrations, err = p.integrations(ctx, me); err != nil {
		return err
	}
	if d.Reviews, err = p.reviews(ctx, connectors); err != nil {
		return err
	}
	if d.Sessions, err = p.listSessions(ctx, me, Query{Limit: 50}); err != nil {
		return err
	}
	if d.Keys, err = p.APIKeys.ListAPIKeys(ctx, me.Organization); err != nil {
		return err
	}
	d.Keys = slices.DeleteFunc(d.Keys, func(k action.APIKey) bool { return k.RevokedAt != nil })
	if d.Modes, err = p.modes(ctx, me.Organization); err != nil {
		return err
	}
	if d.Capabilities, err = p.capabilities(ctx, me.Organization, ""); err != nil {
		return err
	}
	if d.Gates, err = p.Gates.ListGates(ctx, me.Organization, "", ""); err != nil {
		return err
	}
	grants, err := p.listGrants(ctx, GrantFilter{Organization: me.Organization, Usable: true, Query: Query{Limit: 50}})
	if err != nil {
		return err
	}
	d.Grants = grants.Body
	if d.Users, err = p.Users.ListUsers(ctx, me.Organization); err != nil {
		return err
	}
	if d.Names, err = p.names(ctx, me.Organization); err != nil {
		return err
	}
	return p.render(w, "settings", "layout", view{Page: "settings", Title: "Settings", Me: me, Data: d})
}
