package dashboard

import (
	"context"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Policy stores what decides calls, its history, and how approvers are
// notified. A method that changes something takes the user who does it,
// validates its input (ErrInvalid with the field) and changes nothing if it
// returns an error.
type Policy interface {
	// Modes.
	SetOverride(ctx context.Context, o action.Override) error
	// UnsetOverride returns ErrNotFound if there is none.
	UnsetOverride(ctx context.Context, organization, automation string, key action.Key, by string) error
	// Overrides returns all overrides of an organization, with the policy
	// version.
	Overrides(ctx context.Context, organization string) ([]action.Override, int64, error)

	// Capabilities of groups.

	// PutCapability replaces the capability of its group and provider, and
	// returns the stored row.
	PutCapability(ctx context.Context, c action.Capability) (action.Capability, error)
	// DeleteCapability returns ErrNotFound if there is none.
	DeleteCapability(ctx context.Context, organization, group, provider, by string) error
	// ListCapabilities returns the capabilities of the group, or of all groups
	// if it is empty.
	ListCapabilities(ctx context.Context, organization, group string) ([]action.Capability, error)

	// Approvals of gates.

	// ApproveGate sets the ID and the time.
	ApproveGate(ctx context.Context, a action.GateApproval) (action.GateApproval, error)
	// RevokeGate is idempotent. It returns ErrNotFound for an unknown ID.
	RevokeGate(ctx context.Context, organization, id, by string) error
	// ListGates returns the approvals of the group and task, newest first. An
	// empty group or task matches any.
	ListGates(ctx context.Context, organization, group, task string) ([]action.GateApproval, error)

	// Quotas of actions.
	SetQuota(ctx context.Context, q action.Quota) error
	// UnsetQuota returns ErrNotFound if there is none.
	UnsetQuota(ctx context.Context, organization string, key action.Key, per action.QuotaScope, by string) error
	ListQuotas(ctx context.Context, organization string) ([]action.Quota, error)

	// The organization's settings.
	Settings(ctx context.Context, organization string) (action.Settings, error)
	SetSettings(ctx context.Context, organization string, s action.Settings, by string) error

	// Reviews of connectors' tools.
	ListReviews(ctx context.Context, organization, connector string) ([]action.ToolReview, error)
	// ReviewTools marks the tools as reviewed if they still have the hashes in
	// seen: all of them, or none (ErrConflict, code "tool_changed"). A nil map
	// means every tool in its current state.
	ReviewTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, by string) ([]action.ToolReview, error)
	// OnboardTools does the same and, in the same transaction, sets the
	// organization's modes for the connector's actions, by their names.
	OnboardTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, modes map[string]action.Mode, by string) ([]action.ToolReview, error)

	// Reusable approvals.

	// CreateGrant sets the ID and the time. Errors: ErrInvalid with the field;
	// for a session grant, ErrForbidden (code "self_approval") if the person
	// created the session and may not decide for it.
	CreateGrant(ctx context.Context, g action.Grant) (action.Grant, error)
	// RevokeGrant is idempotent. It returns ErrNotFound for an unknown ID.
	RevokeGrant(ctx context.Context, organization, id, by string) (action.Grant, error)
	Grant(ctx context.Context, organization, id string) (action.Grant, error)
	ListGrants(ctx context.Context, f action.GrantFilter) (action.Page[action.Grant], error)

	// Grant requests of agents.
	GrantRequest(ctx context.Context, organization, id string) (action.GrantRequest, error)
	ListGrantRequests(ctx context.Context, f action.RequestFilter) (action.Page[action.GrantRequest], error)
	// ApproveRequest creates the grant and approves the request in one
	// transaction. Errors: ErrNotFound; ErrInvalid if the terms are wider than
	// requested; ErrGone if it expired; ErrConflict if it was decided;
	// ErrForbidden (code "self_approval").
	ApproveRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, action.Grant, error)
	DenyRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, error)

	PolicyEvents(ctx context.Context, f action.PolicyEventFilter) (action.Page[action.PolicyEvent], error)
	// ExportPolicy streams the changes in the way of [Calls.Export].
	ExportPolicy(ctx context.Context, organization string, from, to time.Time, yield func(action.PolicyEvent) error) error

	// Notification channels for approvers. The secrets of webhooks have the owner
	// [NotifySecrets].

	// NotifyChannel returns ErrNotFound if there is none of the kind.
	NotifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error)
	NotifyChannels(ctx context.Context, organization string) ([]action.NotifyChannel, error)
	// SetNotifyChannel replaces the settings of a channel on behalf of
	// c.UpdatedBy, and adds the secret if there is one.
	SetNotifyChannel(ctx context.Context, c action.NotifyChannel, secret *event.Secret) (action.NotifyChannel, error)
	// DeleteNotifyChannel also deletes the channel's notifications. ErrNotFound
	// if there is none.
	DeleteNotifyChannel(ctx context.Context, organization string, kind action.NotifyKind, by string) error
	// Notifications returns the newest notifications, sent and due.
	Notifications(ctx context.Context, organization string, limit int) ([]action.Notification, error)
}

// NotifySecrets is the owner of the secrets that sign webhooks of held calls.
const NotifySecrets = "notify"
