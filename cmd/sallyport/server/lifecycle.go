package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/oklog/run"

	"sallyport/action"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/hangup"
	"sallyport/mcpserver"
)

// ready returns nil if the instance accepts calls. It does not need Valkey:
// without it, calls are only slower.
func (g *Gateway) ready() error {
	if g.stopping.Load() {
		return errors.New("shutting down")
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	err := g.DB.Ping(ctx)
	switch down := err != nil; {
	case g.databaseDown.Swap(down) == down: // already logged
	case down:
		g.log.Error("the database is unavailable; new calls wait for it, then fail", "error", err)
	default:
		g.log.Info("the database is available again")
	}
	return err
}

// handler routes requests to the MCP server, the dashboard and the webhook server.
func (g *Gateway) handler() http.Handler {
	page, mux := g.page.Handler(), http.NewServeMux()
	mux.Handle("/mcp", g.mcp)
	mux.Handle("/llm/", g.models)
	for _, path := range mcpserver.OAuthPaths() {
		mux.HandleFunc(path, mcpserver.RefuseOAuth)
	}
	mux.Handle("/git/", g.git)
	mux.Handle("GET /metrics", g.metrics())
	mux.Handle("/", page)
	if g.inbound != nil {
		g.inbound.mount(mux, g.tracing)
	} else {
		mux.HandleFunc("/webhooks/", noWebhooks)
	}
	return g.tracing.traceRequests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			// The mux would redirect a path with an empty segment; the API reports
			// what is missing.
			page.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// noWebhooks answers webhooks on an instance that does not receive them.
func noWebhooks(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"error":"This instance does not receive webhooks. Route /webhooks/ to an instance of sallyport ingest, or run sallyport serve."}`+"\n")
}

// Run serves until ctx ends or a part fails, then closes the gateway.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.Close()
	var group run.Group
	g.addServer(&group)
	g.addInbound(&group)
	for _, actor := range g.actors() {
		// They outlive ctx: calls that are being answered need them.
		free, stop := context.WithCancel(context.WithoutCancel(ctx))
		group.Add(func() error { return actor(free) }, func(error) { stop() })
	}
	group.Add(func() error { <-ctx.Done(); return ctx.Err() }, func(error) {})
	defer g.coord.Subscribe(g.invalidate)()
	err := group.Run()
	g.log.Info("stopped")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// actors returns the loops that run beside the HTTP server.
func (g *Gateway) actors() []func(context.Context) error {
	all := []func(context.Context) error{g.gate.Run, g.mcp.Run, g.runPeriodicJobs, g.runNotifier}
	if g.DB.Shared() {
		all = append(all, g.watchRows)
	}
	if g.coord.valkey != nil {
		all = append(all, g.coord.valkey.Run)
	}
	return all
}

// runPeriodicJobs runs the periodic jobs until ctx ends.
func (g *Gateway) runPeriodicJobs(ctx context.Context) error {
	iv := g.Options.Intervals
	jobs := []job{
		{name: "sweep", every: iv.SweepEvery, once: true, do: g.gate.Sweep},
		{name: "clean", every: time.Minute, once: true, do: g.clean},
		{name: "seal", every: iv.SealEvery, once: true, do: newSealer(g.DB, g.AuditKey, g.log).seal},
	}
	jobs = append(jobs, g.sessionJobs()...)
	runs, err := g.inboundJobs()
	if err != nil {
		return err
	}
	jobs = append(jobs, runs...)
	if g.Options.Retention > 0 {
		jobs = append(jobs, job{name: "retain", every: time.Minute, once: true, do: g.retain})
	}
	if g.Master.file != "" {
		jobs = append(jobs, job{name: "rotate", every: 5 * time.Second, do: g.resumeRotation})
	}
	if g.DB.Shared() {
		jobs = append(jobs, job{name: "clock", every: iv.ClockEvery, do: func(ctx context.Context) {
			if err := g.DB.SyncClock(ctx); err != nil && ctx.Err() == nil {
				g.log.Warn("could not compare the clock with the database's", "error", err)
			}
		}})
		if g.endpointWritten {
			jobs = append(jobs, job{name: "key", every: endpointKeyRenewal, do: g.renewEndpointKey})
		}
	}
	for i := range jobs {
		jobs[i] = g.counts.observeJob(jobs[i])
	}
	return runJobs(ctx, g.coord, g.log, jobs)
}

// clean deletes expired rows in batches.
func (g *Gateway) clean(ctx context.Context) {
	now := g.DB.Now()
	for what, sweep := range map[string]func(limit int) (int, error){
		"signals":         func(limit int) (int, error) { return g.DB.SweepSignals(ctx, now.Add(-signalsKept), limit) },
		"API keys":        func(limit int) (int, error) { return g.DB.SweepAPIKeys(ctx, now, limit) },
		"MCP sessions":    func(limit int) (int, error) { return g.DB.SweepMCPSessions(ctx, now, limit) },
		"grants":          func(limit int) (int, error) { return g.DB.SweepGrants(ctx, now, limit) },
		"notifications":   func(limit int) (int, error) { return g.DB.SweepNotifications(ctx, now.Add(-noticeRetention), limit) },
		"signing secrets": func(limit int) (int, error) { return g.DB.SweepSigningSecrets(ctx, now, limit) },
		"variables":       func(limit int) (int, error) { return g.DB.SweepEnv(ctx, now, limit) },
		"pushes": func(int) (int, error) {
			return 0, g.git.Clean(time.Now().Add(-g.Options.Intervals.HoldUnattended - time.Hour))
		},
		"evidence":       func(limit int) (int, error) { return g.sweepEvidence(ctx, now, limit) },
		"model requests": func(limit int) (int, error) { return g.sweepModelRequests(ctx, now, limit) },
	} {
		deleted := 0
		for n := cleanBatch; n == cleanBatch && ctx.Err() == nil; {
			var err error
			n, err = sweep(cleanBatch)
			if deleted += n; err != nil {
				g.log.Warn("could not delete expired rows", "what", what, "error", err)
				break
			}
		}
		if deleted > 0 {
			g.log.Info("expired rows deleted", "what", what, "count", deleted)
		}
	}
}

const (
	cleanBatch  = 100
	signalsKept = 10 * time.Minute
)

// watchRows polls the database for changes by other instances.
func (g *Gateway) watchRows(ctx context.Context) error {
	w := g.watch
	w.rows, w.deliver, w.receive, w.poll = g.DB, g.coord.deliver, g.mcp.Receive, g.gate.Poll
	w.hinted, w.now, w.every, w.log = g.hinted, g.DB.Now, g.Options.Intervals.PollEvery, g.log
	defer g.coord.Subscribe(w.hint)()
	return w.run(ctx)
}

// invalidate drops cached snapshots of what changed.
func (g *Gateway) invalidate(h action.Hint) {
	switch h.Kind {
	case action.HintPolicy:
		g.policies.invalidate(h.Organization)
	case action.HintSession:
		g.sessions.invalidate(h.Session)
	case action.HintCatalog:
		g.catalog.Invalidate(h.Organization)
	case action.HintInvocation, action.HintSignal, action.HintResource, action.HintRun, action.HintReload:
	}
}

// addServer adds the HTTP server. Its interrupt answers waiting callers before it
// closes connections.
func (g *Gateway) addServer(group *run.Group) {
	streams, end := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: g.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return streams },
		ConnContext: hangup.ConnContext, // so that a result that the client did not receive is not marked as delivered
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	group.Add(func() error { return server.Serve(g.listener) }, func(error) {
		g.stopping.Store(true)
		if delay := g.Options.Intervals.ShutdownDelay; delay > 0 {
			g.log.Info("shutting down after a delay for load balancers", "in", delay)
			time.Sleep(delay)
		}
		g.gate.Refuse()
		g.log.Info("shutting down: answering callers and waiting for executing calls (interrupt again to exit at once)")
		g.drain(g.Options.Intervals.ShutdownWithin)
		g.page.Close()
		end() // event streams
		last, stop := context.WithTimeout(context.Background(), responseGrace)
		defer stop()
		if err := server.Shutdown(last); err != nil {
			_ = server.Close()
		}
	})
}

// responseGrace is how long responses may take at the end of a shutdown.
const responseGrace = 2 * time.Second

// drain waits until callers are answered and executing calls have ended.
func (g *Gateway) drain(within time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	if err := g.mcp.Drain(ctx); err != nil {
		g.log.Warn("some callers could not be answered in time", "error", err)
	}
	if err := g.models.Drain(ctx); err != nil {
		g.log.Warn("some requests to models did not end in time", "error", err)
	}
	if err := g.gate.Drain(ctx); err != nil {
		g.log.Warn("some calls did not end in time; their outcome is unknown", "error", err)
	}
}

// revokeEndpointKey revokes the key of endpoint.json. If that fails, the next start
// in this folder revokes it.
func (g *Gateway) revokeEndpointKey() {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if err := g.DB.RevokeAPIKey(ctx, g.endpointAPIKey.Organization, g.endpointAPIKey.ID, g.DB.Now()); err != nil {
		g.log.Warn("could not revoke the key of endpoint.json", "error", err)
	}
}

// Close closes everything that was opened.
func (g *Gateway) Close() {
	if g.endpointWritten {
		_ = os.Remove(command.EndpointPath(g.Options.Data))
		g.revokeEndpointKey()
	}
	if g.folderLock != nil {
		_ = g.folderLock.Close() // releases the lock
	}
	if g.catalog != nil {
		if err := g.catalog.Close(); err != nil {
			g.log.Error("could not close the connectors", "error", err)
		}
	}
	if g.oauth != nil {
		if err := g.oauth.Close(); err != nil {
			g.log.Error("could not stop the renewal of tokens", "error", err)
		}
	}
	if g.tokens != nil {
		if err := g.tokens.Close(); err != nil {
			g.log.Error("could not stop the renewal of integrations", "error", err)
		}
	}
	if g.outbound != nil {
		g.outbound.Close()
	}
	for _, t := range g.gitTransports {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
	if g.models != nil {
		g.models.Close()
	}
	if g.inbound != nil {
		g.inbound.sender.close()
	}
	if g.notifier != nil {
		g.notifier.sender.close()
	}
	if g.files != nil {
		if err := g.files.Close(); err != nil {
			g.log.Error("could not close the store of evidence files", "error", err)
		}
	}
	if g.listener != nil {
		_ = g.listener.Close()
	}
	g.tracing.close()
	if g.DB != nil {
		if err := g.DB.Close(); err != nil {
			g.log.Error("could not close the database", "error", err)
		}
	}
}
