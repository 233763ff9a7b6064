package dashboard

import (
	"context"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Policy keeps what decides calls, its history, and where approvers are notified.
// Whatever changes it takes who
// did it, checks its input (ErrInvalid with the field) and changes nothing when it
// refuses.
type Policy interface {
	// Modes.
	SetOverride(ctx context.Context, o action.Override) error
	// UnsetOverride returns ErrNotFound when there is none.
	UnsetOverride(ctx context.Context, organization, automation string, key action.Key, by string) error
	// Overrides returns all of an organization's, with the policy version.
	Overrides(ctx context.Context, organization string) ([]action.Override, int64, error)

	// Ceilings of groups.

	// PutCapability writes the one of its group and provider, and returns it
	// as it is stored.
	PutCapability(ctx context.Context, c action.Capability) (action.Capability, error)
	// DeleteCapability returns ErrNotFound when there is none.
	DeleteCapability(ctx context.Context, organization, group, provider, by string) error
	// ListCapabilities returns those of the group; of all groups when it is
	// empty.
	ListCapabilities(ctx context.Context, organization, group string) ([]action.Capability, error)

	// Approvals of gates.

	// ApproveGate fills in id and time.
	ApproveGate(ctx context.Context, a action.GateApproval) (action.GateApproval, error)
	// RevokeGate is done again without harm; ErrNotFound.
	RevokeGate(ctx context.Context, organization, id, by string) error
	// ListGates returns those of the group and task, newest first; an empty
	// one is any.
	ListGates(ctx context.Context, organization, group, task string) ([]action.GateApproval, error)

	// Rates of actions.
	SetQuota(ctx context.Context, q action.Quota) error
	// UnsetQuota returns ErrNotFound when there is none.
	UnsetQuota(ctx context.Context, organization string, key action.Key, per action.QuotaScope, by string) error
	ListQuotas(ctx context.Context, organization string) ([]action.Quota, error)

	// The organization's settings.
	Settings(ctx context.Context, organization string) (action.Settings, error)
	SetSettings(ctx context.Context, organization string, s action.Settings, by string) error

	// Reviews of connectors' tools.
	ListReviews(ctx context.Context, organization, connector string) ([]action.ToolReview, error)
	// ReviewTools takes the tools as reviewed that still have the hashes that
	// were seen: all of them or none (ErrConflict, code "tool_changed"). Nil:
	// every tool as it is now.
	ReviewTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, by string) ([]action.ToolReview, error)
	// OnboardTools does that, and in the same transaction sets modes of the
	// connector's actions for the organization, by their names.
	OnboardTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, modes map[string]action.Mode, by string) ([]action.ToolReview, error)

	// Reusable approvals.

	// CreateGrant fills in id and time. Errors: ErrInvalid with the field; of
	// a session's, ErrForbidden (code "self_approval") when the person made
	// the session and may not decide for it.
	CreateGrant(ctx context.Context, g action.Grant) (action.Grant, error)
	// RevokeGrant is done again without harm; ErrNotFound.
	RevokeGrant(ctx context.Context, organization, id, by string) (action.Grant, error)
	Grant(ctx context.Context, organization, id string) (action.Grant, error)
	ListGrants(ctx context.Context, f action.GrantFilter) (action.Page[action.Grant], error)

	// Agents' requests for them.
	GrantRequest(ctx context.Context, organization, id string) (action.GrantRequest, error)
	ListGrantRequests(ctx context.Context, f action.RequestFilter) (action.Page[action.GrantRequest], error)
	// ApproveRequest makes the grant and decides the request, both or neither.
	// Errors: ErrNotFound; ErrInvalid when the terms are wider than asked;
	// ErrGone when it expired; ErrConflict when it was decided; ErrForbidden
	// (code "self_approval").
	ApproveRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, action.Grant, error)
	DenyRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, error)

	PolicyEvents(ctx context.Context, f action.PolicyEventFilter) (action.Page[action.PolicyEvent], error)
	// ExportPolicy hands over change after change as [Calls] does calls.
	ExportPolicy(ctx context.Context, organization string, from, to time.Time, yield func(action.PolicyEvent) error) error

	// Where approvers hear of held calls elsewhere. The secrets of webhooks are
	// those of the owner [NotifySecrets].

	// NotifyChannel returns ErrNotFound when there is none of the kind.
	NotifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error)
	NotifyChannels(ctx context.Context, organization string) ([]action.NotifyChannel, error)
	// SetNotifyChannel replaces what people choose of a channel, in the name of
	// c.UpdatedBy, and adds the secret when there is one.
	SetNotifyChannel(ctx context.Context, c action.NotifyChannel, secret *event.Secret) (action.NotifyChannel, error)
	// DeleteNotifyChannel also forgets what was told; ErrNotFound.
	DeleteNotifyChannel(ctx context.Context, organization string, kind action.NotifyKind, by string) error
	// Notifications returns the newest of what was told, and of what is to be.
	Notifications(ctx context.Context, organization string, limit int) ([]action.Notification, error)
}

// NotifySecrets is whose the secrets are that sign webhooks of held calls.
const NotifySecrets = "notify"
