package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
)

// invocationRow is an invocation as it is kept. JSON is text: what was hashed
// must come back byte for byte.
type invocationRow struct {
	bun.BaseModel `bun:"table:invocations,alias:i"`

	ID            string `bun:"id,pk"`
	Organization  string `bun:"organization_id"`
	Session       string `bun:"session_id"`
	Status        string `bun:"status"`
	Answered      bool   `bun:"answered"`
	CreatedAt     stamp  `bun:"created_at"`
	ExpiresAt     stamp  `bun:"expires_at"`
	ApprovedAt    stamp  `bun:"approved_at"`
	StartedAt     stamp  `bun:"started_at"`
	CompletedAt   stamp  `bun:"completed_at"`
	PickupUntil   stamp  `bun:"pickup_until"`
	DeliveredAt   stamp  `bun:"delivered_at"`
	DurationMS    *int64 `bun:"duration_ms"`
	PolicyVersion int64  `bun:"policy_version"`
	Source        string `bun:"source_id"`
	Action        string `bun:"action"`
	ParamsHash    string `bun:"params_hash"`
	ToolHash      string `bun:"tool_hash"`
	Revision      string `bun:"revision"`
	Risk          string `bun:"risk"`
	Mode          string `bun:"mode"`
	ModeSource    string `bun:"mode_source"`
	Executor      opt    `bun:"executor"`
	ApprovedBy    opt    `bun:"approved_by"`
	DeniedReason  opt    `bun:"denied_reason"`
	ErrorCode     opt    `bun:"error_code"`
	SourceName    string `bun:"source_name"`
	DeniedNote    opt    `bun:"denied_note"`
	ErrorMessage  opt    `bun:"error_message"`
	Decision      string `bun:"decision"`
	Params        string `bun:"params"`
	Result        opt    `bun:"result"`
	Summary       opt    `bun:"summary"`
	ResultNote    opt    `bun:"result_summary"`
	Grant         opt    `bun:"grant_id"`
	Integration   opt    `bun:"integration_id"`

	SealedParams []byte `bun:"sealed_params"`
	SealedResult []byte `bun:"sealed_result"`
}

// shown are the columns of an [action.Invocation] and its delivery; kept are
// those of an [action.Record]. Sealed values are not read where nobody needs
// them.
var (
	shown = []string{
		"id", "organization_id", "session_id", "status", "answered", "created_at", "expires_at", "approved_at", "started_at",
		"completed_at", "pickup_until", "delivered_at", "duration_ms", "policy_version", "source_id", "action",
		"params_hash", "tool_hash", "revision", "risk", "mode", "mode_source", "executor", "approved_by",
		"denied_reason", "error_code", "source_name", "denied_note", "error_message", "decision", "params", "result",
		"summary", "result_summary", "grant_id", "integration_id",
	}
	kept      = append(shown[:len(shown):len(shown)], "sealed_params", "sealed_result")
	shownList = strings.Join(shown, ", ")
	keptList  = strings.Join(kept, ", ")
)

// fields are where the columns of kept go, in their order; the first
// len(shown) of them are those of shown.
func (r *invocationRow) fields() []any {
	return []any{
		&r.ID, &r.Organization, &r.Session, &r.Status, &r.Answered, &r.CreatedAt, &r.ExpiresAt, &r.ApprovedAt, &r.StartedAt,
		&r.CompletedAt, &r.PickupUntil, &r.DeliveredAt, &r.DurationMS, &r.PolicyVersion, &r.Source, &r.Action,
		&r.ParamsHash, &r.ToolHash, &r.Revision, &r.Risk, &r.Mode, &r.ModeSource, &r.Executor, &r.ApprovedBy,
		&r.DeniedReason, &r.ErrorCode, &r.SourceName, &r.DeniedNote, &r.ErrorMessage, &r.Decision, &r.Params, &r.Result,
		&r.Summary, &r.ResultNote, &r.Grant, &r.Integration,
		&r.SealedParams, &r.SealedResult,
	}
}

// open reports whether the row still waits or runs.
func (r *invocationRow) open() bool { return !action.Status(r.Status).Terminal() }

// overdue reports whether a pending row should have expired by now.
func (r *invocationRow) overdue(now time.Time) bool {
	return r.Status == string(action.StatusPending) && !r.ExpiresAt.t.After(now)
}

