package calls

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"sallyport/action"
	"sallyport/store/database"
)

// InvocationRow is a row of the view all_calls: of open_calls while the call is
// open, of invocations from its end on. JSON is stored as text, because hashed
// values must be read back byte for byte.
type InvocationRow struct {
	bun.BaseModel `bun:"table:all_calls,alias:i"`

	ID            string              `bun:"id,pk"`
	Organization  string              `bun:"organization_id"`
	Session       string              `bun:"session_id"`
	Status        string              `bun:"status"`
	Answered      bool                `bun:"answered"`
	CreatedAt     database.Timestamp  `bun:"created_at"`
	ExpiresAt     database.Timestamp  `bun:"expires_at"`
	ApprovedAt    database.Timestamp  `bun:"approved_at"`
	StartedAt     database.Timestamp  `bun:"started_at"`
	CompletedAt   database.Timestamp  `bun:"completed_at"`
	PickupUntil   database.Timestamp  `bun:"pickup_until"`
	DeliveredAt   database.Timestamp  `bun:"delivered_at"`
	DurationMS    *int64              `bun:"duration_ms"`
	PolicyVersion int64               `bun:"policy_version"`
	Source        string              `bun:"source_id"`
	Action        string              `bun:"action"`
	ParamsHash    string              `bun:"params_hash"`
	ToolHash      string              `bun:"tool_hash"`
	Revision      string              `bun:"revision"`
	Risk          string              `bun:"risk"`
	Mode          string              `bun:"mode"`
	ModeSource    string              `bun:"mode_source"`
	Executor      database.NullString `bun:"executor"`
	ApprovedBy    database.NullString `bun:"approved_by"`
	DeniedReason  database.NullString `bun:"denied_reason"`
	ErrorCode     database.NullString `bun:"error_code"`
	SourceName    string              `bun:"source_name"`
	DeniedNote    database.NullString `bun:"denied_note"`
	ErrorFault    database.NullString `bun:"error_fault"`
	ErrorMessage  database.NullString `bun:"error_message"`
	Decision      string              `bun:"decision"`
	Params        string              `bun:"params"`
	Result        database.NullString `bun:"result"`
	Summary       database.NullString `bun:"summary"`
	ResultNote    database.NullString `bun:"result_summary"`
	Grant         database.NullString `bun:"grant_id"`
	Integration   database.NullString `bun:"integration_id"`

	Joins      int                `bun:"joins"`
	Unattended int                `bun:"unattended"`
	LeaseUntil database.Timestamp `bun:"lease_until"`

	SealedParams []byte `bun:"sealed_params"`
	SealedResult []byte `bun:"sealed_result"`
}

