package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type capabilityCommand struct {
	Set    capabilitySet                                                    `cmd:"" help:"Set the capability of a group at a provider."`
	List   request[api.ListCapabilitiesInput, api.List[api.CapabilityView]] `cmd:"" help:"List capabilities."`
	Show   capabilityShow                                                   `cmd:"" help:"Show every action and its mode in a session of the group."`
	Remove capabilityRemove                                                 `cmd:"" help:"Remove a capability; takes effect at the next call."`
}

// capabilityRef are the arguments that name a capability.
type capabilityRef struct {
	clientFlags
	api.ByCapability
}

// Validate rejects empty names, which an unset shell variable causes.
func (c *capabilityRef) Validate() error {
	if c.Group == "" || c.Provider == "" {
		return errors.New("name the group and the provider, such as: developer github")
	}
	return nil
}

// limitText describes the limits of a capability besides its level.
func limitText(c *action.Capability) string {
	var parts []string
	if c.AllowedActions != nil {
		parts = append(parts, "only "+cmp.Or(strings.Join(c.AllowedActions, ", "), "nothing"))
	}
	if len(c.DeniedActions) > 0 {
		parts = append(parts, "never "+strings.Join(c.DeniedActions, ", "))
	}
	if c.Gate != "" {
		parts = append(parts, "dangerous actions behind gate "+c.Gate)
	}
	if c.Rate != nil {
		parts = append(parts, fmt.Sprintf("%s in %s", command.Plural(c.Rate.Calls, "call"), c.Rate.Span()))
	}
	if c.ExpiresAt != nil {
		parts = append(parts, expiryText(c.ExpiresAt))
	}
	return strings.Join(parts, "; ")
}

// levelText describes the default modes of a level.
func levelText(c *action.Capability) string {
	const unless = " of this group run without approval there, unless a mode requires it"
	switch c.Level {
	case action.LevelRead:
		return "reads" + unless + "; everything else is denied"
	case action.LevelWrite:
		return "reads and writes" + unless + "; dangerous actions are denied"
	case action.LevelProduction:
		return "reads, writes and, once gate " + c.Gate + " is approved for the session's task, dangerous actions" + unless
	}
	return "all actions of this group are denied there"
}

type capabilitySet struct {
	capabilityRef
	Level string `required:"" enum:"none,read,write,production,0,1,2,3" placeholder:"LEVEL" help:"Level: none, read, write, production, or 0 to 3."`
	api.NewCapability
	Rate    *rate  `placeholder:"N/D" help:"Rate limit of the whole group, such as 10/1m."`
	Expires expiry `field:"expires_in,expires_at" placeholder:"D|TIME" help:"Expiry, such as 24h or 2026-01-02T15:04:05Z (default: never)."`
}

func (c *capabilitySet) Run(ctx context.Context, std *command.Streams) error {
	in := api.ByCapabilityWith[api.NewCapability]{ByCapability: c.ByCapability, Body: c.NewCapability}
	in.Body.Lifetime = c.Expires.Lifetime
	in.Body.Level.RawMessage = json.RawMessage(c.Level)
	if _, err := strconv.Atoi(c.Level); err != nil {
		in.Body.Level.RawMessage = json.RawMessage(strconv.Quote(c.Level))
	}
	if c.Rate != nil {
		in.Body.Rate = &api.GroupRate{NewRate: api.NewRate(*c.Rate)}
	}
	return perform(ctx, &c.clientFlags, std, api.PutCapability, in, func(w io.Writer, updated *api.CapabilityView) {
		std.Warn(updated.Warning)
		text := fmt.Sprintf("group %s has level %d (%s) at %s", updated.Group, updated.Level, updated.Level, sourceName(updated.Name, updated.Provider))
		if more := limitText(&updated.Capability); more != "" {
			text += "; " + more
		}
		printLine(w, text)
		printLine(w, levelText(&updated.Capability))
		printLine(w, "show the resulting modes: "+c.hint("capability", "show", updated.Group))
	})
}

type capabilityShow struct {
	clientFlags
	api.GetGroupCapabilitiesInput
}

// Validate rejects an empty name, which an unset shell variable causes.
func (c *capabilityShow) Validate() error {
	if c.Group == "" {
		return errors.New("name the group, such as: developer")
	}
	return nil
}

// Run shows the snapshot that an agent of the group sees.
func (c *capabilityShow) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.clientFlags, std, api.GetGroupCapabilities, c.GetGroupCapabilitiesInput, func(w io.Writer, s *action.Snapshot) {
		if len(s.Capabilities) == 0 && c.Cursor == "" {
			printLine(w, "there are no providers; add one with: "+c.hint("connector", "add", "NAME", "URL"))
		}
		showProviders(w, s)
	})
}

