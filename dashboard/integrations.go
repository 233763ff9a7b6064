package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/guard"
)

func (s *Server) viewIntegration(in action.Integration) api.IntegrationView {
	in.Reason = plain(in.Reason) // a service may have written some of it
	v := api.IntegrationView{Integration: in, Title: in.Provider}
	provider := s.provider(in.Provider)
	if provider != nil {
		v.Title = provider.Title
	}
	switch {
	case provider == nil:
		v.Why = "This gateway has no module for the service any more; disconnect it."
	case in.Status == action.IntegrationActive:
		v.Usable = true
	default:
		v.Why = strings.TrimSpace(in.Reason + " Connect the account again to use it.")
	}
	return v
}

// integrations are those that the person may see.
func (s *Server) integrations(ctx context.Context, p *Principal) ([]api.IntegrationView, error) {
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.viewer())
	views := make([]api.IntegrationView, len(all))
	for i, in := range all {
		views[i] = s.viewIntegration(in)
	}
	return views, err
}

// provider returns the module of an id; nil: there is none.
func (s *Server) provider(id string) *api.Provider {
	if i := slices.IndexFunc(s.Providers, func(p api.Provider) bool { return p.ID == id }); i >= 0 {
		return &s.Providers[i]
	}
	return nil
}

// providerNeed returns the provider's way to connect of a kind; empty: the first of
// those that may be. Nil: there is none.
func providerNeed(p *api.Provider, kind action.IntegrationKind, may ...action.IntegrationKind) *api.ProviderNeed {
	i := slices.IndexFunc(p.Needs, func(n api.ProviderNeed) bool {
		return slices.Contains(may, n.Kind) && (kind == "" || n.Kind == kind)
	})
	if i < 0 {
		return nil
	}
	return &p.Needs[i]
}

// manages returns nil when the person may change or end an integration that he
// sees: what has an owner is his alone.
func manages(p *Principal, in *action.Integration) error {
	switch owner := in.Owner(); {
	case owner != "" && owner == p.viewer(), owner == "" && p.Role.Decides():
		return nil
	case owner != "":
		return action.NewError("integration_not_found")
	}
	return action.Errorf(action.ErrForbidden, "role_required", "The integration is the organization's; ask an owner or admin.")
}

// managed returns an integration that the person may change.
func (s *Server) managed(ctx context.Context, p *Principal, id string) (action.Integration, error) {
	in, err := s.Sources.Integration(ctx, p.Organization, id, p.viewer())
	if err != nil {
		return in, err
	}
	return in, manages(p, &in)
}

// connect makes an integration of a credential.
func (s *Server) connect(ctx context.Context, p *Principal, n api.NewIntegration) (*coded[api.IntegrationView], error) {
	w, err := s.wanted(ctx, p, n.Connecting, n.Secret, action.KindAPIKey, action.KindBotToken, action.KindNone)
	if err != nil {
		return nil, err
	}
	before, err := s.Sources.ListIntegrations(ctx, p.Organization, p.viewer())
	if err != nil {
		return nil, err
	}
	in, err := s.Connections.Connect(ctx, w)
	if err != nil {
		return nil, err
	}
	s.integrationChanged(ctx, p, "integration connected", &in)
	out := &coded[api.IntegrationView]{Status: http.StatusCreated, Body: s.viewIntegration(in)}
	if slices.ContainsFunc(before, func(o action.Integration) bool { return o.ID == in.ID }) {
		out.Status = http.StatusOK
	}
	return out, nil
}

