package routes

import (
	"context"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
)

func (s *handlers) auditRoutes() {
	dashboard.Handle(s.Server, api.ListAuditHeads, func(ctx context.Context, p *dashboard.Principal, _ *api.None) (api.List[action.AuditHead], error) {
		list, err := s.Calls.AuditHeads(ctx, p.Organization)
		return view.ListOf(list), err
	})
	dashboard.Handle(s.Server, api.VerifyAudit, func(ctx context.Context, p *dashboard.Principal, in *api.Body[*api.KnownHead]) (action.AuditReport, error) {
		var known *action.AuditHead
		if in.Body != nil {
			known = in.Body.Head
		}
		if known != nil && known.Organization != p.Organization {
			return action.AuditReport{}, dashboard.Invalid("/head/organization_id", "This head is of another organization; verify it there.")
		}
		report, err := s.VerifyAudit(ctx, p.Organization, known)
		if err != nil {
			return action.AuditReport{}, err
		}
		report.Faults = dashboard.NonNil(report.Faults)
		s.Log.InfoContext(ctx, "evidence verified", "ok", report.OK, "checked", report.Checked, "faults", len(report.Faults), "by", p.By())
		return report, nil
	})
}

func (s *handlers) exportRoutes() {
	const path = "/api/v1/audit/export"
	dashboard.HandleStream(s.Server, api.ExportAudit, func(ctx context.Context, p *dashboard.Principal, in *api.ExportQuery) (*dashboard.StreamResponse, error) {
		f, err := s.InvocationFilter(ctx, p, in.CallFilters, in.CallerFilters)
		if err != nil {
			return nil, err
		}
		s.Log.InfoContext(ctx, "export", "what", in.What, "by", p.By())
		return &dashboard.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			x := &export{server: s, r: r, w: w, csv: in.Format == "csv", name: "sallyport-" + in.What}
			if in.What == "policy" {
				exportRows(r.Context(), x, policyColumns(), func(ctx context.Context, yield func(action.PolicyEvent) error) error {
					return s.Policy.ExportPolicy(ctx, f.Organization, f.From, f.To, yield)
				})
				return
			}
			exportRows(r.Context(), x, invocationColumns(), func(ctx context.Context, yield func(exportedCall) error) error {
				return s.exportCalls(ctx, f, yield)
			})
		}}, nil
	})
	lines := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	s.API.OpenAPI().Paths[path].Get.Responses["200"] = &huma.Response{
		Description: "The rows as a file", Content: map[string]*huma.MediaType{"application/jsonl": lines, "text/csv": lines},
	}
}

func formatInt(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}
