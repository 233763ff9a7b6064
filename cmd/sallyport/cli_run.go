package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"sallyport/api"
	"sallyport/ingest/event"
)

type runCommand struct {
	List     runList       `cmd:"" help:"List runs of automations, newest first."`
	Show     runShow       `cmd:"" help:"Show a run."`
	Claim    runClaim      `cmd:"" help:"Claim a queued run and print what its worker needs."`
	Renew    runRenew      `cmd:"" help:"Renew the lease of a claimed run."`
	Finish   runFinish     `cmd:"" help:"Finish a run as its worker."`
	Cancel   runCancel     `cmd:"" help:"Cancel a run."`
	Resolve  runResolve    `cmd:"" help:"Set the result of a run that needs a human."`
	Redrive  runRedrive    `cmd:"" help:"Repeat a run that failed or needs a human."`
	Outbox   outboxPlace   `cmd:"" help:"List deliveries of runs to the endpoint, or repeat one."`
	Endpoint endpointPlace `cmd:"" help:"Manage the URL that receives runs."`
}

// runState is where the run stands, and why.
func runState(r *api.RunView) string {
	text := string(r.Status)
	if r.Code != "" {
		text += ": " + r.Code
	}
	if r.Waiting > 0 {
		text += ", " + number(r.Waiting, "call") + " to approve"
	}
	return text
}

type runList struct {
	remote
	api.Paging
	Automation string `placeholder:"REF" help:"Only for this automation."`
	Trigger    string `placeholder:"ID" help:"Only for this trigger or schedule."`
	Status     string `enum:"queued,claimed,running,needs_human,succeeded,failed,skipped," default:"" help:"Filter by status: queued, claimed, running, needs_human, succeeded, failed or skipped."`
}

func (c *runList) Run(ctx context.Context, std *stdio) error {
	in := api.RunQuery{Paging: c.Paging, Automation: c.Automation, Trigger: c.Trigger, Status: event.RunStatus(c.Status)}
	return perform(ctx, &c.remote, std, api.ListRuns, in, func(w io.Writer, all *api.List[api.RunView]) {
		called := c.workLabels(ctx)
		rows := make([][]string, 0, len(all.Items))
		for i := range all.Items {
			r := &all.Items[i]
			rows = append(rows, []string{since(&r.CreatedAt), r.AutomationName, called.of(r.Trigger), r.Title, runState(r), called.of(r.ClaimedBy), r.ID})
		}
		table(w, []string{"WHEN", "AUTOMATION", "BY", "EVENT", "STATE", "WORKER", "ID"}, rows)
		more(w, all.NextCursor)
	})
}

// theRun names one.
type theRun struct {
	remote
	ID string `arg:"" help:"ID of the run."`
}

// runWith is what is asked for the run of r.
func runWith[B any](r *theRun, body B) api.ByIDWith[B] {
	return api.ByIDWith[B]{ByID: api.ByID{ID: r.ID}, Body: body}
}

func showRunState(w io.Writer, now *api.RunView) { said("run " + now.ID + " is " + runState(now))(w) }

type runShow struct{ theRun }

func (c *runShow) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.GetRun, api.ByID{ID: c.ID}, func(w io.Writer, r *api.RunView) {
		called := c.workLabels(ctx)
		said(fmt.Sprintf("run %s of %s: %s", r.ID, r.AutomationName, r.Title))(w)
		said(fmt.Sprintf("%s, attempt %d, %s", runState(r), r.Attempt, runTimes(r)))(w)
		if r.Message != "" {
			said(r.Message)(w)
		}
		if r.ClaimedBy != "" {
			said(runWorker(r, called.of(r.ClaimedBy)))(w)
		}
		said(fmt.Sprintf("event %s of %s", r.Event, called.of(r.Trigger)))(w)
		if r.Session != "" {
			said("session " + r.Session + runSessionNote(r))(w)
		}
		for _, next := range nextOfRun(r) {
			said(next.why + ": " + c.hint(next.words...))(w)
		}
		if r.Result != nil {
			block(w, "    ", r.Result)
		}
	})
}

// runTimes are what a run went through, and when.
func runTimes(r *api.RunView) string {
	text := "made " + since(&r.CreatedAt)
	if r.StartedAt != nil {
		text += ", started " + since(r.StartedAt)
	}
	if r.EndedAt != nil {
		text += ", ended " + since(r.EndedAt)
	}
	return text
}

// runTaken reports whether somebody has the run, who may still end it.
func runTaken(r *api.RunView) bool { return r.Deadline != nil && !r.Status.Ended() }

// runWorker says who has the run and for how long, or who had it.
func runWorker(r *api.RunView, name string) string {
	switch {
	case !runTaken(r):
		return "worker " + name + ", who has it no more"
	case r.LeaseUntil != nil:
		return "worker " + name + ", lease ends " + since(r.LeaseUntil) + ", deadline " + since(r.Deadline)
	}
	return "worker " + name + ", deadline " + since(r.Deadline)
}

