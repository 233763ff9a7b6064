package view

import (
	"context"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
)

// ViewIntegration returns the view of one integration, and why it cannot be used.
func (s *Reader) ViewIntegration(in action.Integration) api.IntegrationView {
	in.Reason = render.Plain(in.Reason) // may contain text of the service
	v := api.IntegrationView{Integration: in, Title: in.Provider}
	provider := s.Provider(in.Provider)
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

// Integrations lists the integrations that the principal may see.
func (s *Reader) Integrations(ctx context.Context, p *dashboard.Principal) ([]api.IntegrationView, error) {
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, p.Viewer())
	views := make([]api.IntegrationView, len(all))
	for i, in := range all {
		views[i] = s.ViewIntegration(in)
	}
	return views, err
}

// Provider returns the provider with that ID, or nil.
func (s *Reader) Provider(id string) *api.Provider {
	if i := slices.IndexFunc(s.Providers, func(p api.Provider) bool { return p.ID == id }); i >= 0 {
		return &s.Providers[i]
	}
	return nil
}

// Manages returns nil if the principal may change or disconnect a visible
// integration: a private one is managed by its owner only.
func Manages(p *dashboard.Principal, in *action.Integration) error {
	switch owner := in.Owner(); {
	case owner != "" && owner == p.Viewer(), owner == "" && p.Role.Decides():
		return nil
	case owner != "":
		return action.NewError("integration_not_found")
	}
	return action.Errorf(action.ErrForbidden, "role_required", "The integration is the organization's; ask an owner or admin.")
}

// KeepListed returns the IDs whose integrations are in the list.
func KeepListed(ids []string, all []action.Integration) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return id != action.AllConnections && !slices.ContainsFunc(all, func(in action.Integration) bool { return in.ID == id })
	})
}
