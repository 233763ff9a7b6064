package dashboard

import (
	"context"
	"fmt"
	"net/http"

	"sallyport/action"
)

// NewGateApproval lets a group's task through a gate.
type NewGateApproval struct {
	Gate    string   `json:"gate" minLength:"1" maxLength:"200" example:"deploy"`
	Group   string   `json:"group" minLength:"1" maxLength:"200" example:"developer"`
	Task    string   `json:"task" minLength:"1" maxLength:"500" doc:"The session's, as it was minted." example:"T-42"`
	Actions []string `json:"actions,omitempty" minItems:"1" maxItems:"1000" doc:"Policy keys, each source:action or source:*; null or absent: every action behind the gate."`
	Lifetime
}

func (s *Server) gateRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/gates", tag: "capabilities", summary: "List approvals of gates, newest first",
	}, func(ctx context.Context, p *Principal, in *struct {
		Group string `query:"group" doc:"Absent: all."`
		Task  string `query:"task" doc:"Absent: all."`
	},
	) (*body[List[action.GateApproval]], error) {
		list, err := s.Gates.ListGates(ctx, p.Organization, in.Group, in.Task)
		return listOf(list), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/gates", tag: "capabilities", summary: "Approve a gate for a task", status: http.StatusCreated,
		doc: "What a capability of level 3 requires before a dangerous action of that group and task can run.",
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewGateApproval }) (*body[action.GateApproval], error) {
		a, err := s.newGate(ctx, p, in.Body)
		if err != nil {
			return nil, err
		}
		if a, err = s.Gates.ApproveGate(ctx, a); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "gate approved", "gate", a.Gate, "group", a.Group, "task", a.Task)
		return bodyOf(a), nil
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/gates/{id}", tag: "capabilities", summary: "Revoke the approval of a gate", doc: "Effective for the next call.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*empty, error) {
		if err := s.Gates.RevokeGate(ctx, p.Organization, in.ID, p.By()); err != nil {
			return nil, err
		}
		s.changed(ctx, p, "gate revoked", "approval", in.ID)
		return nil, nil
	})
}

func (s *Server) newGate(ctx context.Context, p *Principal, n NewGateApproval) (action.GateApproval, error) {
	a := action.GateApproval{Organization: p.Organization, Gate: n.Gate, Group: n.Group, Task: n.Task, ApprovedBy: p.By()}
	for i, text := range n.Actions {
		at := fmt.Sprintf("/actions/%d", i)
		if text == "*" {
			return a, invalid(at, "Name source:action or source:*; leave actions out for every action behind the gate.")
		}
		key, _, err := s.knownKey(ctx, p.Organization, text)
		if err != nil {
			return a, placed(err, at)
		}
		a.Actions = append(a.Actions, key.String())
	}
	var err error
	a.ExpiresAt, err = n.until(s.now())
	return a, err
}
