package dashboard

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

// Gate is the part of [gate.Gate] that the API uses.
type Gate interface {
	// For sessions.
	Call(ctx context.Context, c *action.Call) (*action.Outcome, error)
	Wait(ctx context.Context, s *action.Session, id string, w action.Waiting) (*action.Outcome, error)
	Delivered(o *action.Outcome)
	Available(ctx context.Context, s *action.Session) (list []action.Available, version string, err error)
	Denied(ctx context.Context, s *action.Session) ([]action.DeniedTools, error)
	Explain(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Explained, error)
	// For approvers.
	Approve(ctx context.Context, v action.Verdict) (action.Invocation, error)
	Deny(ctx context.Context, v action.Verdict) (action.Invocation, error)
	Params(ctx context.Context, organization, id string) (raw []byte, full bool, err error)
	Terms(ctx context.Context, organization string, t *action.Terms, unreviewed bool) (toolHash string, err error)
	// CountRefusal records that something a session tried was refused before it
	// reached the Gate.
	CountRefusal(s *action.Session, kind action.RefusalKind, source, name string)
}

// People stores users, their API keys and their browsers' logins.
type People interface {
	// Users. The parameter by is the user who makes the change.
	CreateUser(ctx context.Context, u action.User, by string) error
	User(ctx context.Context, organization, id string) (action.User, error)
	ListUsers(ctx context.Context, organization string) ([]action.User, error)
	// SetUserRole and DeleteUser refuse the last owner with ErrConflict, in the
	// transaction that changes the row. SetUserRole also refuses users whose
	// role an identity provider sets. DeleteUser ends the user's logins and
	// blocks a user of an identity provider from signing in again.
	SetUserRole(ctx context.Context, organization, id string, role action.Role, by string) error
	DeleteUser(ctx context.Context, organization, id, by string) error

	// AdmitUser creates or updates the user of an external identity.
	// ErrForbidden if the user was removed, ErrNotFound without the
	// organization. ErrConflict if the last owner would lose that role: then
	// the user's access ends.
	AdmitUser(ctx context.Context, in action.Identity) (action.User, error)
	// CutOffUser ends the logins, links and API keys of an external user
	// without a role. The ID is empty if there was nothing to end.
	CutOffUser(ctx context.Context, organization, issuer, subject string) (id string, err error)
	// RemovedUsers lists the external users who are blocked. ReadmitUser
	// unblocks one: ErrNotFound, or ErrForbidden if only an owner may.
	RemovedUsers(ctx context.Context, organization string) ([]action.RemovedUser, error)
	ReadmitUser(ctx context.Context, organization, id string, as action.Role, by string) error

	// API keys, stored as hashes.
	CreateAPIKey(ctx context.Context, k action.APIKey, hash string) error
	// APIKey returns the row and its hash, or ErrNotFound.
	APIKey(ctx context.Context, id string) (k action.APIKey, hash string, err error)
	ListAPIKeys(ctx context.Context, organization string) ([]action.APIKey, error)
	RevokeAPIKey(ctx context.Context, organization, id string, now time.Time) error
	// TouchAPIKey records that a key is in use, at most once a minute.
	TouchAPIKey(ctx context.Context, id string, used time.Time) error

	// Logins of browsers, and the links that start them.

	// CreateLoginLink returns ErrConflict if the code was used before.
	CreateLoginLink(ctx context.Context, l action.LoginLink) error
	// RedeemLoginLink consumes the link of the code hash and creates the login,
	// with the cookie's hash and the link's key hash, in one transaction. The
	// login takes its organization and user from the link. ErrUnauthenticated
	// if there is no such link, it was used, or it expired.
	RedeemLoginLink(ctx context.Context, codeHash, cookieHash string, l action.Login, now time.Time) (action.Login, error)
	// Login returns the valid login of a cookie hash, and the hash of its page
	// key. ErrNotFound if there is none, or it is expired or idle.
	Login(ctx context.Context, cookieHash string) (l action.Login, keyHash string, err error)
	TouchLogin(ctx context.Context, id string, seen time.Time) error
	DeleteLogin(ctx context.Context, id string) error
	// ListLogins returns a user's valid logins, newest first.
	ListLogins(ctx context.Context, organization, user string) ([]action.Login, error)
	// EndLogin ends one login; ErrNotFound. EndLogins ends all logins of a user
	// and deletes unused links.
	EndLogin(ctx context.Context, organization, user, id string) error
	EndLogins(ctx context.Context, organization, user string, why action.LoginEnd) (n int, err error)
	// LoginEnd returns why the login of a cookie hash ended. It is empty if the
	// login is valid or unknown.
	LoginEnd(ctx context.Context, cookieHash string) (action.LoginEnd, error)
}

