package server

import (
	"context"
	"net/http"
	"time"

	"github.com/oklog/run"
	"golang.org/x/sync/errgroup"

	"sallyport/action"
	"sallyport/cmd/sallyport/command"
	"sallyport/ingest/dispatch"
	"sallyport/ingest/event"
	"sallyport/ingest/inbox"
	"sallyport/ingest/loop"
	"sallyport/ingest/poll"
	"sallyport/ingest/schedule"
	"sallyport/ingest/webhook"
	"sallyport/internal/guard"
	"sallyport/store"
)

// inbound receives webhooks, polls services and fires schedules, and delivers
// the runs that these start.
type inbound struct {
	server     *webhook.Server
	worker     *inbox.Worker
	poller     *poll.Poller
	scheduler  *schedule.Scheduler
	dispatcher *dispatch.Dispatcher
	pace       loop.Pace
	sender     runSender
	metrics    inboundMetrics
}

// openInbound builds the inbound parts. They start with [inbound.run].
func (g *Gateway) openInbound(context.Context) (err error) {
	in := &inbound{sender: newRunSender(guard.Config{Allow: g.Options.AllowUpstream}), metrics: newInboundMetrics()}
	if in.dispatcher, err = dispatch.NewDispatcher(g.dispatcherConfig(in)); err != nil {
		return err
	}
	if in.worker, err = inbox.NewWorker(g.workerConfig(in)); err != nil {
		return err
	}
	if in.server, err = webhook.NewServer(g.webhookConfig(in)); err != nil {
		return err
	}
	if in.poller, err = poll.NewPoller(g.pollerConfig(in)); err != nil {
		return err
	}
	if in.scheduler, err = schedule.NewScheduler(g.schedulerConfig(in)); err != nil {
		return err
	}
	g.inbound = in
	return nil
}

func (g *Gateway) webhookConfig(in *inbound) webhook.Config {
	o := &g.Options
	perMinute := o.WebhookRate
	if perMinute == 0 {
		perMinute = -1 // there, zero selects the default
	}
	return webhook.Config{
		Providers: ingestProviders(), Rows: g.DB, Vault: g.vault,
		Secrets: o.WebhookSecrets.of, Operator: store.DefaultOrganization, PerMinute: perMinute, Tolerances: o.WebhookTolerance.of,
		Pace: &in.pace, Accepted: in.worker.Wake, Count: in.metrics.countWebhook, NewID: newID, Now: g.DB.Now, Log: g.log,
	}
}

func (g *Gateway) workerConfig(in *inbound) inbox.Config {
	iv := g.Options.Intervals
	return inbox.Config{
		Providers: ingestProviders(), Rows: g.DB, Integrations: inboundServices{g},
		Vault: g.vault, JSON: g.json, Operator: store.DefaultOrganization, Worker: g.instance, NewID: newID, Hydrates: g.hydrates,
		Timing: iv.Inbox, Backoff: exponentialBackoff(iv.InboxPause), Pace: &in.pace,
		Began: in.runsStarted(g), Count: in.metrics.countDelivery, Now: g.DB.Now, Log: g.log,
	}
}

// exponentialBackoff returns delays that double from first; nil selects the
// default delays.
func exponentialBackoff(first time.Duration) func(attempt int) time.Duration {
	if first == 0 {
		return nil
	}
	return func(attempt int) time.Duration { return first << min(attempt-1, 10) }
}

func (g *Gateway) pollerConfig(in *inbound) poll.Config {
	return poll.Config{
		Providers: ingestProviders(), Rows: g.DB, Integrations: inboundServices{g}, Vault: g.vault, JSON: g.json,
		Worker: g.instance, NewID: newID, Timing: g.Options.Intervals.Poll,
		Began: in.runsStarted(g), Looked: in.metrics.observePoll, Now: g.DB.Now, Log: g.log,
	}
}

func (g *Gateway) schedulerConfig(in *inbound) schedule.Config {
	return schedule.Config{
		Rows: g.DB, Vault: g.vault, JSON: g.json, NewID: newID, Timing: g.Options.Intervals.Schedule,
		Began: in.runsStarted(g), Now: g.DB.Now, Log: g.log,
	}
}