// showProviders shows a page of a snapshot.
func showProviders(w io.Writer, s *action.Snapshot) {
	for i := range s.Capabilities {
		showProvider(w, &s.Capabilities[i])
	}
	printNextPage(w, s.NextCursor)
}

func showProvider(w io.Writer, p *action.ProviderAbility) {
	text := fmt.Sprintf("%s: level %d (%s)", sourceName(p.Name, p.Provider), p.Level, p.LevelName)
	if more := limitText(&action.Capability{
		AllowedActions: p.AllowedActions, DeniedActions: p.DeniedActions, Gate: p.Gate, Rate: p.Rate, ExpiresAt: p.ExpiresAt,
	}); more != "" {
		text += "; " + more
	}
	printLine(w, text)
	printTable(w, "ACTION RISK LEVEL MODE WHY", p.Actions, func(a *action.ActionAbility) []string {
		mode := string(a.Mode)
		if a.Denied {
			mode = "DENIED"
		}
		return []string{a.Action, string(a.Risk), strconv.Itoa(int(a.Level)), mode, a.Reason}
	})
	fmt.Fprintln(w)
}

type capabilityRemove struct{ capabilityRef }

func (c *capabilityRemove) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.clientFlags, std, api.DeleteCapability, c.ByCapability, confirmation("the capability of group "+c.Group+" at "+c.Provider+" is removed"))
}

type groupCommand struct {
	Create    groupCreate                                       `cmd:"" help:"Create a group with the capabilities of a template."`
	Templates request[api.None, api.List[action.GroupTemplate]] `cmd:"" help:"List the templates."`
}

type groupCreate struct {
	clientFlags
	api.NewGroup
}

func (c *groupCreate) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.clientFlags, std, api.CreateGroup, api.Body[api.NewGroup]{Body: c.NewGroup}, func(w io.Writer, created *api.List[api.CapabilityView]) {
		names := c.loadLabels(ctx, actorLists()...)
		table(capabilityColumns, func(k *api.CapabilityView) []string { return capabilityRow(names, k) })(w, created)
		printLine(w, "change a capability: "+c.hint("capability", "set", c.Group, "PROVIDER", "--level", "LEVEL"))
		printLine(w, "create a session in the group: "+c.hint("session", "create", "--group", c.Group))
		printLine(w, "make it the default group: "+c.hint("policy", "settings", "--default-group", c.Group))
	})
}

// sourceName returns the name of a source, followed by its ID.
func sourceName(name, id string) string {
	if name == "" || name == id {
		return id
	}
	return fmt.Sprintf("%s (%s)", name, id)
}

type gateCommand struct {
	Approve gateApprove                                                `cmd:"" aliases:"set" help:"Approve a gate for a task of a group."`
	List    request[api.ListGatesInput, api.List[action.GateApproval]] `cmd:"" help:"List gate approvals."`
	Remove  request[api.ByID, api.None]                                `cmd:"" help:"Remove a gate approval; takes effect at the next call."`
}

type gateApprove struct {
	clientFlags
	api.NewGateApproval
	Expires expiry `field:"expires_in,expires_at" placeholder:"D|TIME" help:"Expiry, such as 24h or 2026-01-02T15:04:05Z (default: 30 days)."`
}

func (c *gateApprove) Run(ctx context.Context, std *command.Streams) error {
	c.Lifetime = c.Expires.Lifetime
	return perform(ctx, &c.clientFlags, std, api.ApproveGate, api.Body[api.NewGateApproval]{Body: c.NewGateApproval}, func(w io.Writer, a *action.GateApproval) {
		names := c.loadLabels(ctx, api.ListConnectors.Operation)
		printLine(w, fmt.Sprintf("gate %[2]s is approved for group %[1]s and task %[3]s: %[4]s; %[5]s", a.Group, a.Gate, a.Task, gateActions(a, names), expiryText(a.ExpiresAt)))
		printLine(w, "revoke it with: "+c.hint("gate", "remove", a.ID))
	})
}

// gateActions lists the actions that the approval covers.
func gateActions(a *action.GateApproval, names labels) string {
	if a.Actions == nil {
		return "every action"
	}
	keys := make([]string, len(a.Actions))
	for i, key := range a.Actions {
		keys[i] = names.policyKey(key)
	}
	return strings.Join(keys, ", ")
}

const capabilityColumns = "GROUP PROVIDER LEVEL LIMITS BY ID"

func capabilityRow(names labels, k *api.CapabilityView) []string {
	return []string{k.Group, k.Name, k.Level.String(), limitText(&k.Capability), names.name(k.GrantedBy), k.Provider}
}

func gateRow(names labels, a *action.GateApproval) []string {
	state := expiryText(a.ExpiresAt)
	if a.RevokedAt != nil {
		state = "revoked " + relativeTime(a.RevokedAt)
	}
	return []string{a.Gate, a.Group, a.Task, gateActions(a, names), state, names.name(a.ApprovedBy), a.ID}
}
