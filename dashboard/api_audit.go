package dashboard

import (
	"context"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) auditRoutes() {
	handle(s, api.ListAuditHeads, func(ctx context.Context, p *Principal, _ *api.None) (api.List[action.AuditHead], error) {
		list, err := s.Calls.AuditHeads(ctx, p.Organization)
		return listOf(list), err
	})
	handle(s, api.VerifyAudit, func(ctx context.Context, p *Principal, in *api.Body[*api.KnownHead]) (action.AuditReport, error) {
		var known *action.AuditHead
		if in.Body != nil {
			known = in.Body.Head
		}
		if known != nil && known.Organization != p.Organization {
			return action.AuditReport{}, invalid("/head/organization_id", "This head is of another organization; verify it there.")
		}
		report, err := s.VerifyAudit(ctx, p.Organization, known)
		if err != nil {
			return action.AuditReport{}, err
		}
		report.Faults = nonNil(report.Faults)
		s.Log.InfoContext(ctx, "evidence verified", "ok", report.OK, "checked", report.Checked, "faults", len(report.Faults), "by", p.By())
		return report, nil
	})
}