// wanted checks what is said of a new connection, as far as this is known
// without the service.
func (s *Server) wanted(ctx context.Context, p *Principal, c api.Connecting, secret string, kinds ...action.IntegrationKind) (action.Wanted, error) {
	w := action.Wanted{
		Organization: p.Organization, Provider: c.Provider, Broker: c.Broker, Name: strings.TrimSpace(c.Name), Own: c.Own,
		Visibility: c.Visibility, BaseURL: c.BaseURL, Settings: settled(c.Settings), TimeoutSeconds: c.Timeout, By: p.By(), Login: p.via, Secret: secret,
	}
	provider := s.provider(c.Provider)
	if provider == nil {
		return w, invalid("/provider", fmt.Sprintf("There is no provider %q; there is %s.", plain(c.Provider), s.providerIDs()))
	}
	need := providerNeed(provider, c.Kind, kinds...)
	if need == nil {
		return w, providerOtherwise(provider, c.Kind, kinds)
	}
	w.Kind = need.Kind
	switch {
	case p.lesser && (c.Own || c.Visibility == action.VisiblePrivate || !p.Role.Decides()):
		return w, errLesserKey()
	case !c.Own && !p.Role.Decides():
		return w, action.Errorf(action.ErrForbidden, "role_required",
			"A member connects only in their own name: set `own`, or ask an owner or admin to connect it for the organization.").WithField("/own")
	case c.Own && !need.Users:
		return w, invalid("/own", fmt.Sprintf("%s is not connected this way in a person's own name; leave `own` out.", provider.Title))
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
	return w, s.checkPlace(ctx, p, &w)
}

// errLesserKey is for what a key of a lesser role does not do for its person.
func errLesserKey() error {
	return action.Errorf(action.ErrForbidden, "role_required",
		"This API key has a lesser role than whoever made it, so that it connects nothing in that person's name or for that person alone; do it in the page, or with a key of the person's own role.")
}

// checkPlace lets a member lead the gateway only to where the organization
// itself connects to: an operator may have opened what he could not reach.
func (s *Server) checkPlace(ctx context.Context, p *Principal, w *action.Wanted) error {
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
		"A member connects to the provider's own address, or to one that an integration of the organization has; leave base_url out, or ask an owner or admin to connect the organization there first.").WithField("/base_url")
}

// providerOtherwise says how a provider is connected instead.
func providerOtherwise(p *api.Provider, kind action.IntegrationKind, may []action.IntegrationKind) error {
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
		return invalid("/kind", fmt.Sprintf("%s is connected so elsewhere: POST %s takes kind %s.", p.Title, route, strings.Join(there, ", ")))
	}
	return invalid("/kind", fmt.Sprintf("%s is not connected so; kind may be %s.", p.Title, strings.Join(here, ", ")))
}

func (s *Server) providerIDs() string {
	ids := make([]string, len(s.Providers))
	for i, p := range s.Providers {
		ids[i] = p.ID
	}
	return cmp.Or(strings.Join(ids, ", "), "none")
}

// plainName reports whether nothing in a name hides or poses.
func plainName(name string) bool {
	all := visible(name)
	return len(all) == 1 && all[0].Class == ""
}

// checkName refuses names of an integration of a provider that hide something,
// or that stand for something else where sessions are bound.
func (s *Server) checkName(name, provider string) error {
	low := strings.ToLower(name)
	switch {
	case name == "":
		return nil
	case !plainName(name):
		return invalid("/name", "name must be plain text.")
	case low == action.AllConnections, low != provider && s.provider(low) != nil,
		strings.HasPrefix(low, modulePrefix), strings.HasPrefix(low, connectorPrefix):
		return invalid("/name", fmt.Sprintf("The name %q stands for something else where sessions are bound; choose another.", name))
	}
	return nil
}

// checkBaseURL checks the URL of an API; empty is the provider's own.
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
		return invalid("/settings", "settings must be a JSON object that fits the provider's settings_schema.")
	}
	if p.CheckSettings == nil {
		return nil
	}
	return p.CheckSettings(settings)
}

// settled is nil for settings that say nothing.
func settled(settings json.RawMessage) json.RawMessage {
	if text := strings.TrimSpace(string(settings)); text != "" && text != "null" {
		return json.RawMessage(text)
	}
	return nil
}

