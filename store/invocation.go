package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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

	Joins      int   `bun:"joins"`
	Unattended int   `bun:"unattended"`
	LeaseUntil stamp `bun:"lease_until"`

	SealedParams []byte `bun:"sealed_params"`
	SealedResult []byte `bun:"sealed_result"`
}

// invocationTable are the columns of [invocationRow]. A new column is declared there
// and here, and set in newRow or finish and in invocation; the statements and the digest
// follow. It must be NULL in rows that were sealed before, because the digest leaves
// NULL out.
var invocationTable = invocationColumns{
	{"id", onBegin, func(r *invocationRow) any { return &r.ID }},
	{"organization_id", onBegin, func(r *invocationRow) any { return &r.Organization }},
	{"session_id", onBegin, func(r *invocationRow) any { return &r.Session }},
	{"status", onBegin | onFinish, func(r *invocationRow) any { return &r.Status }},
	{"answered", 0, func(r *invocationRow) any { return &r.Answered }},
	{"created_at", onBegin, func(r *invocationRow) any { return &r.CreatedAt }},
	{"expires_at", onBegin, func(r *invocationRow) any { return &r.ExpiresAt }},
	{"approved_at", 0, func(r *invocationRow) any { return &r.ApprovedAt }},
	{"started_at", onBegin, func(r *invocationRow) any { return &r.StartedAt }},
	{"completed_at", onBegin | onFinish, func(r *invocationRow) any { return &r.CompletedAt }},
	{"pickup_until", onFinish | mutable, func(r *invocationRow) any { return &r.PickupUntil }},
	{"delivered_at", mutable, func(r *invocationRow) any { return &r.DeliveredAt }},
	{"duration_ms", onFinish, func(r *invocationRow) any { return &r.DurationMS }},
	{"policy_version", onBegin, func(r *invocationRow) any { return &r.PolicyVersion }},
	{"source_id", onBegin, func(r *invocationRow) any { return &r.Source }},
	{"action", onBegin, func(r *invocationRow) any { return &r.Action }},
	{"params_hash", onBegin, func(r *invocationRow) any { return &r.ParamsHash }},
	{"tool_hash", onBegin, func(r *invocationRow) any { return &r.ToolHash }},
	{"revision", onBegin, func(r *invocationRow) any { return &r.Revision }},
	{"risk", onBegin, func(r *invocationRow) any { return &r.Risk }},
	{"mode", onBegin, func(r *invocationRow) any { return &r.Mode }},
	{"mode_source", onBegin, func(r *invocationRow) any { return &r.ModeSource }},
	{"executor", onBegin, func(r *invocationRow) any { return &r.Executor }},
	{"approved_by", 0, func(r *invocationRow) any { return &r.ApprovedBy }},
	{"denied_reason", onBegin | onFinish, func(r *invocationRow) any { return &r.DeniedReason }},
	{"error_code", onFinish, func(r *invocationRow) any { return &r.ErrorCode }},
	{"source_name", onBegin, func(r *invocationRow) any { return &r.SourceName }},
	{"denied_note", onBegin | onFinish, func(r *invocationRow) any { return &r.DeniedNote }},
	{"error_message", onFinish, func(r *invocationRow) any { return &r.ErrorMessage }},
	{"decision", onBegin, func(r *invocationRow) any { return &r.Decision }},
	{"params", onBegin, func(r *invocationRow) any { return &r.Params }},
	{"result", onFinish, func(r *invocationRow) any { return &r.Result }},
	{"summary", onBegin, func(r *invocationRow) any { return &r.Summary }},
	{"result_summary", onFinish, func(r *invocationRow) any { return &r.ResultNote }},
	{"grant_id", onBegin, func(r *invocationRow) any { return &r.Grant }},
	{"integration_id", onBegin | onFinish | keepsOld, func(r *invocationRow) any { return &r.Integration }},
	{"joins", onBegin | writeOnly, func(r *invocationRow) any { return &r.Joins }},
	{"unattended", onBegin | writeOnly, func(r *invocationRow) any { return &r.Unattended }},
	{"waiter_seen_at", writeOnly, nil}, // begins as created_at
	{"lease_until", onBegin | writeOnly, func(r *invocationRow) any { return &r.LeaseUntil }},
	{"sealed_params", onBegin | encrypted, func(r *invocationRow) any { return &r.SealedParams }},
	{"sealed_result", onFinish | encrypted, func(r *invocationRow) any { return &r.SealedResult }},
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
		Integration: opt(d.Integration), Joins: flag(d.Joins), Unattended: flag(d.Unattended), LeaseUntil: at(d.LeaseUntil),
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

// finish changes the row as f ends it.
func (r *invocationRow) finish(f *action.Finish) {
	var failure action.Failure
	if f.Error != nil {
		failure = *f.Error
	}
	r.Status, r.CompletedAt, r.DurationMS, r.SealedParams = string(f.Status), at(f.Now), &f.DurationMS, nil
	r.DeniedReason, r.DeniedNote, r.Integration = opt(f.DeniedReason), opt(f.DeniedNote), cmp.Or(opt(f.Integration), r.Integration)
	r.Result, r.ResultNote, r.ErrorCode, r.ErrorMessage = opt(f.Result), opt(f.ResultNote), opt(failure.Code), opt(failure.Message)
	r.SealedResult, r.PickupUntil = pickedUp(f)
}

// pickedUp is what is kept for whoever comes back for the outcome, and until when.
func pickedUp(f *action.Finish) (sealed []byte, until stamp) {
	if until = at(f.PickupUntil); until.t.IsZero() {
		return nil, until // nobody may pick it up
	}
	return f.SealedResult, until
}

// finished is an executing invocation as f leaves it.
func finished(inv action.Invocation, f *action.Finish) action.Invocation {
	inv.Status, inv.CompletedAt, inv.DurationMS = f.Status, at(f.Now).ptr(), &f.DurationMS
	inv.DeniedReason, inv.DeniedNote, inv.Integration = f.DeniedReason, f.DeniedNote, cmp.Or(f.Integration, inv.Integration)
	inv.Result, inv.ResultNote = nil, f.ResultNote
	if len(f.Result) > 0 {
		inv.Result = f.Result
	}
	if f.Error != nil {
		failure := *f.Error
		inv.Error = &failure
	}
	return inv
}