func runSessionNote(r *api.RunView) string {
	if runTaken(r) {
		return ""
	}
	return ", which has ended"
}

// way is what a person can do next, and why he may want to.
type way struct {
	why   string
	words []string
}

// nextOfRun are the steps that lead on.
func nextOfRun(r *api.RunView) []way {
	again := way{"have it done again with", []string{"run", "redrive", r.ID}}
	switch {
	case r.Waiting > 0:
		return []way{{"see what waits with", []string{"pending"}}}
	case r.Status == event.RunQueued:
		return []way{{"take it with", []string{"run", "claim", "--run", r.ID}}}
	case r.Status == event.RunNeeds && !runTaken(r):
		return []way{{"say how it ended with", []string{"run", "resolve", r.ID, "succeeded"}}, again}
	case r.Code == event.RunUndelivered:
		return []way{{"see what the endpoint answered with", []string{"run", "outbox", "--status", "dead"}}, again}
	case r.Status == event.RunFailed:
		return []way{again}
	}
	return nil
}

type runClaim struct {
	remote
	Automation string   `placeholder:"REF" help:"Only for this automation."`
	Which      string   `name:"run" placeholder:"ID" help:"Run to claim (default: the oldest queued run)."`
	Lease      *lasting `placeholder:"D" help:"Lease of the claim (default: 5m)."`
	Wait       lasting  `placeholder:"D" help:"Time to wait for a run, at most 60s (default: no wait)."`
}

// Run prints JSON in any case: it is for programs.
func (c *runClaim) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	in := api.ClaimRunInput{Body: &api.Wish{Automation: c.Automation, Run: c.Which}}
	if c.Lease != nil {
		in.Body.Lease = c.Lease.String()
	}
	if c.Wait.Duration > 0 {
		in.Wait = c.Wait.String()
	}
	_, raw, err := fetch(ctx, server, api.ClaimRun, in)
	if err != nil {
		return err
	}
	if len(raw) == 0 { // 204
		std.notes = append(std.notes, "no run waits")
		return nil
	}
	return std.printJSON(raw)
}

type runRenew struct {
	theRun
	Claim string `field:"claim_id" required:"" placeholder:"ID" help:"claim_id printed by run claim."`
}

func (c *runRenew) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.RenewRun, runWith(&c.theRun, &api.Renewal{ClaimID: c.Claim}), showRunState)
}

// runOutcome is how a run ended.
type runOutcome struct {
	Code    string     `help:"Machine-readable reason, such as tests_failed."`
	Message string     `help:"Reason, shown to people."`
	Result  jsonResult `placeholder:"JSON" help:"Result of the run as JSON."`
}

func (e *runOutcome) body() api.RunOutcome {
	return api.RunOutcome{Code: e.Code, Message: e.Message, Result: e.Result.raw}
}

type runFinish struct {
	theRun
	runOutcome
	Claim  string `field:"claim_id" required:"" placeholder:"ID" help:"claim_id printed by run claim."`
	Status string `arg:"" enum:"succeeded,failed,needs_human" help:"Status: succeeded, failed or needs_human."`
}

func (c *runFinish) Run(ctx context.Context, std *stdio) error {
	in := api.Finish{ClaimID: c.Claim, Status: event.RunStatus(c.Status), RunOutcome: c.body()}
	return perform(ctx, &c.remote, std, api.FinishRun, runWith(&c.theRun, in), showRunState)
}

type runCancel struct {
	theRun
	Reason string `help:"Reason."`
}

func (c *runCancel) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.CancelRun, runWith(&c.theRun, &api.Cancellation{Reason: c.Reason}), showRunState)
}

type runResolve struct {
	theRun
	runOutcome
	Status string `arg:"" enum:"succeeded,failed" help:"Status: succeeded or failed."`
}

func (c *runResolve) Run(ctx context.Context, std *stdio) error {
	in := api.Resolution{Status: event.RunStatus(c.Status), RunOutcome: c.body()}
	return perform(ctx, &c.remote, std, api.ResolveRun, runWith(&c.theRun, in), showRunState)
}

type runRedrive struct{ theRun }

func (c *runRedrive) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.RedriveRun, api.ByID{ID: c.ID}, showRunState)
}

// workLabels are the names of who works on runs and of what starts them.
func (r *remote) workLabels(ctx context.Context) labels {
	return r.labels(ctx, actors(api.ListTriggers.Operation, api.ListSchedules.Operation)...)
}

// jsonResult is a flag that is any JSON.
type jsonResult struct{ raw json.RawMessage }

// UnmarshalText reads a flag.
func (r *jsonResult) UnmarshalText(text []byte) error {
	if !json.Valid(text) {
		return fmt.Errorf(`%q is no JSON; a text has quotes: '"done"'`, text)
	}
	r.raw = append(json.RawMessage(nil), text...)
	return nil
}
