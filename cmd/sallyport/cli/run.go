package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/ingest/event"
)

type runCommand struct {
	List     request[api.RunQuery, api.List[api.RunView]]          `cmd:"" help:"List runs of automations, newest first."`
	Show     request[api.ByID, api.RunView]                        `cmd:"" help:"Show a run."`
	Claim    runClaim                                              `cmd:"" help:"Claim a queued run and print what its worker needs."`
	Renew    request[api.ByIDWith[*api.Renewal], api.RunView]      `cmd:"" help:"Renew the lease of a claimed run."`
	Finish   request[api.ByIDWith[api.Finish], api.RunView]        `cmd:"" help:"Finish a run as its worker."`
	Cancel   request[api.ByIDWith[*api.Cancellation], api.RunView] `cmd:"" help:"Cancel a run."`
	Resolve  request[api.ByIDWith[api.Resolution], api.RunView]    `cmd:"" help:"Set the result of a run that needs a human, or dismiss a failed run: run resolve ID failed."`
	Redrive  request[api.ByID, api.RunView]                        `cmd:"" help:"Repeat a run that failed or needs a human."`
	Outbox   outboxCommand                                         `cmd:"" set:"thing=delivery; see run outbox" help:"List deliveries of runs to the endpoint, or repeat one."`
	Endpoint endpointCommand                                       `cmd:"" help:"Manage the URL that receives runs."`
}

// runState describes the status of the run and its cause.
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

func showRunState(w io.Writer, run *api.RunView) { printLine(w, "run "+run.ID+" is "+runState(run)) }

// runTimes describes when a run was created, started and ended.
func runTimes(r *api.RunView) string {
	text := "created " + relativeTime(&r.CreatedAt)
	if r.StartedAt != nil {
		text += ", started " + relativeTime(r.StartedAt)
	}
	if r.EndedAt != nil {
		text += ", ended " + relativeTime(r.EndedAt)
	}
	return text
}

// runClaimed reports whether a worker holds the run and can still finish it.
func runClaimed(r *api.RunView) bool { return r.Deadline != nil && !r.Status.Ended() }

// runWorker describes the worker of the run and its deadlines.
func runWorker(r *api.RunView, name string) string {
	switch {
	case !runClaimed(r):
		return "worker " + name + ", claim ended"
	case r.LeaseUntil != nil:
		return "worker " + name + ", lease ends " + relativeTime(r.LeaseUntil) + ", deadline " + relativeTime(r.Deadline)
	}
	return "worker " + name + ", deadline " + relativeTime(r.Deadline)
}

func runSessionNote(r *api.RunView) string {
	if runClaimed(r) {
		return ""
	}
	return ", which has ended"
}

// nextStep is a command that the user can run next.
type nextStep struct {
	label string
	args  []string
}

// nextSteps returns the commands that fit the state of the run.
func nextSteps(r *api.RunView) []nextStep {
	redrive := nextStep{"repeat it with", []string{"run", "redrive", r.ID}}
	switch {
	case r.Waiting > 0:
		return []nextStep{{"see pending approvals with", []string{"pending"}}}
	case r.Status == event.RunQueued:
		return []nextStep{{"claim it with", []string{"run", "claim", "--run", r.ID}}}
	case r.Status == event.RunNeedsHuman && !runClaimed(r):
		return []nextStep{{"set its result with", []string{"run", "resolve", r.ID, "succeeded"}}, redrive}
	case r.Code == event.RunUndelivered:
		return []nextStep{{"see the responses of the endpoint with", []string{"run", "outbox", "--status", "dead"}}, redrive}
	case r.NeedsAttention:
		return []nextStep{redrive, {"dismiss it with", []string{"run", "resolve", r.ID, "failed"}}}
	case r.Status == event.RunFailed:
		return []nextStep{redrive}
	}
	return nil
}

type runClaim struct {
	clientFlags
	api.ClaimRequest
	Wait string `type:"span" placeholder:"D" help:"Time to wait for a run, at most 60s (default: no wait)."`
}

// Run always prints JSON, because its callers are programs.
func (c *runClaim) Run(ctx context.Context, std *command.Streams) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	_, raw, err := Fetch(ctx, server, api.ClaimRun, api.ClaimRunInput{Wait: c.Wait, Body: &c.ClaimRequest})
	if err != nil {
		return err
	}
	if len(raw) == 0 { // 204 No Content
		std.Notes = append(std.Notes, "no queued runs")
		return nil
	}
	return std.PrintJSON(raw)
}

type endpointCommand struct {
	Set    endpointSet                 `cmd:"" help:"Set the URL that receives runs; prints the signing secret once."`
	Show   endpointShow                `cmd:"" help:"Show the URL that receives runs."`
	Rotate endpointRotate              `cmd:"" help:"Replace the signing secret of the endpoint."`
	Remove request[api.None, api.None] `cmd:"" help:"Remove the endpoint; runs then wait to be claimed."`
}

