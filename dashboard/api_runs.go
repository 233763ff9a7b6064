package dashboard

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/ingest/event"
)

// RunView is a run with the name of its automation.
type RunView struct {
	event.Run
	AutomationName string `json:"automation_name,omitempty" example:"nightly-triage"`
}

// Wish is what a worker wants to do.
type Wish struct {
	Automation string `json:"automation,omitempty" maxLength:"200" doc:"Id or name; absent: any." example:"nightly-triage"`
	Run        string `json:"run,omitempty" maxLength:"80" doc:"Id of a run that waits; absent: the one that waits longest."`
	Lease      string `json:"lease,omitempty" maxLength:"40" doc:"How long the worker may be silent before the run is taken from him: 1s to 24h; default 5m." example:"5m"`
}

// ClaimedRun is all that a worker needs.
type ClaimedRun struct {
	Run        event.Run     `json:"run"`
	Automation RunAutomation `json:"automation"`
	Event      InboundEvent  `json:"event" doc:"With its whole context, nothing redacted; foreign."`
	Session    RunSession    `json:"session"`
	ClaimID    string        `json:"claim_id" doc:"Presented with each renewal, and at the end."`
	LeaseUntil *time.Time    `json:"lease_until,omitempty" doc:"Renew before."`
}

// RunAutomation says what a run is to do.
type RunAutomation struct {
	ID           string `json:"id"`
	Name         string `json:"name" example:"nightly-triage"`
	Instructions string `json:"instructions"`
}

// RunSession is the session that works on a run. Its token dies with the run.
type RunSession struct {
	ID        string    `json:"id"`
	Token     string    `json:"token" example:"sps_…" doc:"Shown once; it is stored nowhere."`
	MCPURL    string    `json:"mcp_url" example:"http://127.0.0.1:8787/mcp"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Renewal says that the worker is alive.
type Renewal struct {
	ClaimID string `json:"claim_id,omitempty" maxLength:"80" doc:"As the claim was answered; the run's own session may leave it out."`
}

// RunOutcome is what is said of a run that ends.
type RunOutcome struct {
	Code    string `json:"code,omitempty" maxLength:"64" doc:"Why it did not succeed, for programs." example:"tests_failed"`
	Message string `json:"message,omitempty" maxLength:"2000" doc:"The same for people; it is kept redacted."`
	Result  raw    `json:"result,omitempty" doc:"Any JSON, at most 64 KiB; it is kept redacted, and cut to 10 KB."`
}

// Finish is how a worker ends a run.
type Finish struct {
	ClaimID string          `json:"claim_id,omitempty" maxLength:"80" doc:"As the claim was answered; the run's own session may leave it out."`
	Status  event.RunStatus `json:"status" enum:"succeeded,failed,needs_human" doc:"needs_human: a person goes on, to whom message says how; see resolve and redrive."`
	RunOutcome
}

// Resolution is how a person ends a run that needs a human.
type Resolution struct {
	Status event.RunStatus `json:"status" enum:"succeeded,failed"`
	RunOutcome
}

// Cancellation is why a run is cancelled.
type Cancellation struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" example:"The issue was closed by hand."`
}

// RunQuery is the query of a list of runs.
type RunQuery struct {
	Paging
	Automation string          `query:"automation" maxLength:"200" doc:"Id or name."`
	Trigger    string          `query:"trigger" maxLength:"80" doc:"Id of a trigger or schedule."`
	Event      string          `query:"event" maxLength:"80" doc:"Id of the event that it is of."`
	Status     event.RunStatus `query:"status" enum:"queued,claimed,running,needs_human,succeeded,failed,skipped"`
}

// claimed is a run for a worker, or none.
type claimed struct {
	Status int
	Body   ClaimedRun
}

const runsPath = "/api/v1/runs"

func (s *Server) runRoutes() {
	register(s, route{
		method: "GET", path: runsPath, tag: "runs", summary: "List runs, newest first",
	}, func(ctx context.Context, p *Principal, in *RunQuery) (*body[List[RunView]], error) {
		return s.listRuns(ctx, p, in)
	})
	register(s, route{
		method: "GET", path: runsPath + "/{id}", tag: "runs", summary: "Read a run",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[RunView], error) {
		run, err := s.Runs.Run(ctx, p.Organization, in.ID)
		return s.viewRun(ctx, run, err)
	})
	s.workerRoutes()
	s.runVerdictRoutes(runsPath + "/{id}")
}