// InvocationTable lists the columns of invocations. open_calls has them, too, except for
// those of the end. Declare a new column in [InvocationRow] and here, add it to the view
// all_calls, and set it in NewRow or Finish and in Invocation; the statements and the
// digest follow. It must be NULL in rows that were sealed before, because the digest
// omits NULL.
var InvocationTable = InvocationColumns{
	{"id", OnBegin, func(r *InvocationRow) any { return &r.ID }},
	{"organization_id", OnBegin, func(r *InvocationRow) any { return &r.Organization }},
	{"session_id", OnBegin, func(r *InvocationRow) any { return &r.Session }},
	{"status", OnBegin | OnFinish, func(r *InvocationRow) any { return &r.Status }},
	{"answered", 0, func(r *InvocationRow) any { return &r.Answered }},
	{"created_at", OnBegin, func(r *InvocationRow) any { return &r.CreatedAt }},
	{"expires_at", OnBegin, func(r *InvocationRow) any { return &r.ExpiresAt }},
	{"approved_at", 0, func(r *InvocationRow) any { return &r.ApprovedAt }},
	{"started_at", OnBegin, func(r *InvocationRow) any { return &r.StartedAt }},
	{"completed_at", OnBegin | OnFinish | endOnly, func(r *InvocationRow) any { return &r.CompletedAt }},
	{"pickup_until", OnFinish | endOnly | mutable, func(r *InvocationRow) any { return &r.PickupUntil }},
	{"delivered_at", endOnly | mutable, func(r *InvocationRow) any { return &r.DeliveredAt }},
	{"duration_ms", OnFinish | endOnly, func(r *InvocationRow) any { return &r.DurationMS }},
	{"policy_version", OnBegin, func(r *InvocationRow) any { return &r.PolicyVersion }},
	{"source_id", OnBegin, func(r *InvocationRow) any { return &r.Source }},
	{"action", OnBegin, func(r *InvocationRow) any { return &r.Action }},
	{"params_hash", OnBegin, func(r *InvocationRow) any { return &r.ParamsHash }},
	{"tool_hash", OnBegin, func(r *InvocationRow) any { return &r.ToolHash }},
	{"revision", OnBegin, func(r *InvocationRow) any { return &r.Revision }},
	{"risk", OnBegin, func(r *InvocationRow) any { return &r.Risk }},
	{"mode", OnBegin, func(r *InvocationRow) any { return &r.Mode }},
	{"mode_source", OnBegin, func(r *InvocationRow) any { return &r.ModeSource }},
	{"executor", OnBegin, func(r *InvocationRow) any { return &r.Executor }},
	{"approved_by", 0, func(r *InvocationRow) any { return &r.ApprovedBy }},
	{"denied_reason", OnBegin | OnFinish | endOnly, func(r *InvocationRow) any { return &r.DeniedReason }},
	{"error_code", OnFinish | endOnly, func(r *InvocationRow) any { return &r.ErrorCode }},
	{"source_name", OnBegin, func(r *InvocationRow) any { return &r.SourceName }},
	{"denied_note", OnBegin | OnFinish | endOnly, func(r *InvocationRow) any { return &r.DeniedNote }},
	{"error_fault", OnFinish | endOnly, func(r *InvocationRow) any { return &r.ErrorFault }},
	{"error_message", OnFinish | endOnly, func(r *InvocationRow) any { return &r.ErrorMessage }},
	{"decision", OnBegin, func(r *InvocationRow) any { return &r.Decision }},
	{"params", OnBegin, func(r *InvocationRow) any { return &r.Params }},
	{"result", OnFinish | endOnly, func(r *InvocationRow) any { return &r.Result }},
	{"summary", OnBegin, func(r *InvocationRow) any { return &r.Summary }},
	{"result_summary", OnFinish | endOnly, func(r *InvocationRow) any { return &r.ResultNote }},
	{"grant_id", OnBegin, func(r *InvocationRow) any { return &r.Grant }},
	{"integration_id", OnBegin | OnFinish | keepsPrevious, func(r *InvocationRow) any { return &r.Integration }},
	{"joins", OnBegin | writeOnly, func(r *InvocationRow) any { return &r.Joins }},
	{"unattended", OnBegin | writeOnly, func(r *InvocationRow) any { return &r.Unattended }},
	{"waiter_seen_at", writeOnly, nil}, // begins as created_at
	{"lease_until", OnBegin | writeOnly, func(r *InvocationRow) any { return &r.LeaseUntil }},
	{"sealed_params", OnBegin | openOnly | encrypted, func(r *InvocationRow) any { return &r.SealedParams }},
	{"sealed_result", OnFinish | endOnly | encrypted, func(r *InvocationRow) any { return &r.SealedResult }},
}

// open reports whether the call is pending, approved or executing.
func (r *InvocationRow) open() bool { return !action.Status(r.Status).Terminal() }

// overdue reports whether a pending row should have expired.
func (r *InvocationRow) overdue(now time.Time) bool {
	return r.Status == string(action.StatusPending) && !r.ExpiresAt.Time.After(now)
}

// CanAnswer reports whether the row may answer a repeated call.
func (r *InvocationRow) CanAnswer(now time.Time) bool {
	if r.open() {
		return !r.overdue(now)
	}
	ran := r.Status == string(action.StatusCompleted) || r.Status == string(action.StatusFailed)
	return ran && r.PickupUntil.Time.After(now)
}

