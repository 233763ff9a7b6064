package routes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	"sallyport/internal/guard"
)

// MetadataQuery is the query of a metadata route. Its parameters depend on the
// provider.
type MetadataQuery struct {
	api.ByID
	query url.Values
}

// Resolve implements [huma.Resolver]. It keeps the whole query, which the API
// description cannot list.
func (q *MetadataQuery) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	q.query = u.Query()
	return nil
}

func (s *handlers) integrationRoutes() {
	dashboard.Handle(s.Server, api.ListProviders, func(context.Context, *dashboard.Principal, *api.None) (api.List[api.Provider], error) {
		return view.ListOf(s.Providers), nil
	})
	dashboard.Handle(s.Server, api.ListIntegrations, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[api.IntegrationView], error) {
		views, err := s.Integrations(ctx, p)
		return view.ListOf(views), err
	})
	dashboard.Handle(s.Server, api.GetIntegration, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.IntegrationView, error) {
		i, err := s.Sources.Integration(ctx, p.Organization, in.ID, p.Viewer())
		return s.ViewIntegration(i), err
	})
	dashboard.HandleRaw(s.Server, api.GetIntegrationMetadata, func(ctx context.Context, p *dashboard.Principal, in *MetadataQuery) (json.RawMessage, error) {
		i, err := s.managedIntegration(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		data, err := s.Connections.Metadata(ctx, i, in.query)
		return data, fieldUnder(err, "/query") // the field is a query parameter
	})
	dashboard.HandleStatus(s.Server, api.CreateIntegration, s.connectIntegration)
	dashboard.Handle(s.Server, api.UpdateIntegration, func(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.IntegrationChange]) (api.IntegrationView, error) {
		i, err := s.changeIntegration(ctx, p, in.ID, in.Body)
		return s.ViewIntegration(i), err
	})
	dashboard.Handle(s.Server, api.CheckIntegration, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.IntegrationView, error) {
		i, err := s.managedIntegration(ctx, p, in.ID)
		if err != nil {
			return api.IntegrationView{}, err
		}
		if i, err = s.Connections.Check(ctx, i); err != nil {
			return api.IntegrationView{}, err
		}
		s.integrationChanged(ctx, p, "integration checked", &i, "status", i.Status)
		return s.ViewIntegration(i), nil
	})
	dashboard.Handle(s.Server, api.DeleteIntegration, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.Disconnected, error) {
		i, err := s.managedIntegration(ctx, p, in.ID)
		if err != nil {
			return api.Disconnected{}, err
		}
		revoked, err := s.Connections.Disconnect(ctx, i, p.By())
		if err == nil {
			s.integrationChanged(ctx, p, "integration disconnected", &i, "revoked", revoked)
		}
		return api.Disconnected{Revoked: revoked}, err
	})
	dashboard.Handle(s.Server, api.ConnectIntegration, s.beginConnection)
	s.providerAppRoutes()
	s.bindingRoutes()
}

// connectMethod returns the provider's connection method of a kind, or the first
// allowed one for an empty kind. It returns nil if there is none.
func connectMethod(p *api.Provider, kind action.IntegrationKind, may ...action.IntegrationKind) *api.ProviderNeed {
	i := slices.IndexFunc(p.Needs, func(n api.ProviderNeed) bool {
		return slices.Contains(may, n.Kind) && (kind == "" || n.Kind == kind)
	})
	if i < 0 {
		return nil
	}
	return &p.Needs[i]
}

// managedIntegration returns an integration that the person may change.
func (s *handlers) managedIntegration(ctx context.Context, p *dashboard.Principal, id string) (action.Integration, error) {
	in, err := s.Sources.Integration(ctx, p.Organization, id, p.Viewer())
	if err != nil {
		return in, err
	}
	return in, view.Manages(p, &in)
}

// connectIntegration creates an integration from a credential.
func (s *handlers) connectIntegration(ctx context.Context, p *dashboard.Principal, req *api.Body[api.NewIntegration]) (*dashboard.StatusResponse[api.IntegrationView], error) {
	w, err := s.connectionRequest(ctx, p, req.Body.Connecting, req.Body.Secret, action.KindAPIKey, action.KindBotToken, action.KindNone)
	if err != nil {
		return nil, err
	}
	before, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	if err != nil {
		return nil, err
	}
	in, err := s.Connections.Connect(ctx, w)
	if err != nil {
		return nil, err
	}
	s.integrationChanged(ctx, p, "integration connected", &in)
	s.listRepositories(ctx, p, in)
	out := &dashboard.StatusResponse[api.IntegrationView]{Status: http.StatusCreated, Body: s.ViewIntegration(in)}
	if slices.ContainsFunc(before, func(o action.Integration) bool { return o.ID == in.ID }) {
		out.Status = http.StatusOK
	}
	return out, nil
}

