package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"

	"sallyport/api"
	"sallyport/ingest/event"
)

type runCommand struct {
	List     runList       `cmd:"" help:"List runs of automations, newest first."`
	Show     runShow       `cmd:"" help:"Show a run."`
	Claim    runClaim      `cmd:"" help:"Take a run to work on, and print what its worker needs."`
	Renew    runRenew      `cmd:"" help:"Say that the worker of a run is alive."`
	Finish   runFinish     `cmd:"" help:"End a run as its worker."`
	Cancel   runCancel     `cmd:"" help:"End a run that somebody works on, or that waits."`
	Resolve  runResolve    `cmd:"" help:"Say how a run ended that needs a human."`
	Redrive  runRedrive    `cmd:"" help:"Have a run done again that failed or needs a human."`
	Outbox   outboxPlace   `cmd:"" help:"List deliveries of runs to the endpoint, or deliver one again."`
	Endpoint endpointPlace `cmd:"" help:"Say where runs are delivered."`
}

const runsPath = "/api/v1/runs"

// runRow is a run as the API shows it.
type runRow struct {
	event.Run
	AutomationName string `json:"automation_name"`
}

// state is where the run stands, and why.
func (r *runRow) state() string {
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
	paging
	Automation string `placeholder:"REF" help:"Only of this automation."`
	Trigger    string `placeholder:"ID" help:"Only of this trigger or schedule."`
	Status     string `enum:"queued,claimed,running,needs_human,succeeded,failed,skipped," default:"" help:"Only with this status: queued, claimed, running, needs_human, succeeded, failed or skipped."`
}

func (c *runList) Run(ctx context.Context, std *stdio) error {
	query := c.query()
	maps.Copy(query, queryOf(given{"automation": c.Automation, "trigger": c.Trigger, "status": c.Status}))
	return labelled(ctx, &c.remote, std, runsPath, query, func(w io.Writer, all *list[runRow], called labels) {
		rows := make([][]string, 0, len(all.Items))
		for i := range all.Items {
			r := &all.Items[i]
			rows = append(rows, []string{since(&r.CreatedAt), r.AutomationName, called.of(r.Trigger), r.Title, r.state(), called.of(r.ClaimedBy), r.ID})
		}
		table(w, []string{"WHEN", "AUTOMATION", "BY", "EVENT", "STATE", "WORKER", "ID"}, rows)
		more(w, all.NextCursor)
	})
}

// theRun names one.
type theRun struct {
	remote
	ID string `arg:"" help:"Id of the run."`
}

func (r *theRun) path() string { return runsPath + "/" + url.PathEscape(r.ID) }

// say does something with the run and tells where it stands.
func (r *theRun) say(ctx context.Context, std *stdio, verb string, body any) error {
	return alter(ctx, &r.remote, std, http.MethodPost, r.path()+"/"+verb, body, func(w io.Writer, now *runRow) {
		said("run " + now.ID + " is " + now.state())(w)
	})
}

type runShow struct{ theRun }

func (c *runShow) Run(ctx context.Context, std *stdio) error {
	return labelled(ctx, &c.remote, std, c.path(), nil, func(w io.Writer, r *runRow, called labels) {
		said(fmt.Sprintf("run %s of %s: %s", r.ID, r.AutomationName, r.Title))(w)
		said(fmt.Sprintf("%s, attempt %d, %s", r.state(), r.Attempt, r.times()))(w)
		if r.Message != "" {
			said(r.Message)(w)
		}
		if r.ClaimedBy != "" {
			said(r.worker(called.of(r.ClaimedBy)))(w)
		}
		said(fmt.Sprintf("event %s of %s", r.Event, called.of(r.Trigger)))(w)
		if r.Session != "" {
			said("session " + r.Session + r.sessionNote())(w)
		}
		for _, next := range r.next() {
			said(next.why + ": " + c.hint(next.words...))(w)
		}
		if r.Result != nil {
			block(w, "    ", r.Result)
		}
	})
}

// times are what a run went through, and when.
func (r *runRow) times() string {
	text := "made " + since(&r.CreatedAt)
	if r.StartedAt != nil {
		text += ", started " + since(r.StartedAt)
	}
	if r.EndedAt != nil {
		text += ", ended " + since(r.EndedAt)
	}
	return text
}

// taken reports whether somebody has the run, who may still end it.
func (r *runRow) taken() bool { return r.Deadline != nil && !r.Status.Ended() }

