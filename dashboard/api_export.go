package dashboard

import (
	"context"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/action"
)

const exportDoc = "Oldest first, streamed, redacted as rows are; a call with the maker, group, task and automation of its session. JSON Lines has all fields; in CSV, cells that a spreadsheet would take for a formula begin with an apostrophe. " +
	"When it fails on the way, the connection breaks, and JSON Lines ends with a line {\"error\": …}: what ends otherwise is whole."

// ExportQuery says what is exported, and how.
type ExportQuery struct {
	What    string          `query:"what" enum:"invocations,policy" default:"invocations" doc:"policy: changes of policy, of which only from and to are asked."`
	Format  string          `query:"format" enum:"jsonl,csv" default:"jsonl"`
	From    string          `query:"from" doc:"Not before this time or day." example:"2026-01-02T15:04:05Z"`
	To      string          `query:"to" doc:"Before this time or day." example:"2026-02-01"`
	Status  []action.Status `query:"status" enum:"pending,approved,executing,completed,failed,denied,expired" doc:"One or more, with commas."`
	Session string          `query:"session"`
	Source  string          `query:"source" doc:"Id of a source, or slug or name of a connector."`
	Action  string          `query:"action"`
}

func (s *Server) exportRoutes() {
	const path = "/api/v1/audit/export"
	register(s, route{
		method: "GET", path: path, tag: "audit", summary: "Export calls or changes of policy", doc: exportDoc,
	}, func(ctx context.Context, p *Principal, in *ExportQuery) (*streamed, error) {
		f, err := s.exported(ctx, p, in)
		if err != nil {
			return nil, err
		}
		s.log.InfoContext(ctx, "export", "what", in.What, "by", p.By())
		return &streamed{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			x := &export{server: s, r: r, w: w, csv: in.Format == "csv", name: "sallyport-" + in.What}
			if in.What == "policy" {
				exportRows(r.Context(), x, policyColumns(), func(ctx context.Context, yield func(action.PolicyEvent) error) error {
					return s.Audit.ExportPolicy(ctx, f.Organization, f.From, f.To, yield)
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
		Description: "The rows, as a file", Content: map[string]*huma.MediaType{"application/jsonl": lines, "text/csv": lines},
	}
}

func (s *Server) exported(ctx context.Context, p *Principal, in *ExportQuery) (f ExportFilter, err error) {
	f = ExportFilter{Organization: p.Organization, Session: in.Session, Source: in.Source, Action: in.Action, Statuses: in.Status}
	if f.From, err = parseMoment("/from", in.From); err != nil {
		return f, err
	}
	if f.To, err = parseMoment("/to", in.To); err != nil {
		return f, err
	}
	if !f.To.IsZero() && !f.From.Before(f.To) {
		return f, invalid("/to", "to must be after from.")
	}
	if id, _, err := s.source(ctx, p.Organization, in.Source); err == nil {
		f.Source = id
	}
	return f, nil
}

// parseMoment reads a time or a day; the zero time when there is none.
func parseMoment(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, invalid(field, field[1:]+" must be a time or a day, such as 2026-01-02T15:04:05Z or 2026-01-02.")
}

func number(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}