// Invocation converts the row.
func (r *InvocationRow) Invocation() (action.Invocation, error) {
	inv := action.Invocation{
		ID: r.ID, Organization: r.Organization, Session: r.Session,
		Source: r.Source, SourceName: r.SourceName, Action: r.Action,
		Risk: action.Risk(r.Risk), Mode: action.Mode(r.Mode), ModeSource: action.Layer(r.ModeSource),
		Status: action.Status(r.Status), Summary: string(r.Summary), ResultNote: string(r.ResultNote),
		Grant: string(r.Grant), Integration: string(r.Integration), Executor: string(r.Executor),
		Params: json.RawMessage(r.Params), ParamsHash: r.ParamsHash, ToolHash: r.ToolHash, Revision: r.Revision,
		DeniedReason: string(r.DeniedReason), DeniedNote: string(r.DeniedNote), ApprovedBy: string(r.ApprovedBy),
		ApprovedAt: r.ApprovedAt.Ptr(), CreatedAt: r.CreatedAt.Time, ExpiresAt: r.ExpiresAt.Ptr(),
		StartedAt: r.StartedAt.Ptr(), CompletedAt: r.CompletedAt.Ptr(), DurationMS: r.DurationMS,
	}
	if r.Result != "" {
		inv.Result = json.RawMessage(r.Result)
	}
	if r.ErrorCode != "" {
		inv.Error = &action.Failure{Code: string(r.ErrorCode), Fault: string(r.ErrorFault), Message: string(r.ErrorMessage)}
	}
	if r.Decision != "[]" {
		if err := json.Unmarshal([]byte(r.Decision), &inv.Steps); err != nil {
			return inv, fmt.Errorf("reading the decision of invocation %s: %w", r.ID, err)
		}
	}
	return inv, nil
}

func (r *InvocationRow) record() (action.Record, error) {
	inv, err := r.Invocation()
	return action.Record{
		Invocation: inv, SealedParams: r.SealedParams, SealedResult: r.SealedResult,
		Delivered: !r.DeliveredAt.Time.IsZero(), Answered: r.Answered,
	}, err
}

func invocations(rows []InvocationRow) ([]action.Invocation, error) {
	var errs []error
	list := make([]action.Invocation, 0, len(rows))
	for i := range rows {
		inv, err := rows[i].Invocation()
		list, errs = append(list, inv), append(errs, err)
	}
	return list, errors.Join(errs...)
}