// connectionRequest validates the request for a connection, as far as this is
// possible without the service.
func (s *handlers) connectionRequest(ctx context.Context, p *dashboard.Principal, c api.Connecting, secret string, kinds ...action.IntegrationKind) (action.ConnectRequest, error) {
	w := action.ConnectRequest{
		Organization: p.Organization, Provider: c.Provider, Broker: c.Broker, Name: strings.TrimSpace(c.Name), Own: c.Own,
		Visibility: c.Visibility, BaseURL: c.BaseURL, Settings: normalizeSettings(c.Settings), TimeoutSeconds: c.Timeout, By: p.By(), Login: p.CredentialID, Secret: secret,
	}
	provider := s.Provider(c.Provider)
	if provider == nil {
		return w, dashboard.Invalid("/provider", fmt.Sprintf("There is no provider %q; providers are %s.", render.Plain(c.Provider), s.providerIDs()))
	}
	need := connectMethod(provider, c.Kind, kinds...)
	if need == nil {
		return w, errOtherMethod(provider, c.Kind, kinds)
	}
	w.Kind = need.Kind
	switch {
	case p.LimitedRole && (c.Own || c.Visibility == action.VisiblePrivate || !p.Role.Decides()):
		return w, errLimitedKey()
	case !c.Own && !p.Role.Decides():
		return w, action.Errorf(action.ErrForbidden, "role_required",
			"A member can only make personal connections. Set `own`, or ask an owner or admin to connect it for the organization.").WithField("/own")
	case c.Own && !need.Users:
		return w, dashboard.Invalid("/own", fmt.Sprintf("%s cannot be connected this way as a personal connection. Leave `own` out.", provider.Title))
	}
	if err := w.Check(); err != nil {
		return w, err
	}
	if err := s.checkName(w.Name, w.Provider); err != nil {
		return w, err
	}
	if err := checkBaseURL(w.BaseURL); err != nil {
		return w, err
	}
	if err := checkSettings(provider, w.Settings); err != nil {
		return w, err
	}
	return w, s.checkServiceURL(ctx, p, &w)
}

// errLimitedKey reports that an API key with a lower role than its creator
// cannot make personal connections.
func errLimitedKey() error {
	return action.Errorf(action.ErrForbidden, "role_required",
		"This API key has a lower role than its creator, so it cannot make personal or private connections. Use the dashboard, or a key with the creator's role.")
}

// checkServiceURL restricts members to base URLs that the organization connects
// to already. An operator may have opened hosts that members cannot reach
// themselves.
func (s *handlers) checkServiceURL(ctx context.Context, p *dashboard.Principal, w *action.ConnectRequest) error {
	if w.BaseURL == "" || p.Role.Decides() {
		return nil
	}
	shared, err := s.Sources.ListIntegrations(ctx, p.Organization, "")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(shared, func(in action.Integration) bool { return in.Provider == w.Provider && in.BaseURL == w.BaseURL }) {
		return nil
	}
	return action.Errorf(action.ErrForbidden, "role_required",
		"A member can only connect to the provider's own URL, or to one that an integration of the organization uses. Leave base_url out, or ask an owner or admin to connect the organization there first.").WithField("/base_url")
}

// errOtherMethod explains how to connect the provider instead.
func errOtherMethod(p *api.Provider, kind action.IntegrationKind, may []action.IntegrationKind) error {
	var here, there []string
	for _, n := range p.Needs {
		if slices.Contains(may, n.Kind) {
			here = append(here, string(n.Kind))
		} else {
			there = append(there, string(n.Kind))
		}
	}
	route := "/api/v1/integrations/connect"
	if slices.Contains(may, action.KindOAuth2) {
		route = "/api/v1/integrations"
	}
	if slices.Contains(there, string(kind)) || len(here) == 0 {
		return dashboard.Invalid("/kind", fmt.Sprintf("%s is connected so elsewhere: POST %s takes kind %s.", p.Title, route, strings.Join(there, ", ")))
	}
	return dashboard.Invalid("/kind", fmt.Sprintf("%s cannot be connected that way; kind can be %s.", p.Title, strings.Join(here, ", ")))
}

func (s *handlers) providerIDs() string {
	ids := make([]string, len(s.Providers))
	for i, p := range s.Providers {
		ids[i] = p.ID
	}
	return cmp.Or(strings.Join(ids, ", "), "none")
}

// isPlainName reports whether a name has no hidden or misleading characters.
func isPlainName(name string) bool {
	all := render.Escape(name)
	return len(all) == 1 && all[0].Class == ""
}

// checkName refuses integration names with hidden characters, and names that
// mean something else in session bindings.
func (s *handlers) checkName(name, provider string) error {
	low := strings.ToLower(name)
	switch {
	case name == "":
		return nil
	case !isPlainName(name):
		return dashboard.Invalid("/name", "name must be plain text.")
	case low == action.AllConnections, low != provider && s.Provider(low) != nil,
		strings.HasPrefix(low, view.ModulePrefix), strings.HasPrefix(low, view.ConnectorPrefix):
		return dashboard.Invalid("/name", fmt.Sprintf("The name %q is reserved. Choose another.", name))
	}
	return nil
}

