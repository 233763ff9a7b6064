package dashboard

import (
	"context"

	"sallyport/api"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/ingest/event"
)

const runsPath = "/api/v1/runs"

func (s *Server) runRoutes() {
	handle(s, api.ListRuns, func(ctx context.Context, p *Principal, in *api.RunQuery) (api.List[api.RunView], error) {
		return s.listRuns(ctx, p, in)
	})
	handle(s, api.GetRun, func(ctx context.Context, p *Principal, in *api.ByID) (api.RunView, error) {
		run, err := s.Inbound.Run(ctx, p.Organization, in.ID)
		return s.viewRun(ctx, run, err)
	})
	s.workerRoutes()
	s.runVerdictRoutes(runsPath + "/{id}")
}

func (s *Server) workerRoutes() {
	handleCoded(s, api.ClaimRun, func(ctx context.Context, p *Principal, in *api.ClaimRunInput) (*coded[api.ClaimedRun], error) {
		if in.Body == nil {
			in.Body = &api.Wish{}
		}
		return s.claimRun(ctx, p, *in.Body, in.Wait)
	})
	op := s.api.OpenAPI().Paths[runsPath+"/claim"].Post
	op.Responses["204"] = &huma.Response{Description: "No queued run"}
	handle(s, api.RenewRun, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.Renewal]) (api.RunView, error) {
		run, err := s.renewRun(ctx, p, in.ID, in.Body)
		return s.viewRun(ctx, run, err)
	})
	handle(s, api.FinishRun, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.Finish]) (api.RunView, error) {
		run, err := s.finishRun(ctx, p, in.ID, in.Body)
		return s.viewRun(ctx, run, err)
	})
}

func (s *Server) runVerdictRoutes(one string) {
	handle(s, api.CancelRun, func(ctx context.Context, p *Principal, in *api.ByIDWith[*api.Cancellation]) (api.RunView, error) {
		if in.Body == nil {
			in.Body = &api.Cancellation{}
		}
		run, err := s.cancelRun(ctx, p, in.ID, in.Body.Reason)
		return s.viewRun(ctx, run, err)
	})
	handle(s, api.ResolveRun, func(ctx context.Context, p *Principal, in *api.ByIDWith[api.Resolution]) (api.RunView, error) {
		run, err := s.resolveRun(ctx, p, in.ID, in.Body)
		return s.viewRun(ctx, run, err)
	})
	handle(s, api.RedriveRun, func(ctx context.Context, p *Principal, in *api.ByID) (api.RunView, error) {
		run, err := s.redriveRun(ctx, p, in.ID)
		return s.viewRun(ctx, run, err)
	})
}

func (s *Server) listRuns(ctx context.Context, p *Principal, q *api.RunQuery) (api.List[api.RunView], error) {
	automation, err := s.automationID(ctx, p, q.Automation, "/automation")
	if err != nil {
		return api.List[api.RunView]{}, err
	}
	page, err := s.Inbound.ListRuns(ctx, event.RunFilter{Organization: p.Organization, Automation: automation, Trigger: q.Trigger, Event: q.Event, Status: q.Status, Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return api.List[api.RunView]{}, err
	}
	names, err := s.Inbound.AutomationNames(ctx, p.Organization)
	return pageOf(page, func(r event.Run) api.RunView { return api.RunView{Run: r, AutomationName: names[r.Automation]} }), err
}

// viewRun is the view of one, unless there is none.
func (s *Server) viewRun(ctx context.Context, run event.Run, err error) (api.RunView, error) {
	if err != nil {
		return api.RunView{}, err
	}
	names, err := s.Inbound.AutomationNames(ctx, run.Organization)
	return api.RunView{Run: run, AutomationName: names[run.Automation]}, err
}