// answers reports whether the row may answer a repeat of its call.
func (r *invocationRow) answers(now time.Time) bool {
	if r.open() {
		return !r.overdue(now)
	}
	ran := r.Status == string(action.StatusCompleted) || r.Status == string(action.StatusFailed)
	return ran && r.PickupUntil.t.After(now)
}

func (r *invocationRow) invocation() (action.Invocation, error) {
	inv := action.Invocation{
		ID: r.ID, Organization: r.Organization, Session: r.Session,
		Source: r.Source, SourceName: r.SourceName, Action: r.Action,
		Risk: action.Risk(r.Risk), Mode: action.Mode(r.Mode), ModeSource: action.Layer(r.ModeSource),
		Status: action.Status(r.Status), Summary: string(r.Summary), ResultNote: string(r.ResultNote),
		Grant: string(r.Grant), Integration: string(r.Integration), Executor: string(r.Executor),
		Params: json.RawMessage(r.Params), ParamsHash: r.ParamsHash, ToolHash: r.ToolHash, Revision: r.Revision,
		DeniedReason: string(r.DeniedReason), DeniedNote: string(r.DeniedNote), ApprovedBy: string(r.ApprovedBy),
		ApprovedAt: r.ApprovedAt.ptr(), CreatedAt: r.CreatedAt.t, ExpiresAt: r.ExpiresAt.ptr(),
		StartedAt: r.StartedAt.ptr(), CompletedAt: r.CompletedAt.ptr(), DurationMS: r.DurationMS,
	}
	if r.Result != "" {
		inv.Result = json.RawMessage(r.Result)
	}
	if r.ErrorCode != "" {
		inv.Error = &action.Failure{Code: string(r.ErrorCode), Message: string(r.ErrorMessage)}
	}
	if r.Decision != "[]" {
		if err := json.Unmarshal([]byte(r.Decision), &inv.Steps); err != nil {
			return inv, fmt.Errorf("reading the decision of invocation %s: %w", r.ID, err)
		}
	}
	return inv, nil
}

func (r *invocationRow) record() (action.Record, error) {
	inv, err := r.invocation()
	return action.Record{
		Invocation: inv, SealedParams: r.SealedParams, SealedResult: r.SealedResult,
		Delivered: !r.DeliveredAt.t.IsZero(), Answered: r.Answered,
	}, err
}

func invocations(rows []invocationRow) ([]action.Invocation, error) {
	var errs []error
	list := make([]action.Invocation, 0, len(rows))
	for i := range rows {
		inv, err := rows[i].invocation()
		list, errs = append(list, inv), append(errs, err)
	}
	return list, errors.Join(errs...)
}

// newRow is the row that the draft asks for. Times lose what is finer than a
// microsecond, so that the caller holds what a later reader will.
func newRow(d *action.Draft) (*invocationRow, error) {
	steps, err := json.Marshal(d.Steps)
	if err != nil {
		return nil, fmt.Errorf("writing the decision of invocation %s: %w", d.ID, err)
	}
	if d.Steps == nil {
		steps = []byte("[]")
	}
	r := &invocationRow{
		ID: d.ID, Organization: d.Organization, Session: d.Session, Status: string(d.Status),
		CreatedAt: at(d.CreatedAt), ExpiresAt: atPtr(d.ExpiresAt), StartedAt: atPtr(d.StartedAt), CompletedAt: atPtr(d.CompletedAt),
		PolicyVersion: d.PolicyVersion, Source: d.Source, SourceName: d.SourceName, Action: d.Action,
		ParamsHash: d.ParamsHash, ToolHash: d.ToolHash, Revision: d.Revision,
		Risk: string(d.Risk), Mode: string(d.Mode), ModeSource: string(d.ModeSource), Executor: opt(d.Executor),
		DeniedReason: opt(d.DeniedReason), DeniedNote: opt(d.DeniedNote),
		Decision: string(steps), Params: string(d.Params), Summary: opt(d.Summary), SealedParams: d.SealedParams,
		Integration: opt(d.Integration),
	}
	if r.Params == "" {
		r.Params = "{}"
	}
	switch d.Status {
	case action.StatusExecuting:
		r.StartedAt = r.StartedAt.or(r.CreatedAt)
	case action.StatusDenied:
		r.CompletedAt = r.CompletedAt.or(r.CreatedAt)
		r.SealedParams = nil
		if r.DeniedReason == "" {
			r.DeniedReason = action.DeniedPolicy
		}
	case action.StatusPending:
	default:
		return nil, fmt.Errorf("invocation %s cannot begin as %q", d.ID, d.Status)
	}
	return r, nil
}