// worker says who has the run and for how long, or who had it.
func (r *runRow) worker(name string) string {
	switch {
	case !r.taken():
		return "worker " + name + ", who has it no more"
	case r.LeaseUntil != nil:
		return "worker " + name + ", lease ends " + since(r.LeaseUntil) + ", deadline " + since(r.Deadline)
	}
	return "worker " + name + ", deadline " + since(r.Deadline)
}

func (r *runRow) sessionNote() string {
	if r.taken() {
		return ""
	}
	return ", which has ended"
}

// way is what a person can do next, and why he may want to.
type way struct {
	why   string
	words []string
}

// next are the steps that lead on.
func (r *runRow) next() []way {
	again := way{"have it done again with", []string{"run", "redrive", r.ID}}
	switch {
	case r.Waiting > 0:
		return []way{{"see what waits with", []string{"pending"}}}
	case r.Status == event.RunQueued:
		return []way{{"take it with", []string{"run", "claim", "--run", r.ID}}}
	case r.Status == event.RunNeeds && !r.taken():
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
	Automation string   `placeholder:"REF" help:"Only of this automation."`
	Which      string   `name:"run" placeholder:"ID" help:"This run (default: the one that waits longest)."`
	Lease      *lasting `placeholder:"D" help:"How long the worker may be silent (default: 5m)."`
	Wait       lasting  `placeholder:"D" help:"Wait this long for a run, at most 60s (default: do not)."`
}

// Run prints JSON in any case: it is for programs.
func (c *runClaim) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	body := map[string]any{}
	for name, value := range map[string]string{"automation": c.Automation, "run": c.Which} {
		if value != "" {
			body[name] = value
		}
	}
	if c.Lease != nil {
		body["lease"] = c.Lease.String()
	}
	query := url.Values{}
	if c.Wait.Duration > 0 {
		query.Set("wait", c.Wait.String())
	}
	status, raw, err := server.ask(ctx, http.MethodPost, runsPath+"/claim", query, body)
	if err != nil {
		return err
	}
	if status == http.StatusNoContent {
		std.notes = append(std.notes, "no run waits")
		return nil
	}
	return std.printJSON(raw)
}

type runRenew struct {
	theRun
	Claim string `required:"" placeholder:"ID" help:"The claim_id that claim printed."`
}

func (c *runRenew) Run(ctx context.Context, std *stdio) error {
	return c.say(ctx, std, "renew", map[string]any{"claim_id": c.Claim})
}

// runOutcome is how a run ended.
type runOutcome struct {
	Code    string     `help:"Why it did not succeed, for programs, such as tests_failed."`
	Message string     `help:"The same for people."`
	Result  jsonResult `placeholder:"JSON" help:"What came of it."`
}

func (e *runOutcome) body(status string) map[string]any {
	body := map[string]any{"status": status}
	if e.Code != "" {
		body["code"] = e.Code
	}
	if e.Message != "" {
		body["message"] = e.Message
	}
	if e.Result.raw != nil {
		body["result"] = e.Result.raw
	}
	return body
}

type runFinish struct {
	theRun
	runOutcome
	Claim  string `required:"" placeholder:"ID" help:"The claim_id that claim printed."`
	Status string `arg:"" enum:"succeeded,failed,needs_human" help:"succeeded, failed or needs_human."`
}

func (c *runFinish) Run(ctx context.Context, std *stdio) error {
	body := c.body(c.Status)
	body["claim_id"] = c.Claim
	return c.say(ctx, std, "finish", body)
}

type runCancel struct {
	theRun
	Reason string `help:"Why."`
}

func (c *runCancel) Run(ctx context.Context, std *stdio) error {
	return c.say(ctx, std, "cancel", map[string]any{"reason": c.Reason})
}

type runResolve struct {
	theRun
	runOutcome
	Status string `arg:"" enum:"succeeded,failed" help:"succeeded or failed."`
}

func (c *runResolve) Run(ctx context.Context, std *stdio) error {
	return c.say(ctx, std, "resolve", c.body(c.Status))
}

type runRedrive struct{ theRun }

func (c *runRedrive) Run(ctx context.Context, std *stdio) error {
	return c.say(ctx, std, "redrive", nil)
}

// labelled shows path with the names of who works and of what starts runs.
func labelled[T any](ctx context.Context, r *remote, std *stdio, path string, query url.Values, human func(io.Writer, *T, labels)) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	var now T
	raw, err := server.read(ctx, path, query, &now)
	if err != nil {
		return err
	}
	return r.print(std, raw, func(w io.Writer) {
		human(w, &now, server.labels(ctx, usersPath, keysPath, api.ListTriggers.Path, api.ListSchedules.Path))
	})
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
