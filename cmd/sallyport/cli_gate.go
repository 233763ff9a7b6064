package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"sallyport/action"
)

type gateCommand struct {
	Approve gateApprove `cmd:"" aliases:"set" help:"Let a group's task through a gate."`
	List    gateList    `cmd:"" help:"List approvals of gates."`
	Remove  gateRemove  `cmd:"" help:"Take an approval back; calls are denied from the next one on."`
}

type gateApprove struct {
	remote
	Gate    string   `arg:"" help:"Gate that a capability requires."`
	Group   string   `required:"" placeholder:"G" help:"Group of the sessions."`
	Task    string   `required:"" placeholder:"T" help:"Task of the sessions, fixed when they were minted."`
	Action  []string `placeholder:"KEY" help:"Only source:action or source:*; again for more (default: all behind the gate)."`
	Expires expiry   `placeholder:"D|TIME" help:"When it ends, such as 24h or 2026-01-02T15:04:05Z (default: in 30 days)."`
}

func (c *gateApprove) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{"gate": c.Gate, "group": c.Group, "task": c.Task}
	if c.Action != nil {
		body["actions"] = c.Action
	}
	c.Expires.into(body)
	return alter(ctx, &c.remote, std, http.MethodPost, "/api/v1/gates", body, func(w io.Writer, a *action.GateApproval) {
		names := c.labels(ctx, "/api/v1/connectors")
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
	Group string `help:"Only of this group."`
	Task  string `help:"Only of this task."`
}

func (c *gateList) Run(ctx context.Context, std *stdio) error {
	query := queryOf(given{"group": c.Group, "task": c.Task})
	return show(ctx, &c.remote, std, "/api/v1/gates", query, func(w io.Writer, all *list[action.GateApproval]) {
		names := c.labels(ctx, usersPath, keysPath, "/api/v1/connectors")
		rows := make([][]string, 0, len(all.Items))
		for _, a := range all.Items {
			state := ends(a.ExpiresAt)
			if a.RevokedAt != nil {
				state = "revoked " + since(a.RevokedAt)
			}
			rows = append(rows, []string{a.Gate, a.Group, a.Task, behind(&a, names), state, names.of(a.ApprovedBy), a.ID})
		}
		table(w, []string{"GATE", "GROUP", "TASK", "FOR", "STATE", "BY", "ID"}, rows)
	})
}

type gateRemove struct {
	remote
	ID string `arg:"" help:"Id of the approval; see sallyport gate list."`
}

func (c *gateRemove) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, "/api/v1/gates/"+url.PathEscape(c.ID), "approval "+c.ID+" is taken back")
}
