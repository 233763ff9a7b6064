package dashboard

import (
	"context"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/action"
	"sallyport/api"
)

func (s *Server) exportRoutes() {
	const path = "/api/v1/audit/export"
	handleStream(s, api.ExportAudit, func(ctx context.Context, p *Principal, in *api.ExportQuery) (*streamed, error) {
		f, err := s.sought(ctx, p, in.Sought, in.AskedBy)
		if err != nil {
			return nil, err
		}
		s.Log.InfoContext(ctx, "export", "what", in.What, "by", p.By())
		return &streamed{Body: func(hc huma.Context) {
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
	s.api.OpenAPI().Paths[path].Get.Responses["200"] = &huma.Response{
		Description: "The rows as a file", Content: map[string]*huma.MediaType{"application/jsonl": lines, "text/csv": lines},
	}
}

func number(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}