// Models stores the settings of models, and what sessions used.
type Models interface {
	ModelSettings(ctx context.Context, organization string) (action.ModelSettings, error)
	// ChangeModelSettings applies a change, which may be called again, and returns
	// the settings. Errors: those of change, ErrInvalid, and ErrNotFound without a
	// secret of a provider.
	ChangeModelSettings(ctx context.Context, organization, by string, change func(*action.ModelSettings) error) (action.ModelSettings, error)
	ModelUsage(ctx context.Context, f action.ModelUsageFilter) ([]action.ModelUsage, error)
	ListModelRequests(ctx context.Context, f action.ModelRequestFilter) (action.Page[action.ModelRequest], error)
}

// Sessions stores agents' sessions, and the requests and uploads that belong to them.
type Sessions interface {
	// MakeSession creates a session and returns the stored row, or the session
	// that was created with the same idempotency key. ErrConflict if that one
	// had another request.
	MakeSession(ctx context.Context, s action.Session, once action.Idempotency) (made action.Session, existed bool, err error)
	// SessionOnce returns the session of an idempotency key, if there is one.
	// ErrConflict if it was created with another request.
	SessionOnce(ctx context.Context, organization string, once action.Idempotency) (s action.Session, found bool, err error)
	// Session finds a session by its ID alone, which is all that a token
	// proves. ErrNotFound.
	Session(ctx context.Context, id string) (action.Session, error)
	ListSessions(ctx context.Context, f action.SessionFilter) (action.Page[action.Session], error)
	// SessionStates returns the current state of sessions, by ID.
	SessionStates(ctx context.Context, organization string, ids []string) (map[string]action.SessionState, error)
	// RevokeSession ends a session and returns the pending invocations that it
	// withdrew. It is idempotent. ErrNotFound.
	RevokeSession(ctx context.Context, organization, id string) (withdrew []action.Invocation, err error)

	// The status of sessions. Errors: ErrNotFound, and ErrConflict, which names
	// the current status, for a transition that is not allowed.
	PauseSession(ctx context.Context, organization, id string) (action.Session, error)
	ResumeSession(ctx context.Context, organization, id string) (action.Session, error)
	// EndSession stops or fails a session and returns the pending invocations
	// that it withdrew.
	EndSession(ctx context.Context, organization, id string, as action.SessionStatus, note string) (s action.Session, withdrew []action.Invocation, err error)
	// ChangeSession updates the fields that are not nil.
	ChangeSession(ctx context.Context, organization, id string, title *string, idle *time.Duration) (action.Session, error)

	// Uploaded evidence, without the bytes.

	// ReserveFile reserves space for a file. It returns true if the file is
	// stored already.
	ReserveFile(ctx context.Context, ref action.UploadRef, f action.UploadFile) (there bool, err error)
	// FileStored records that the bytes of a file are stored.
	FileStored(ctx context.Context, ref action.UploadRef, name string) error
	// Upload returns an upload with its files, or ErrNotFound.
	Upload(ctx context.Context, ref action.UploadRef) (action.Upload, error)
	ListUploads(ctx context.Context, organization, session string, limit int, cursor string) (action.Page[action.Upload], error)

	// Environment variables that agents request.

	// EnvRequest returns ErrNotFound if the organization has no such request.
	EnvRequest(ctx context.Context, organization, id string) (action.EnvRequest, error)
	ListEnvRequests(ctx context.Context, f action.EnvFilter) (action.Page[action.EnvRequest], error)
	// DecideEnv returns ErrGone if the request expired, and ErrConflict if it
	// was decided.
	DecideEnv(ctx context.Context, v action.EnvVerdict) (action.EnvRequest, error)
	// TakeEnv hands out the answered variables once. The same key gets them
	// again for a few minutes.
	TakeEnv(ctx context.Context, organization, session, key string) ([]action.SealedEnv, error)
}

