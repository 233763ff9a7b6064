package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
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
		text += ", " + command.Plural(r.Waiting, "call") + " to approve"
	}
	return text
}

type runList struct {
	remote
	api.RunQuery
}

func (*runList) route() api.Operation { return api.ListRuns.Operation }

func (c *runList) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.ListRuns, c.RunQuery, func(w io.Writer, all *api.List[api.RunView]) {
		called := c.workLabels(ctx)
		cells("WHEN AUTOMATION BY EVENT STATE WORKER ID", func(r *api.RunView) []string {
			return []string{since(&r.CreatedAt), r.AutomationName, called.of(r.Trigger), r.Title, runState(r), called.of(r.ClaimedBy), r.ID}
		})(w, all)
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

func (c *runShow) Run(ctx context.Context, std *command.Streams) error {
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
	case r.Status == event.RunNeedsHuman && !runTaken(r):
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
	api.Wish
	Wait string `type:"span" placeholder:"D" help:"Time to wait for a run, at most 60s (default: no wait)."`
}

// Run prints JSON in any case: it is for programs.
func (c *runClaim) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	_, raw, err := Fetch(ctx, server, api.ClaimRun, api.ClaimRunInput{Wait: c.Wait, Body: &c.Wish})
	if err != nil {
		return err
	}
	if len(raw) == 0 { // 204
		std.Notes = append(std.Notes, "no run waits")
		return nil
	}
	return std.PrintJSON(raw)
}

type runRenew struct {
	theRun
	api.Renewal
}

func (c *runRenew) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.RenewRun, runWith(&c.theRun, &c.Renewal), showRunState)
}

type runFinish struct {
	theRun
	api.Finish
}

func (c *runFinish) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.FinishRun, runWith(&c.theRun, c.Finish), showRunState)
}

type runCancel struct {
	theRun
	api.Cancellation
}

func (c *runCancel) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.CancelRun, runWith(&c.theRun, &c.Cancellation), showRunState)
}

type runResolve struct {
	theRun
	api.Resolution
}

func (c *runResolve) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.ResolveRun, runWith(&c.theRun, c.Resolution), showRunState)
}

type runRedrive struct{ theRun }

func (c *runRedrive) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.RedriveRun, api.ByID{ID: c.ID}, showRunState)
}

type endpointPlace struct {
	Set    endpointSet    `cmd:"" help:"Set the URL that receives runs; prints the signing secret once."`
	Show   endpointShow   `cmd:"" help:"Show the URL that receives runs."`
	Rotate endpointRotate `cmd:"" help:"Replace the signing secret of the endpoint."`
	Remove endpointRemove `cmd:"" help:"Remove the endpoint; runs then wait to be claimed."`
}

type endpointSet struct {
	remote
	api.NewEndpoint
	Disabled    bool `help:"Do not deliver yet; runs wait to be claimed."`
	SecretStdin bool `help:"Read the secret from standard input instead of generating one."`
}

func (*endpointSet) route() api.Operation { return api.PutRunEndpoint.Operation }

func (c *endpointSet) Run(ctx context.Context, std *command.Streams) (err error) {
	c.Enabled = new(!c.Disabled)
	if c.SecretStdin {
		if c.Secret, err = readSecret(std, "run endpoint set URL --secret-stdin"); err != nil {
			return err
		}
	}
	return perform(ctx, &c.remote, std, api.PutRunEndpoint, api.Body[api.NewEndpoint]{Body: c.NewEndpoint}, func(w io.Writer, e *api.MintedEndpoint) {
		showRunEndpoint(w, &e.EndpointView)
		if e.Secret == "" && !c.SecretStdin {
			said("the secret stays as it is; replace it with: " + c.hint("run", "endpoint", "rotate"))(w)
		}
		sayOnce(w, std, "the secret is "+e.Secret, e.Secret)
	})
}

func showRunEndpoint(w io.Writer, e *api.EndpointView) {
	text := "runs are delivered to " + e.URL
	if !e.Enabled {
		text = "runs wait to be claimed: delivery to " + e.URL + " is disabled"
	}
	said(fmt.Sprintf("%s, signed with %s", text, command.Plural(len(e.Secrets), "secret")))(w)
}

type endpointShow struct{ remote }

func (c *endpointShow) Run(ctx context.Context, std *command.Streams) error {
	err := perform(ctx, &c.remote, std, api.GetRunEndpoint, api.None{}, showRunEndpoint)
	var none *problem
	if !errors.As(err, &none) || none.Code != "no_run_endpoint" {
		return err
	}
	return c.print(std, json.RawMessage("{}"), said(none.Error()))
}

type endpointRotate struct {
	remote
	replacement
}

func (c *endpointRotate) Run(ctx context.Context, std *command.Streams) error {
	r, err := c.rotation(std, "run endpoint rotate")
	if err != nil {
		return err
	}
	return perform(ctx, &c.remote, std, api.RotateRunEndpoint, api.Body[*api.Rotation]{Body: r}, c.replaced(std, "the endpoint for runs"))
}

type endpointRemove struct{ remote }

func (c *endpointRemove) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.DeleteRunEndpoint, api.None{}, done("runs are delivered no more; they wait to be claimed"))
}

type outboxPlace struct {
	List    outboxList    `cmd:"" default:"withargs" help:"List deliveries of runs to the endpoint, newest first."`
	Redrive outboxRedrive `cmd:"" help:"Repeat a delivery that the endpoint did not accept."`
}

type outboxList struct {
	remote
	api.ParcelQuery
}

func (*outboxList) route() api.Operation { return api.ListOutbox.Operation }

func (c *outboxList) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.ListOutbox, c.ParcelQuery, cells("WHEN STATE ATTEMPT NEXT HTTP ERROR RUN ID", func(p *event.Parcel) []string {
		status, next := "", ""
		if p.LastStatus != 0 {
			status = strconv.Itoa(p.LastStatus)
		}
		if p.Status == event.ParcelPending && p.Attempt > 0 {
			next = since(&p.NextAt)
		}
		return []string{since(&p.CreatedAt), parcelState(p), strconv.Itoa(p.Attempt), next, status, brief(p.LastError), p.Run, p.ID}
	}))
}

// parcelState is where a delivery stands. One of a run that was claimed was
// never sent.
func parcelState(p *event.Parcel) string {
	if p.Status == event.ParcelDelivered && p.Attempt == 0 {
		return "claimed"
	}
	return string(p.Status)
}

type outboxRedrive struct {
	remote
	ID string `arg:"" help:"ID of the delivery; see run outbox."`
}

func (c *outboxRedrive) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.remote, std, api.RedriveParcel, api.ByID{ID: c.ID}, showRunState)
}