// NewRow returns the row for a draft. Times are truncated to microseconds, so
// that the caller has the same values as later readers.
func NewRow(d *action.Draft) (*InvocationRow, error) {
	steps, err := json.Marshal(d.Steps)
	if err != nil {
		return nil, fmt.Errorf("writing the decision of invocation %s: %w", d.ID, err)
	}
	if d.Steps == nil {
		steps = []byte("[]")
	}
	r := &InvocationRow{
		ID: d.ID, Organization: d.Organization, Session: d.Session, Status: string(d.Status),
		CreatedAt: database.NewTimestamp(d.CreatedAt), ExpiresAt: database.TimestampFromPtr(d.ExpiresAt), StartedAt: database.TimestampFromPtr(d.StartedAt), CompletedAt: database.TimestampFromPtr(d.CompletedAt),
		PolicyVersion: d.PolicyVersion, Source: d.Source, SourceName: d.SourceName, Action: d.Action,
		ParamsHash: d.ParamsHash, ToolHash: d.ToolHash, Revision: d.Revision,
		Risk: string(d.Risk), Mode: string(d.Mode), ModeSource: string(d.ModeSource), Executor: database.NullString(d.Executor),
		DeniedReason: database.NullString(d.DeniedReason), DeniedNote: database.NullString(d.DeniedNote),
		Decision: string(steps), Params: string(d.Params), Summary: database.NullString(d.Summary), SealedParams: d.SealedParams,
		Integration: database.NullString(d.Integration), Joins: database.BoolToInt(d.Joins), Unattended: database.BoolToInt(d.Unattended), LeaseUntil: database.NewTimestamp(d.LeaseUntil),
	}
	if r.Params == "" {
		r.Params = "{}"
	}
	switch d.Status {
	case action.StatusExecuting:
		r.StartedAt = r.StartedAt.Or(r.CreatedAt)
	case action.StatusDenied:
		r.CompletedAt = r.CompletedAt.Or(r.CreatedAt)
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

// Finish updates the row with the outcome.
func (r *InvocationRow) Finish(f *action.Finish) {
	var failure action.Failure
	if f.Error != nil {
		failure = *f.Error
	}
	r.Status, r.CompletedAt, r.DurationMS, r.SealedParams = string(f.Status), database.NewTimestamp(f.Now), &f.DurationMS, nil
	r.DeniedReason, r.DeniedNote, r.Integration = database.NullString(f.DeniedReason), database.NullString(f.DeniedNote), cmp.Or(database.NullString(f.Integration), r.Integration)
	r.Result, r.ResultNote = database.NullString(f.Result), database.NullString(f.ResultNote)
	r.ErrorCode, r.ErrorFault, r.ErrorMessage = database.NullString(failure.Code), database.NullString(failure.Fault), database.NullString(failure.Message)
	if r.SealedResult, r.PickupUntil = nil, database.NewTimestamp(f.PickupUntil); !r.PickupUntil.Time.IsZero() {
		r.SealedResult = f.SealedResult
	}
}

// finished returns an executing invocation with the outcome applied.
func finished(inv action.Invocation, f *action.Finish) action.Invocation {
	inv.Status, inv.CompletedAt, inv.DurationMS = f.Status, database.NewTimestamp(f.Now).Ptr(), &f.DurationMS
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

// LoadSQL reads an invocation with its sealed columns.
var LoadSQL = "SELECT " + recordColumnList + " FROM all_calls WHERE organization_id = ?1 AND id = ?2"

// Load implements [action.Ledger].
func (st *Store) Load(ctx context.Context, organization, id string) (action.Record, error) {
	if err := st.db.Write.Flush(ctx, id); err != nil {
		return action.Record{}, err
	}
	ctx, cancel := st.db.ReadContext(ctx)
	defer cancel()
	row, err := loadRow(ctx, st.stmts.load, st.db.Read, organization, id)
	if err != nil {
		return action.Record{}, err
	}
	return row.record()
}

// Invocation returns an invocation without its sealed columns.
func (st *Store) Invocation(ctx context.Context, organization, id string) (action.Invocation, error) {
	rec, err := st.Load(ctx, organization, id)
	return rec.Invocation, err
}

// LoadInTx reads one row within the transaction.
func (st *Store) LoadInTx(ctx context.Context, tx bun.IDB, organization, id string) (*InvocationRow, error) {
	return loadRow(ctx, st.stmts.loadInTx, tx, organization, id)
}

func loadRow(ctx context.Context, load *database.Statement, db bun.IDB, organization, id string) (*InvocationRow, error) {
	r := &InvocationRow{}
	err := load.One(ctx, db, []any{organization, id}, recordColumns.scan(r))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, database.InvocationNotFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading invocation %s: %w", id, err)
	}
	return r, nil
}

// InvocationColumn is a column of the invocations table and its field in the
// row.
type InvocationColumn struct {
	Name  string
	Flags columnFlags
	Field func(*InvocationRow) any // pointer to the field; nil if the row has none
}

// columnFlags say which statements use a column. Without any, it is read, covered by
// the digest and written by statements that name it.
type columnFlags uint16

const (
	OnBegin       columnFlags = 1 << iota // written by the statements that begin a call
	OnFinish                              // written by the statements that finish a call
	keepsPrevious                         // with onFinish: NULL does not replace a value
	writeOnly                             // not read into a row
	encrypted                             // read only with a whole record, and not covered by the digest
	mutable                               // may change after the end, so the digest does not cover it
	endOnly                               // open_calls does not have it
	openOnly                              // NULL after the end
)

// Any reports whether any of the flags is set.
func (f columnFlags) Any(other columnFlags) bool { return f&other != 0 }

// The statements and the digest take their columns from these lists.
var (
	beginColumns  = InvocationTable.where(func(f columnFlags) bool { return f.Any(OnBegin) && !f.Any(endOnly) })
	finishColumns = InvocationTable.where(func(f columnFlags) bool { return f.Any(OnFinish) })
	EndedColumns  = InvocationTable.where(func(f columnFlags) bool { return f.Any(OnBegin|OnFinish) && !f.Any(openOnly) })
	DigestColumns = InvocationTable.where(func(f columnFlags) bool { return !f.Any(encrypted | mutable) })

	// Of an [action.Invocation] and its delivery, and of an [action.Record].
	publicColumns     = InvocationTable.where(func(f columnFlags) bool { return !f.Any(writeOnly | encrypted) })
	recordColumns     = InvocationTable.where(func(f columnFlags) bool { return !f.Any(writeOnly) })
	openPublicColumns = publicColumns.where(func(f columnFlags) bool { return !f.Any(endOnly) })
	openRecordColumns = recordColumns.where(func(f columnFlags) bool { return !f.Any(endOnly) })

	PublicColumnNames     = publicColumns.Names()
	OpenPublicColumnNames = openPublicColumns.Names()
	publicColumnList      = publicColumns.list()
	recordColumnList      = recordColumns.list()
)

// InvocationColumns is a list of columns of the invocations table.
type InvocationColumns []InvocationColumn

func (c InvocationColumns) where(match func(columnFlags) bool) InvocationColumns {
	return slices.DeleteFunc(slices.Clone(c), func(column InvocationColumn) bool { return !match(column.Flags) })
}

// Names returns the names of the columns.
func (c InvocationColumns) Names() []string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Name
	}
	return names
}