func (g *Gateway) dispatcherConfig(in *inbound) dispatch.DispatcherConfig {
	return dispatch.DispatcherConfig{
		Rows: g.DB, Vault: g.vault, JSON: g.json, Do: in.sender.Do, Worker: g.instance, Token: g.signer.Mint,
		MCPURL: g.URL + "/mcp", APIURL: g.URL + "/api/v1", UserAgent: "sallyport/" + command.Version(),
		Timing: g.Options.Intervals.Dispatch, Life: g.Options.RunLife.Duration,
		Changed: func(runs []event.Run) { g.runsChanged(runs, nil) }, Now: g.DB.Now, Log: g.log,
	}
}

// runsStarted returns the callback for new runs: it publishes them and wakes
// the dispatcher.
func (in *inbound) runsStarted(g *Gateway) func([]event.Run) {
	return func(runs []event.Run) {
		for _, r := range runs {
			g.log.Info("run queued", "organization", r.Organization, "run", r.ID, "automation", r.Automation, "event", r.Event)
			g.publishRun(r)
			g.tracing.recordRun(&r)
		}
		in.dispatcher.Wake()
	}
}

// run processes events until ctx ends, then finishes the work in progress within
// seconds.
func (in *inbound) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{in.worker.Run, in.poller.Run, in.scheduler.Run, in.dispatcher.Run} {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
}

// addInbound adds the inbound parts to a group, right after the server: they
// stop once no more requests arrive, while the parts that they need still run.
func (g *Gateway) addInbound(group *run.Group) {
	if g.inbound == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	group.Add(func() error {
		defer close(done)
		return g.inbound.run(ctx)
	}, func(error) {
		stop()
		<-done
	})
}

// mount registers the webhook routes.
func (in *inbound) mount(mux *http.ServeMux, t *tracing) {
	mux.Handle("/webhooks/", t.traceWebhooks(in.server.Handler()))
}

// inboundJobs returns the jobs that end overdue runs and delete old payloads. Any
// process can run them.
func (g *Gateway) inboundJobs() ([]job, error) {
	o := &g.Options
	sweeper, err := dispatch.NewSweeper(dispatch.SweeperConfig{
		Sweep: g.DB.SweepRuns, Forget: g.DB.PurgeInbound, Retention: o.PayloadRetention, Changed: g.runsChanged, Now: g.DB.Now, Log: g.log,
	})
	if err != nil {
		return nil, err
	}
	all := []job{{name: "runs", every: o.Intervals.RunSweepEvery, once: true, do: sweeper.Sweep}}
	if o.PayloadRetention > 0 {
		all = append(all, job{name: "payloads", every: time.Minute, once: true, do: sweeper.Forget})
	}
	return all, nil
}

// publishRun notifies people and waiting workers of a run.
func (g *Gateway) publishRun(r event.Run) {
	g.coord.Publish(action.Hint{Kind: action.HintRun, Organization: r.Organization, Run: r.ID, Status: action.Status(r.Status)})
}

// runsChanged publishes runs that the gateway itself changed. It invalidates
// the session of a run that its worker has lost, on all instances.
func (g *Gateway) runsChanged(runs []event.Run, withdrew []action.Invocation) {
	for _, r := range runs {
		g.publishRun(r)
		if r.Session == "" || r.Status == event.RunClaimed {
			continue
		}
		g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: r.Organization, Session: r.Session})
	}
	g.publishWithdrawn(withdrew)
}

// runSender sends runs to the endpoints of organizations. It reaches private
// addresses only if the operator allows them, and loopback only if the URL
// names it. It does not follow redirects.
type runSender struct{ public, loopback *http.Client }

func newRunSender(c guard.Config) runSender {
	client := func(loopback bool) *http.Client {
		c.AllowLoopback = loopback
		return &http.Client{
			Transport:     guard.NewTransport(c),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return runSender{public: client(false), loopback: client(true)}
}

// Do sends a request. It implements [dispatch.DispatcherConfig.Do].
func (s runSender) Do(r *http.Request) (*http.Response, error) {
	if guard.Loopback(r.URL) {
		return s.loopback.Do(r)
	}
	return s.public.Do(r)
}

func (s runSender) close() {
	s.public.CloseIdleConnections()
	s.loopback.CloseIdleConnections()
}
