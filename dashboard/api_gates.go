package dashboard

import (
	"context"
	"fmt"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) gateRoutes() {
	handle(s, api.ListGates, func(ctx context.Context, p *Principal, in *api.ListGatesInput) (api.List[action.GateApproval], error) {
		list, err := s.Policy.ListGates(ctx, p.Organization, in.Group, in.Task)
		return listOf(list), err
	})
	handle(s, api.ApproveGate, func(ctx context.Context, p *Principal, in *api.Body[api.NewGateApproval]) (action.GateApproval, error) {
		a, err := s.newGate(ctx, p, in.Body)
		if err != nil {
			return action.GateApproval{}, err
		}
		if a, err = s.Policy.ApproveGate(ctx, a); err != nil {
			return action.GateApproval{}, err
		}
		s.changed(ctx, p, "gate approved", "gate", a.Gate, "group", a.Group, "task", a.Task)
		return a, nil
	})
	handleNone(s, api.DeleteGate, func(ctx context.Context, p *Principal, in *api.ByID) error {
		if err := s.Policy.RevokeGate(ctx, p.Organization, in.ID, p.By()); err != nil {
			return err
		}
		s.changed(ctx, p, "gate revoked", "approval", in.ID)
		return nil
	})
}

func (s *Server) newGate(ctx context.Context, p *Principal, n api.NewGateApproval) (action.GateApproval, error) {
	a := action.GateApproval{Organization: p.Organization, Gate: n.Gate, Group: n.Group, Task: n.Task, ApprovedBy: p.By()}
	for i, text := range n.Actions {
		at := fmt.Sprintf("/actions/%d", i)
		key, _, err := s.knownKey(ctx, p.Organization, text)
		if err != nil {
			return a, placed(err, at)
		}
		a.Actions = append(a.Actions, key.String())
	}
	var err error
	a.ExpiresAt, err = lifetimeUntil(n.Lifetime, s.now())
	return a, err
}