type endpointSet struct {
	clientFlags
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
	return perform(ctx, &c.clientFlags, std, api.PutRunEndpoint, api.Body[api.NewEndpoint]{Body: c.NewEndpoint}, func(w io.Writer, e *api.MintedEndpoint) {
		showRunEndpoint(w, &e.EndpointView)
		if e.Secret == "" && !c.SecretStdin {
			printLine(w, "the secret is unchanged; replace it with: "+c.hint("run", "endpoint", "rotate"))
		}
		printSecretOnce(w, std, "signing secret: "+e.Secret, e.Secret)
	})
}

func showRunEndpoint(w io.Writer, e *api.EndpointView) {
	text := "runs are delivered to " + e.URL
	if !e.Enabled {
		text = "runs wait for a worker: delivery to " + e.URL + " is disabled"
	}
	printLine(w, fmt.Sprintf("%s, signed with %s", text, command.Plural(len(e.Secrets), "secret")))
}

type endpointShow struct{ clientFlags }

func (c *endpointShow) Run(ctx context.Context, std *command.Streams) error {
	err := perform(ctx, &c.clientFlags, std, api.GetRunEndpoint, api.None{}, showRunEndpoint)
	var none *problem
	if !errors.As(err, &none) || none.Code != "no_run_endpoint" {
		return err
	}
	return c.print(std, json.RawMessage("{}"), lineText(none.Error()))
}

type endpointRotate struct {
	clientFlags
	rotationFlags
}

func (c *endpointRotate) Run(ctx context.Context, std *command.Streams) error {
	r, err := c.rotation(std, "run endpoint rotate")
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.RotateRunEndpoint, api.Body[*api.Rotation]{Body: r}, c.showRotated(std, "the run endpoint"))
}

type outboxCommand struct {
	List    request[api.RunDeliveryQuery, api.List[event.RunDelivery]] `cmd:"" default:"withargs" help:"List deliveries of runs to the endpoint, newest first."`
	Redrive request[api.ByID, api.RunView]                             `cmd:"" help:"Repeat a delivery that the endpoint did not accept."`
}

// outboxState describes the status of a delivery. A run that was claimed first
// is never sent.
func outboxState(p *event.RunDelivery) string {
	if p.Status == event.DeliveryDelivered && p.Attempt == 0 {
		return "claimed"
	}
	return string(p.Status)
}

func runRow(names labels, r *api.RunView) []string {
	return []string{relativeTime(&r.CreatedAt), r.AutomationName, names.name(r.Trigger), r.Title, runState(r), names.name(r.ClaimedBy), r.ID}
}

func showRun(ctx context.Context, w io.Writer, c *clientFlags, r *api.RunView) {
	names := c.loadLabels(ctx, runActorLists()...)
	printLine(w, fmt.Sprintf("run %s of %s: %s", r.ID, r.AutomationName, r.Title))
	printLine(w, fmt.Sprintf("%s, attempt %d, %s", runState(r), r.Attempt, runTimes(r)))
	if r.Message != "" {
		printLine(w, r.Message)
	}
	if r.ClaimedBy != "" {
		printLine(w, runWorker(r, names.name(r.ClaimedBy)))
	}
	printLine(w, fmt.Sprintf("event %s of %s", r.Event, names.name(r.Trigger)))
	if r.Session != "" {
		printLine(w, "session "+r.Session+runSessionNote(r))
	}
	for _, next := range nextSteps(r) {
		printLine(w, next.label+": "+c.hint(next.args...))
	}
	if r.Result != nil {
		printJSON(w, "    ", r.Result)
	}
}

func runDeliveryRow(p *event.RunDelivery) []string {
	status, next := "", ""
	if p.LastStatus != 0 {
		status = strconv.Itoa(p.LastStatus)
	}
	if p.Status == event.DeliveryPending && p.Attempt > 0 {
		next = relativeTime(&p.NextAt)
	}
	return []string{relativeTime(&p.CreatedAt), outboxState(p), strconv.Itoa(p.Attempt), next, status, truncate(p.LastError), p.Run, p.ID}
}

type eventCommand struct {
	List eventList                           `cmd:"" help:"List events of triggers and schedules, newest first."`
	Show eventShow                           `cmd:"" help:"Show an event and its result."`
	Skip request[api.ByID, api.InboundEvent] `cmd:"" help:"Skip an event whose run is still queued."`
}

// eventOutcome describes the result of the event.
func eventOutcome(e *api.InboundEvent) string {
	switch {
	case e.Skip != "":
		return "skipped: " + string(e.Skip)
	case e.RunStatus == event.RunSkipped:
		return "skipped: its run did not start"
	}
	return e.Status
}