// Workspaces stores what agents work on. A method that changes something takes the
// user who does it, and returns ErrInvalid with the field for invalid input.
type Workspaces interface {
	CreateWorkspace(ctx context.Context, w action.Workspace) (action.Workspace, error)
	// Workspace returns a workspace by its ID or name; ErrNotFound.
	Workspace(ctx context.Context, organization, ref string) (action.Workspace, error)
	ListWorkspaces(ctx context.Context, organization string) ([]action.Workspace, error)
	UpdateWorkspace(ctx context.Context, w action.Workspace, by string) (action.Workspace, error)
	// DeleteWorkspace returns ErrConflict while something uses it.
	DeleteWorkspace(ctx context.Context, organization, id, by string) error

	// AddRepository returns the repository with its host and path if there is one.
	AddRepository(ctx context.Context, r action.Repository, by string) (action.Repository, error)
	Repository(ctx context.Context, organization, id string) (action.Repository, error)
	ListRepositories(ctx context.Context, f action.RepositoryFilter) (action.Page[action.Repository], error)
	// SyncRepositories stores the repositories of an integration, and returns how
	// many are new.
	SyncRepositories(ctx context.Context, organization, integration string, list []action.Repository, by string) (added int, err error)
	// CheckedRepository records the result of reading a repository.
	CheckedRepository(ctx context.Context, organization, id, branch, fault string, at time.Time) (action.Repository, error)
	DeleteRepository(ctx context.Context, organization, id, by string) error

	// Variables of a workspace; an empty workspace is the organization.
	PutVariables(ctx context.Context, list ...action.SealedVariable) ([]action.Variable, error)
	ListVariables(ctx context.Context, organization, workspace string) ([]action.Variable, error)
	SealedVariables(ctx context.Context, organization, workspace string) ([]action.SealedVariable, error)
	DeleteVariable(ctx context.Context, organization, workspace, name, by string) error
	// GaveVariables records that a session got variables.
	GaveVariables(ctx context.Context, s *action.Session, names []string) error
}

// Repositories reads repositories at their hosts.
type Repositories interface {
	// ReadRepository reads a repository and returns its default branch. An error is
	// for people.
	ReadRepository(ctx context.Context, r *action.Repository) (branch string, err error)
	// RepositoriesOf lists what an integration can read. ErrInvalid if its service has
	// no such list.
	RepositoriesOf(ctx context.Context, in action.Integration) ([]action.Repository, error)
	// RepositoryHost returns the host of an integration's repositories; empty: it has
	// none.
	RepositoryHost(in *action.Integration) string
}

// Calls reads invocations and their evidence. IDs that the organization does
// not have are omitted.
type Calls interface {
	// Invocation returns ErrNotFound if the organization has no such
	// invocation.
	Invocation(ctx context.Context, organization, id string) (action.Invocation, error)
	ListInvocations(ctx context.Context, f action.InvocationFilter) (action.Page[action.Invocation], error)

	// Related data for a page of calls, loaded in one query.
	SessionsOf(ctx context.Context, organization string, ids []string) (map[string]action.Session, error)
	// Waiters returns the state of the callers of the pending invocations.
	Waiters(ctx context.Context, organization string, ids []string) (map[string]action.CallerState, error)
	// CountWaiting counts what needs a person.
	CountWaiting(ctx context.Context, organization string) (action.InboxCounts, error)

	// Statistics bounds the rows that it reads, and reports how far it got.
	Statistics(ctx context.Context, organization string, p action.Period) (action.Statistics, error)

	// Events returns the events of an invocation, oldest first.
	Events(ctx context.Context, organization, invocation string) ([]action.Event, error)
	// AppendEvent returns ErrNotFound without the invocation.
	AppendEvent(ctx context.Context, e action.Event) error

	// The evidence.

	AuditHeads(ctx context.Context, organization string) ([]action.AuditHead, error)
	// Evidence returns the proof of an invocation, or ErrNotFound.
	Evidence(ctx context.Context, organization, id string) (action.Evidence, error)
	// Export calls yield for each row, oldest first, in constant memory. It
	// stops at yield's first error and returns it. It ignores the filter's
	// Limit and Cursor.
	Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error
	// Refusals lists counts of calls that were refused without an invocation, and
	// ExportRefusals streams them in the way of Export.
	Refusals(ctx context.Context, f action.RefusalFilter) (action.Page[action.RefusalCount], error)
	ExportRefusals(ctx context.Context, f action.RefusalFilter, yield func(action.RefusalCount) error) error
}

// Files stores the bytes of evidence.
type Files interface {
	// Put stores exactly size bytes with that SHA-256, or nothing.
	Put(ctx context.Context, key string, r io.Reader, size int64, sum string) error
	// Get returns the content, which the caller must close, and its size.
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}

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
	// CreateGroup creates the capabilities of a new group, all or none.
	// ErrConflict if the group has a capability.
	CreateGroup(ctx context.Context, organization, group string, list []action.Capability) ([]action.Capability, error)
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

	// SetModes sets the modes of a connector's tools and returns how many changed.
	// Errors: ErrNotFound; ErrInvalid with the field.
	SetModes(ctx context.Context, m action.ModeChange) (changed int, err error)

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
