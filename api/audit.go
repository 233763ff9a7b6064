package api

import (
	"sallyport/action"
)

// Routes.
var (
	ListAuditHeads = Route[None, List[action.AuditHead]]{Operation{
		Method: "GET", Path: "/api/v1/audit/heads", Who: Decider, Tag: "audit",
		Summary: "Get the head of the audit log",
		Doc:     "Store it elsewhere: it later proves that nothing before it was removed.",
	}}
	VerifyAudit = Route[Body[*KnownHead], action.AuditReport]{Operation{
		Method: "POST", Path: "/api/v1/audit/verify", Who: Decider, Tag: "audit", Status: 200,
		Summary: "Verify the audit log",
		Doc:     "Returns 200 even if the log is broken: see `ok` and `faults`.",
	}}
	ListRefusals = Route[ListRefusalsInput, List[action.RefusalCount]]{Operation{
		Method: "GET", Path: "/api/v1/audit/refusals", Who: Member, Tag: "audit",
		Summary: "List counts of refused calls, newest first",
		Doc:     "Calls that were refused without a call of their own: unknown names, params that do not match the schema, limits, and agents' attempts to decide. Each item counts those of one session, kind and action of at most a minute, on one instance.",
	}}
	ExportAudit = Route[ExportQuery, None]{Operation{
		Method: "GET", Path: "/api/v1/audit/export", Who: Decider, Tag: "audit",
		Summary: "Export calls, policy changes or refusals",
		Doc:     `Streamed, oldest first, redacted like the rows; calls include the creator, group, task and automation of their session. JSON Lines has all fields. In CSV, cells that a spreadsheet would run as a formula start with an apostrophe. After an error, the connection breaks and JSON Lines ends with a line {"error": …}; any other end is complete.`,
	}}
	PutEvidence = Route[EvidenceFile, action.UploadFile]{Operation{
		Method: "PUT", Path: "/api/v1/sessions/{session}/evidence/{upload}/{name}", Who: Agent, Tag: "evidence", Status: 200, Errors: []int{409, 413, 429, 502},
		Summary: "Upload an evidence file",
		Doc:     "The body is the content of the file, with Content-Length. The first file creates the upload, whose ID the agent chooses. Repeating the same content is fine; other content with the same name is a conflict. The tool verify seals the upload; an unsealed upload is deleted 25 hours after its last file. One client uploads a file at a time, and a session four files; 429 has the retry time.",
	}}
	ListEvidence = Route[ListEvidenceInput, List[action.Upload]]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/evidence", Who: Audience, Tag: "evidence",
		Summary: "List the evidence of the session, newest first",
	}}
	GetEvidence = Route[GetEvidenceInput, action.Upload]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/evidence/{upload}", Who: Audience, Tag: "evidence",
		Summary: "Get an upload with its files",
	}}
	GetEvidenceFile = Route[InUpload, None]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/evidence/{upload}/{name}", Who: Audience, Tag: "evidence", Errors: []int{502},
		Summary: "Download an evidence file",
		Doc:     "Always an attachment of type application/octet-stream, because an agent created it.",
	}}
)

// ListRefusalsInput is the input of [ListRefusals].
type ListRefusalsInput struct {
	Paging
	Session string `query:"session" doc:"ID of the session."`
	Kind    string `query:"kind" enum:"unknown_action,invalid_params,rate_limited,quota_reached,too_many_pending,agent_decision"`
	From    string `query:"from" doc:"Start time or day of the last refusal." example:"2026-01-02T15:04:05Z"`
	To      string `query:"to" doc:"End time or day." example:"2026-02-01"`
}

// KnownHead is a head that was stored elsewhere.
type KnownHead struct {
	Head *action.AuditHead `json:"head,omitempty" nullable:"false" doc:"A head that must still be in the log."`
}

// ExportQuery selects the records and format of an export.
type ExportQuery struct {
	What   string `query:"what" enum:"invocations,policy,refusals" default:"invocations" doc:"policy: policy changes, with the filters from and to only; refusals: counts of refused calls, with session, from and to only." kong:"enum='invocations,policy,refusals',default='invocations',help='Records: invocations, policy for policy changes, or refusals for counts of refused calls (default: invocations).'"`
	Format string `query:"format" enum:"jsonl,csv" default:"jsonl" kong:"enum='jsonl,csv',default='jsonl',help='Format: jsonl or csv (default: jsonl).'"`
	CallFilters
	CallerFilters
}

// InUpload is the parameters of a route about a file of an upload.
type InUpload struct {
	InSession
	Upload string `path:"upload" doc:"A lowercase UUID, chosen by the agent." example:"0199a3c6-9999-7000-8000-0123456789ab"`
	Name   string `path:"name" doc:"Path of the file in the folder; write / as %2F." example:"test-report.txt"`
}

// ListEvidenceInput is the input of [ListEvidence].
type ListEvidenceInput struct {
	InSession
	Paging
}

// GetEvidenceInput is the input of [GetEvidence].
type GetEvidenceInput struct {
	InSession
	Upload string `path:"upload"`
}

// EvidenceFile is a file of an upload; its bytes are the body, which is read as
// it arrives.
type EvidenceFile struct {
	InUpload
	SHA256 string `header:"X-Content-Sha256" required:"true" doc:"SHA-256 of the content in hex." example:"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`
}
