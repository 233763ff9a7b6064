package dashboard

import (
	"context"
	"net/http"

	"sallyport/action"
)

// KnownHead is a head that somebody kept.
type KnownHead struct {
	Head *action.AuditHead `json:"head,omitempty" nullable:"false" doc:"Must still be in the chain."`
}

func (s *Server) auditRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/audit/heads", tag: "audit", summary: "Read the end of the chain of evidence",
		doc: "Kept elsewhere, it later proves that nothing before it was removed.",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[action.AuditHead]], error) {
		list, err := s.Audit.AuditHeads(ctx, p.Organization)
		return listOf(list), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/audit/verify", tag: "audit", summary: "Look through the chain of evidence", status: http.StatusOK,
		doc: "Answers 200 also when it does not hold: `ok` and `faults` tell.",
	}, func(ctx context.Context, p *Principal, in *struct{ Body *KnownHead }) (*body[action.AuditReport], error) {
		var known *action.AuditHead
		if in.Body != nil {
			known = in.Body.Head
		}
		if known != nil && known.Organization != p.Organization {
			return nil, invalid("/head/organization_id", "This head is of another organization; verify it there.")
		}
		report, err := s.Audit.VerifyAudit(ctx, p.Organization, known)
		if err != nil {
			return nil, err
		}
		report.Faults = nonNil(report.Faults)
		s.log.InfoContext(ctx, "evidence verified", "ok", report.OK, "checked", report.Checked, "faults", len(report.Faults), "by", p.By())
		return bodyOf(report), nil
	})
}