func (s *Server) changeIntegration(ctx context.Context, p *Principal, id string, change api.IntegrationChange) (action.Integration, error) {
	in, err := s.managed(ctx, p, id)
	if err != nil {
		return in, err
	}
	if err := s.checkChange(p, &in, &change); err != nil {
		return in, err
	}
	if change.Secret != "" {
		if err := s.renew(ctx, p, &in, change.Secret); err != nil {
			return in, err
		}
	}
	apply(&in, &change, "Settings")
	set(&in.TimeoutSeconds, change.Timeout)
	if settings := settled(change.Settings); settings != nil {
		in.Settings = settings
	}
	if in, err = s.Sources.ChangeIntegration(ctx, in, p.By()); err != nil {
		return in, err
	}
	s.integrationChanged(ctx, p, "integration changed", &in, "revision", in.Revision, "secret", change.Secret != "")
	return in, nil
}

// checkChange refuses what would not be, before anything is changed.
func (s *Server) checkChange(p *Principal, in *action.Integration, change *api.IntegrationChange) error {
	if change.Visibility != nil && *change.Visibility != in.Visibility {
		switch {
		case in.User != "":
			return invalid("/visibility", "A connection in somebody's own name stays private; connect another for the organization.")
		case !p.Role.Decides():
			return action.Errorf(action.ErrForbidden, "role_required", "Only owners and admins choose who sees an integration; ask one.")
		case in.CreatedBy != p.viewer():
			return invalid("/visibility", "Private means to be seen by who made it alone, and that was somebody else; connect the account again as private.")
		}
	}
	if change.Name != nil {
		if *change.Name = strings.TrimSpace(*change.Name); *change.Name == "" {
			return invalid("/name", "name must be plain text.")
		}
		if err := s.checkName(*change.Name, in.Provider); err != nil {
			return err
		}
	}
	if change.Secret != "" && in.Kind != action.KindAPIKey && in.Kind != action.KindBotToken {
		return invalid("/secret", fmt.Sprintf("An integration of kind %s has no key to replace; connect the account again.", in.Kind))
	}
	if err := action.CheckCredential("/secret", change.Secret); err != nil {
		return err
	}
	return checkSettings(s.provider(in.Provider), settled(change.Settings))
}

// renew replaces the credential by another one of the same account.
func (s *Server) renew(ctx context.Context, p *Principal, in *action.Integration, secret string) error {
	next, err := s.Connections.Connect(ctx, action.Wanted{
		Organization: in.Organization, Provider: in.Provider, Kind: in.Kind, Broker: in.Broker, Secret: secret, Name: in.Name,
		Own: in.User != "", Visibility: in.Visibility, BaseURL: in.BaseURL, Settings: in.Settings, TimeoutSeconds: in.TimeoutSeconds,
		Account: in.Account, By: p.By(), Login: p.via,
	})
	switch {
	case errors.Is(err, action.ErrConflict):
		return placed(err, "/secret")
	case err != nil:
		return err
	case next.ID != in.ID:
		s.integrationChanged(ctx, p, "integration connected", &next)
		return action.NewError("other_account").WithField("/secret")
	}
	*in = next
	return nil
}

func (s *Server) checkIntegration(ctx context.Context, p *Principal, id string) (action.Integration, error) {
	in, err := s.managed(ctx, p, id)
	if err != nil {
		return in, err
	}
	now, err := s.Connections.Check(ctx, in)
	if err != nil {
		return in, err
	}
	s.integrationChanged(ctx, p, "integration checked", &now, "status", now.Status)
	return now, nil
}

func (s *Server) disconnect(ctx context.Context, p *Principal, id string) (revoked bool, err error) {
	in, err := s.managed(ctx, p, id)
	if err != nil {
		return false, err
	}
	if revoked, err = s.Connections.Disconnect(ctx, in, p.By()); err != nil {
		return revoked, err
	}
	s.integrationChanged(ctx, p, "integration disconnected", &in, "revoked", revoked)
	return revoked, nil
}

// integrationChanged logs a change, and has everybody decide and list anew.
func (s *Server) integrationChanged(ctx context.Context, p *Principal, what string, in *action.Integration, args ...any) {
	s.changed(ctx, p, what, append([]any{"integration", in.ID, "provider", in.Provider}, args...)...)
	s.hint(action.HintCatalog, p.Organization, "")
}
