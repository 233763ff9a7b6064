package dashboard

import (
	"context"
	"time"

	"sallyport/action"
)

// Everything here that changes policy is told who did it, checks what it is
// given (ErrInvalid with the field) and changes nothing when it refuses.

// Overrides keeps the modes that people set.
type Overrides interface {
	SetOverride(ctx context.Context, o action.Override) error
	// UnsetOverride returns ErrNotFound when there is none.
	UnsetOverride(ctx context.Context, organization, automation string, key action.Key, by string) error
	// Overrides returns all of an organization's, with the policy version.
	Overrides(ctx context.Context, organization string) ([]action.Override, int64, error)
}

// Capabilities keeps the ceilings of groups.
type Capabilities interface {
	// PutCapability writes the one of its group and provider, and returns it
	// as it is stored.
	PutCapability(ctx context.Context, c action.Capability) (action.Capability, error)
	// DeleteCapability returns ErrNotFound when there is none.
	DeleteCapability(ctx context.Context, organization, group, provider, by string) error
	// ListCapabilities returns those of the group; of all groups when it is
	// empty.
	ListCapabilities(ctx context.Context, organization, group string) ([]action.Capability, error)
}

// Gates keeps the approvals of gates.
type Gates interface {
	// ApproveGate fills in id and time.
	ApproveGate(ctx context.Context, a action.GateApproval) (action.GateApproval, error)
	// RevokeGate is done again without harm; ErrNotFound.
	RevokeGate(ctx context.Context, organization, id, by string) error
	// ListGates returns those of the group and task, newest first; an empty
	// one is any.
	ListGates(ctx context.Context, organization, group, task string) ([]action.GateApproval, error)
}

// Quotas keeps the rates of actions.
type Quotas interface {
	SetQuota(ctx context.Context, q action.Quota) error
	// UnsetQuota returns ErrNotFound when there is none.
	UnsetQuota(ctx context.Context, organization string, key action.Key, per action.QuotaScope, by string) error
	ListQuotas(ctx context.Context, organization string) ([]action.Quota, error)
}

// Settings keeps an organization's choices.
type Settings interface {
	Settings(ctx context.Context, organization string) (action.Settings, error)
	SetSettings(ctx context.Context, organization string, s action.Settings, by string) error
}

// Reviews keeps what people have seen of connectors' tools.
type Reviews interface {
	ListReviews(ctx context.Context, organization, connector string) ([]action.ToolReview, error)
	// ReviewTools takes the tools as reviewed that still have the hashes that
	// were seen: all of them or none (ErrConflict, code "tool_changed"). Nil:
	// every tool as it is now.
	ReviewTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, by string) ([]action.ToolReview, error)
	// OnboardTools does that, and in the same transaction sets modes of the
	// connector's actions for the organization, by their names.
	OnboardTools(ctx context.Context, organization, connector string, seen map[string]action.ToolHashes, modes map[string]action.Mode, by string) ([]action.ToolReview, error)
}

// History reads the changes of policy.
type History interface {
	PolicyEvents(ctx context.Context, f action.PolicyEventFilter) (action.Page[action.PolicyEvent], error)
}

// Grants keeps reusable approvals.
type Grants interface {
	// CreateGrant fills in id and time. Errors: ErrInvalid with the field; of
	// a session's, ErrForbidden (code "self_approval") when the person made
	// the session and may not decide for it.
	CreateGrant(ctx context.Context, g action.Grant) (action.Grant, error)
	// RevokeGrant is done again without harm; ErrNotFound.
	RevokeGrant(ctx context.Context, organization, id, by string) (action.Grant, error)
	Grant(ctx context.Context, organization, id string) (action.Grant, error)
	ListGrants(ctx context.Context, f action.GrantFilter) (action.Page[action.Grant], error)
}

// GrantRequests keeps agents' wishes for grants.
type GrantRequests interface {
	GrantRequest(ctx context.Context, organization, id string) (action.GrantRequest, error)
	ListGrantRequests(ctx context.Context, f action.RequestFilter) (action.Page[action.GrantRequest], error)
	// ApproveRequest makes the grant and decides the request, both or neither.
	// Errors: ErrNotFound; ErrInvalid when the terms are wider than asked;
	// ErrGone when it expired; ErrConflict when it was decided; ErrForbidden
	// (code "self_approval").
	ApproveRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, action.Grant, error)
	DenyRequest(ctx context.Context, v action.RequestVerdict) (action.GrantRequest, error)
}

// Audit reads the evidence.
type Audit interface {
	AuditHeads(ctx context.Context, organization string) ([]action.AuditHead, error)
	// Evidence returns what proves an invocation; ErrNotFound.
	Evidence(ctx context.Context, organization, id string) (action.Evidence, error)
	// VerifyAudit looks through an organization's chain; known is a head that
	// somebody kept, or nil.
	VerifyAudit(ctx context.Context, organization string, known *action.AuditHead) (action.AuditReport, error)
	// Export and ExportPolicy hand over row after row, oldest first, in
	// constant memory, until yield returns an error, which they return. The
	// filter's Limit and Cursor are ignored.
	Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error
	ExportPolicy(ctx context.Context, organization string, from, to time.Time, yield func(action.PolicyEvent) error) error
}
