package api

import (
	"sallyport/action"
)

// Routes.
var (
	ListAuditHeads = Route[None, List[action.AuditHead]]{Operation{
		Method: "GET", Path: "/api/v1/audit/heads", Who: Decider, Tag: "audit",
		Summary: "Read the end of the chain of evidence",
		Doc:     "Kept elsewhere, it later proves that nothing before it was removed.",
	}}
	VerifyAudit = Route[Body[*KnownHead], action.AuditReport]{Operation{
		Method: "POST", Path: "/api/v1/audit/verify", Who: Decider, Tag: "audit", Status: 200,
		Summary: "Look through the chain of evidence",
		Doc:     "Answers 200 also when it does not hold: `ok` and `faults` tell.",
	}}
	ExportAudit = Route[ExportQuery, None]{Operation{
		Method: "GET", Path: "/api/v1/audit/export", Who: Decider, Tag: "audit",
		Summary: "Export calls or changes of policy",
		Doc:     `Oldest first, streamed, redacted as rows are; a call with the maker, group, task and automation of its session. JSON Lines has all fields; in CSV, cells that a spreadsheet would take for a formula begin with an apostrophe. When it fails on the way, the connection breaks, and JSON Lines ends with a line {"error": …}: what ends otherwise is whole.`,
	}}
)

// KnownHead is a head that somebody kept.
type KnownHead struct {
	Head *action.AuditHead `json:"head,omitempty" nullable:"false" doc:"Must still be in the chain."`
}

// ExportQuery says what is exported, and how.
type ExportQuery struct {
	What   string `query:"what" enum:"invocations,policy" default:"invocations" doc:"policy: changes of policy, of which only from and to are asked." kong:"enum='invocations,policy',default='invocations',help='Records: invocations, or policy for policy changes (default: invocations).'"`
	Format string `query:"format" enum:"jsonl,csv" default:"jsonl" kong:"enum='jsonl,csv',default='jsonl',help='Format: jsonl or csv (default: jsonl).'"`
	Sought
	AskedBy
}
