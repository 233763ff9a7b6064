package dashboard_test

import (
	"context"

	"sallyport/action"
)

func (m *memory) ListSetups(_ context.Context, organization string) ([]action.Setup, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []action.Setup
	for _, s := range m.setups {
		if s.Organization == organization {
			list = append(list, s)
		}
	}
	return list, nil
}

func (m *memory) Setup(ctx context.Context, organization, name string) (action.Setup, error) {
	all, err := m.ListSetups(ctx, organization)
	for _, s := range all {
		if s.Name == name {
			return s, err
		}
	}
	return action.Setup{}, action.Errorf(action.ErrNotFound, "setup_not_found", "There is no such setup.")
}