type eventList struct {
	clientFlags
	api.EventQuery
	Skipped *bool `help:"Only events that started no run; --skipped=false for the others."`
}

func (*eventList) route() api.Operation { return api.ListInboundEvents.Operation }

func (c *eventList) Run(ctx context.Context, std *command.Streams) error {
	if c.Skipped != nil {
		c.EventQuery.Skipped = strconv.FormatBool(*c.Skipped)
	}
	return perform(ctx, &c.clientFlags, std, api.ListInboundEvents, c.EventQuery, func(w io.Writer, all *api.List[api.InboundEvent]) {
		names := c.loadLabels(ctx, runActorLists()...)
		table("WHEN AUTOMATION BY PROVIDER TYPE TITLE OUTCOME RUN ID", func(e *api.InboundEvent) []string {
			return []string{relativeTime(&e.CreatedAt), e.AutomationName, names.name(e.Trigger), e.Provider, e.Type, e.Title, eventOutcome(e), e.Run, e.ID}
		})(w, all)
		if len(all.Items) == 0 && c.Trigger != "" && names[c.Trigger] == "" {
			printLine(w, "there is no trigger or schedule "+c.Trigger+"; see: "+c.hint("trigger", "list"))
		}
	})
}

// eventRef is the argument that names an event.
type eventRef struct {
	clientFlags
	ID string `arg:"" help:"ID of the event."`
}

type eventShow struct {
	eventRef
	Whole bool `help:"Show the full, unredacted context that the agent gets; this is logged."`
}

func (*eventShow) route() api.Operation { return api.GetInboundEvent.Operation }

func (c *eventShow) Run(ctx context.Context, std *command.Streams) error {
	if c.Whole {
		return perform(ctx, &c.clientFlags, std, api.GetInboundContext, api.ByID{ID: c.ID}, func(w io.Writer, e *api.WholeContext) { printJSON(w, "", e.Context) })
	}
	return perform(ctx, &c.clientFlags, std, api.GetInboundEvent, api.ByID{ID: c.ID}, showEvent)
}

func showEvent(w io.Writer, e *api.InboundEvent) {
	printLine(w, fmt.Sprintf("%s %s: %s", e.Provider, e.Type, e.Title))
	printLine(w, fmt.Sprintf("of %s, %s, %s", e.AutomationName, relativeTime(&e.CreatedAt), eventOutcome(e)))
	for _, line := range []struct{ what, text string }{{"", e.Error}, {"run ", e.Run}, {"delivery ", e.Receipt}, {"", e.URL}} {
		if line.text != "" {
			printLine(w, line.what+line.text)
		}
	}
	if e.Context != nil {
		printJSON(w, "    ", e.Context)
	}
}

type deliveryCommand struct {
	List    request[api.DeliveryQuery, api.List[api.DeliveryView]] `cmd:"" help:"List webhook deliveries, newest first."`
	Show    request[api.ByID, api.DeliveryView]                    `cmd:"" help:"Show a delivery and its result."`
	Redrive request[api.ByID, api.DeliveryView]                    `cmd:"" help:"Process a failed delivery again."`
}

func deliveryState(d *api.DeliveryView) string {
	switch {
	case d.Duplicate:
		return "duplicate"
	case d.LastError != "":
		return string(d.Status) + ": " + d.LastError
	}
	return string(d.Status)
}

// deliveryAttempts describes the number of attempts and the time of the next
// one.
func deliveryAttempts(d *api.DeliveryView) string {
	text := fmt.Sprintf(" (attempt %d)", d.Attempt)
	if d.Status == event.ReceiptQueued && d.Attempt > 0 {
		text = fmt.Sprintf(" (attempt %d; next attempt %s)", d.Attempt, relativeTime(&d.NextAt))
	}
	return text
}

func deliveryRow(d *api.DeliveryView) []string {
	return []string{relativeTime(&d.ReceivedAt), d.Provider, d.Native, strconv.Itoa(d.Attempt), truncate(deliveryState(d)), d.ID}
}

func showDelivery(_ context.Context, w io.Writer, c *clientFlags, d *api.DeliveryView) {
	printLine(w, strings.TrimRight(d.Provider+" "+d.Native, " ")+" at /webhooks/"+d.Endpoint+", "+relativeTime(&d.ReceivedAt))
	printLine(w, deliveryState(d)+deliveryAttempts(d))
	if d.Status == event.ReceiptFailed {
		printLine(w, "to process it again: "+c.hint("delivery", "redrive", d.ID))
	}
	printLine(w, "to list its events: "+c.hint("event", "list", "--delivery", d.ID))
	if d.Payload != nil {
		printJSON(w, "    ", d.Payload)
	}
}
