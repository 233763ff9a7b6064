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
	ExportAudit = Route[ExportQuery, None]{Operation{
		Method: "GET", Path: "/api/v1/audit/export", Who: Decider, Tag: "audit",
		Summary: "Export calls or policy changes",
		Doc:     `Streamed, oldest first, redacted like the rows; calls include the creator, group, task and automation of their session. JSON Lines has all fields. In CSV, cells that a spreadsheet would run as a formula start with an apostrophe. After an error, the connection breaks and JSON Lines ends with a line {"error": …}; any other end is complete.`,
	}}
)

// KnownHead is a head that was stored elsewhere.
type KnownHead struct {
	Head *action.AuditHead `json:"head,omitempty" nullable:"false" doc:"A head that must still be in the log."`
}

// ExportQuery selects the records and format of an export.
type ExportQuery struct {
	What   string `query:"what" enum:"invocations,policy" default:"invocations" doc:"policy: policy changes, with the filters from and to only." kong:"enum='invocations,policy',default='invocations',help='Records: invocations, or policy for policy changes (default: invocations).'"`
	Format string `query:"format" enum:"jsonl,csv" default:"jsonl" kong:"enum='jsonl,csv',default='jsonl',help='Format: jsonl or csv (default: jsonl).'"`
	Sought
	AskedBy
}