func (s *Server) workerRoutes() {
	register(s, route{
		method: "POST", path: runsPath + "/claim", tag: "runs", summary: "Take a run to work on", status: http.StatusOK,
		doc:    "Answers the run with its instructions, its event and a session of its own, or 204 when none waits, or came in the time that wait says. Renew the lease while you work; a run whose lease lapsed is taken by another worker, or fails.",
		errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		Wait string `query:"wait" doc:"Wait this long for a run, at most 60s; absent: do not." example:"30s"`
		Body *Wish
	},
	) (*claimed, error) {
		if in.Body == nil {
			in.Body = &Wish{}
		}
		return s.claimRun(ctx, p, *in.Body, in.Wait)
	})
	op := s.api.OpenAPI().Paths[runsPath+"/claim"].Post
	op.Responses["204"] = &huma.Response{Description: "No run waits"}
	register(s, route{
		method: "POST", path: runsPath + "/{id}/renew", tag: "runs", summary: "Tell that the worker is alive", status: http.StatusOK,
		doc: "The run is running from the first time on, and its lease begins anew.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *Renewal
	},
	) (*body[RunView], error) {
		run, err := s.renewRun(ctx, p, in.ID, in.Body)
		return s.viewRun(ctx, run, err)
	})
	register(s, route{
		method: "POST", path: runsPath + "/{id}/finish", tag: "runs", summary: "End a run", status: http.StatusOK,
		doc: "Its session ends with it, and calls that wait for approval are withdrawn.", errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body Finish
	},
	) (*body[RunView], error) {
		run, err := s.finishRun(ctx, p, in.ID, in.Body)
		return s.viewRun(ctx, run, err)
	})
}

func (s *Server) runVerdictRoutes(one string) {
	register(s, route{
		method: "POST", path: one + "/cancel", tag: "runs", summary: "Cancel a run", status: http.StatusOK,
		doc: "Whoever works on it loses it, and its session ends.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *Cancellation
	},
	) (*body[RunView], error) {
		if in.Body == nil {
			in.Body = &Cancellation{}
		}
		run, err := s.cancelRun(ctx, p, in.ID, in.Body.Reason)
		return s.viewRun(ctx, run, err)
	})
	register(s, route{
		method: "POST", path: one + "/resolve", tag: "runs", summary: "End a run that needs a human", status: http.StatusOK,
		doc: "By who did it himself, or gave it up.", errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body Resolution
	},
	) (*body[RunView], error) {
		run, err := s.resolveRun(ctx, p, in.ID, in.Body)
		return s.viewRun(ctx, run, err)
	})
	register(s, route{
		method: "POST", path: one + "/redrive", tag: "runs", summary: "Have a run done again", status: http.StatusOK,
		doc: "Of one that failed or needs a human. What it did before is not undone.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[RunView], error) {
		run, err := s.redriveRun(ctx, p, in.ID)
		return s.viewRun(ctx, run, err)
	})
}

func (s *Server) listRuns(ctx context.Context, p *Principal, q *RunQuery) (*body[List[RunView]], error) {
	automation, err := s.automationID(ctx, p, q.Automation, "/automation")
	if err != nil {
		return nil, err
	}
	page, err := s.Runs.ListRuns(ctx, event.RunFilter{Organization: p.Organization, Automation: automation, Trigger: q.Trigger, Event: q.Event, Status: q.Status, Limit: q.Limit, Cursor: q.Cursor})
	if err != nil {
		return nil, err
	}
	names, err := s.Automations.AutomationNames(ctx, p.Organization)
	return pageOf(page, func(r event.Run) RunView { return RunView{r, names[r.Automation]} }), err
}

// viewRun is the view of one, unless there is none.
func (s *Server) viewRun(ctx context.Context, run event.Run, err error) (*body[RunView], error) {
	if err != nil {
		return nil, err
	}
	names, err := s.Automations.AutomationNames(ctx, run.Organization)
	return bodyOf(RunView{run, names[run.Automation]}), err
}