// checkBaseURL validates the base URL of an API. It may be empty, for the
// provider's own.
func checkBaseURL(text string) (err error) {
	if text != "" {
		_, err = guard.CheckBaseURL(text)
	}
	return err
}

func checkSettings(p *api.Provider, settings json.RawMessage) error {
	if settings == nil || p == nil {
		return nil
	}
	if settings[0] != '{' {
		return dashboard.Invalid("/settings", "settings must be a JSON object that fits the provider's settings_schema.")
	}
	if p.CheckSettings == nil {
		return nil
	}
	return p.CheckSettings(settings)
}

// normalizeSettings returns nil for empty or null settings.
func normalizeSettings(settings json.RawMessage) json.RawMessage {
	if text := strings.TrimSpace(string(settings)); text != "" && text != "null" {
		return json.RawMessage(text)
	}
	return nil
}

func (s *handlers) changeIntegration(ctx context.Context, p *dashboard.Principal, id string, change api.IntegrationChange) (action.Integration, error) {
	in, err := s.managedIntegration(ctx, p, id)
	if err != nil {
		return in, err
	}
	if err := s.checkChange(p, &in, &change); err != nil {
		return in, err
	}
	if change.Secret != "" {
		if err := s.replaceCredential(ctx, p, &in, change.Secret); err != nil {
			return in, err
		}
	}
	applyChange(&in, &change, "Settings")
	setIfGiven(&in.TimeoutSeconds, change.Timeout)
	if settings := normalizeSettings(change.Settings); settings != nil {
		in.Settings = settings
	}
	if in, err = s.Sources.ChangeIntegration(ctx, in, p.By()); err != nil {
		return in, err
	}
	s.integrationChanged(ctx, p, "integration changed", &in, "revision", in.Revision, "secret", change.Secret != "")
	return in, nil
}

// checkChange validates a change before anything is written.
func (s *handlers) checkChange(p *dashboard.Principal, in *action.Integration, change *api.IntegrationChange) error {
	if change.Visibility != nil && *change.Visibility != in.Visibility {
		switch {
		case in.User != "":
			return dashboard.Invalid("/visibility", "A personal connection stays private. Connect another for the organization.")
		case !p.Role.Decides():
			return action.Errorf(action.ErrForbidden, "role_required", "Only owners and admins choose who sees an integration; ask one.")
		case in.CreatedBy != p.Viewer():
			return dashboard.Invalid("/visibility", "Only its creator can make an integration private. Connect the account again as private.")
		}
	}
	if change.Name != nil {
		if *change.Name = strings.TrimSpace(*change.Name); *change.Name == "" {
			return dashboard.Invalid("/name", "name must be plain text.")
		}
		if err := s.checkName(*change.Name, in.Provider); err != nil {
			return err
		}
	}
	if change.Secret != "" && in.Kind != action.KindAPIKey && in.Kind != action.KindBotToken {
		return dashboard.Invalid("/secret", fmt.Sprintf("An integration of kind %s has no key to replace; connect the account again.", in.Kind))
	}
	if err := action.CheckCredential("/secret", change.Secret); err != nil {
		return err
	}
	return checkSettings(s.Provider(in.Provider), normalizeSettings(change.Settings))
}

// replaceCredential replaces the credential with another one of the same
// account.
func (s *handlers) replaceCredential(ctx context.Context, p *dashboard.Principal, in *action.Integration, secret string) error {
	next, err := s.Connections.Connect(ctx, action.ConnectRequest{
		Organization: in.Organization, Provider: in.Provider, Kind: in.Kind, Broker: in.Broker, Secret: secret, Name: in.Name,
		Own: in.User != "", Visibility: in.Visibility, BaseURL: in.BaseURL, Settings: in.Settings, TimeoutSeconds: in.TimeoutSeconds,
		Account: in.Account, By: p.By(), Login: p.CredentialID,
	})
	switch {
	case errors.Is(err, action.ErrConflict):
		return view.AtField(err, "/secret")
	case err != nil:
		return err
	case next.ID != in.ID:
		s.integrationChanged(ctx, p, "integration connected", &next)
		return action.NewError("other_account").WithField("/secret")
	}
	*in = next
	return nil
}

// integrationChanged logs a change and invalidates the policy and catalog
// caches.
func (s *handlers) integrationChanged(ctx context.Context, p *dashboard.Principal, what string, in *action.Integration, args ...any) {
	s.policyChanged(ctx, p, what, append([]any{"integration", in.ID, "provider", in.Provider}, args...)...)
	s.Hint(action.HintCatalog, p.Organization, "")
}