// list returns the names as a statement selects them.
func (c InvocationColumns) list() string { return strings.Join(c.Names(), ", ") }

// placeholders returns the placeholders of the values, numbered from 1.
func (c InvocationColumns) placeholders() string {
	marks := make([]string, len(c))
	for i := range c {
		marks[i] = "?" + strconv.Itoa(i+1)
	}
	return strings.Join(marks, ", ")
}

// placeholder returns the placeholder of a column.
func (c InvocationColumns) placeholder(name string) string {
	return "?" + strconv.Itoa(slices.Index(c.Names(), name)+1)
}

// assignments returns the placeholders by column.
func (c InvocationColumns) assignments() map[string]string {
	set := make(map[string]string, len(c))
	for i := range c {
		mark := "?" + strconv.Itoa(i+1)
		if c[i].Flags.Any(keepsPrevious) {
			mark = "coalesce(" + mark + ", " + c[i].Name + ")"
		}
		set[c[i].Name] = mark
	}
	return set
}

// scan returns the scan targets in the row.
func (c InvocationColumns) scan(r *InvocationRow) []any {
	dest := make([]any, len(c))
	for i := range c {
		dest[i] = c[i].Field(r)
	}
	return dest
}

// Values returns the values of the row in the order of the placeholders.
func (c InvocationColumns) Values(r *InvocationRow) []any {
	values := make([]any, len(c))
	for i := range c {
		values[i] = columnValue(c[i].Field(r))
	}
	return values
}

// columnValue dereferences a field. It uses a type switch instead of reflection
// because it runs for every call.
func columnValue(field any) any {
	switch p := field.(type) {
	case *string:
		return *p
	case *database.NullString:
		return *p
	case *database.Timestamp:
		return *p
	case *[]byte:
		return *p
	case *int:
		return *p
	case *int64:
		return *p
	case **int64:
		if *p == nil {
			return nil
		}
		return **p
	}
	panic(fmt.Sprintf("no statement writes a %T", field))
}
