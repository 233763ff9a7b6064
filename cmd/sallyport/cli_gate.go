package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

type gateCommand struct {
	Approve gateApprove `cmd:"" aliases:"set" help:"Approve a gate for a task of a group."`
	List    gateList    `cmd:"" help:"List gate approvals."`
	Remove  gateRemove  `cmd:"" help:"Remove a gate approval; takes effect at the next call."`
}

type gateApprove struct {
	remote
	api.NewGateApproval
	Expires expiry `field:"expires_in,expires_at" placeholder:"D|TIME" help:"Expiry, such as 24h or 2026-01-02T15:04:05Z (default: 30 days)."`
}

func (c *gateApprove) Run(ctx context.Context, std *stdio) error {
	c.Lifetime = c.Expires.Lifetime
	return perform(ctx, &c.remote, std, api.ApproveGate, api.Body[api.NewGateApproval]{Body: c.NewGateApproval}, func(w io.Writer, a *action.GateApproval) {
		names := c.labels(ctx, api.ListConnectors.Operation)
		said(fmt.Sprintf("group %s may pass gate %s for task %s: %s; %s", a.Group, a.Gate, a.Task, behind(a, names), ends(a.ExpiresAt)))(w)
		said("take it back with: " + c.hint("gate", "remove", a.ID))(w)
	})
}

// behind names the actions that the approval is for.
func behind(a *action.GateApproval, names labels) string {
	if a.Actions == nil {
		return "every action"
	}
	keys := make([]string, len(a.Actions))
	for i, key := range a.Actions {
		keys[i] = names.key(key)
	}
	return strings.Join(keys, ", ")
}

type gateList struct {
	remote
	api.ListGatesInput
}

func (*gateList) route() api.Operation { return api.ListGates.Operation }

func (c *gateList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListGates, c.ListGatesInput, func(w io.Writer, all *api.List[action.GateApproval]) {
		names := c.labels(ctx, actors(api.ListConnectors.Operation)...)
		cells("GATE GROUP TASK FOR STATE BY ID", func(a *action.GateApproval) []string {
			state := ends(a.ExpiresAt)
			if a.RevokedAt != nil {
				state = "revoked " + since(a.RevokedAt)
			}
			return []string{a.Gate, a.Group, a.Task, behind(a, names), state, names.of(a.ApprovedBy), a.ID}
		})(w, all)
	})
}

type gateRemove struct {
	remote
	ID string `arg:"" help:"ID of the gate approval; see sallyport gate list."`
}

func (c *gateRemove) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.DeleteGate, api.ByID{ID: c.ID}, done("approval "+c.ID+" is taken back"))
}
