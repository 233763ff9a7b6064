package dashboard

import (
	"context"
	"encoding/json"

	"sallyport/api"
)

func (s *Server) setupRoutes() {
	handle(s, api.ListSetups, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.SetupEntry], error) {
		all, err := s.Sessions.ListSetups(ctx, p.Organization)
		entries := make([]api.SetupEntry, len(all))
		for i, one := range all {
			entries[i] = api.SetupEntry{Name: one.Name, Commands: length(one.ServiceCommands), EnvFiles: length(one.EnvFiles), UpdatedBy: one.UpdatedBy, UpdatedAt: one.UpdatedAt}
		}
		return listOf(entries), err
	})
	handle(s, api.GetSetup, func(ctx context.Context, p *Principal, in *api.GetSetupInput) (api.SetupView, error) {
		one, err := s.Sessions.Setup(ctx, p.Organization, in.Name)
		return api.SetupView{
			Name: one.Name, ServiceCommands: one.ServiceCommands, EnvFiles: one.EnvFiles,
			UpdatedBy: one.UpdatedBy, CreatedAt: one.CreatedAt, UpdatedAt: one.UpdatedAt,
		}, err
	})
}

// length is how many items a JSON list has.
func length(list json.RawMessage) int {
	var items []json.RawMessage
	_ = json.Unmarshal(list, &items) // what is no list has none
	return len(items)
}
