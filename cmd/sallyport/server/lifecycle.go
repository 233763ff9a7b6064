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

// ready tells whether calls are taken. Without Valkey they are, only slower.
func (g *Gateway) ready() error {
	if g.stopping.Load() {
		return errors.New("shutting down")
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	err := g.DB.Ping(ctx)
	switch away := err != nil; {
	case g.databaseDown.Swap(away) == away: // already logged
	case away:
		g.log.Error("the database is away; new calls wait for it, and then are refused", "error", err)
	default:
		g.log.Info("the database is back")
	}
	return err
}

// handler joins the doors.
func (g *Gateway) handler() http.Handler {
	page, mux := g.page.Handler(), http.NewServeMux()
	mux.Handle("/mcp", g.mcp)
	for _, path := range mcpserver.OAuthPaths() {
		mux.HandleFunc(path, mcpserver.RefuseOAuth)
	}
	mux.Handle("GET /metrics", g.metrics())
	mux.Handle("/", page)
	if g.inbound != nil {
		g.inbound.mount(mux, g.tracing)
	} else {
		mux.HandleFunc("/webhooks/", noWebhooks)
	}
	return g.tracing.traceRequests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			// The mux redirects a path that lacks a part; the API says what it lacks.
			page.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// noWebhooks tells whoever set up a trigger's URL where deliveries go.
func noWebhooks(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"error":"This instance takes no webhooks: route /webhooks/ to one of sallyport ingest, or run sallyport serve."}`+"\n")
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
	ends := g.coord.Subscribe(g.forget)
	defer ends()
	err := group.Run()
	g.log.Info("stopped")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// actors are what runs beside the HTTP server.
func (g *Gateway) actors() []func(context.Context) error {
	all := []func(context.Context) error{g.gate.Run, g.mcp.Run, g.keepUp, g.runNotifier}
	if g.DB.Shared() {
		all = append(all, g.watchRows)
	}
	if g.coord.valkey != nil {
		all = append(all, g.coord.valkey.Run)
	}
	return all
}

// keepUp does what is to be done again and again.
func (g *Gateway) keepUp(ctx context.Context) error {
	iv := g.Options.Intervals
	chores := []chore{
		{name: "sweep", every: iv.SweepEvery, once: true, do: g.gate.Sweep},
		{name: "clean", every: time.Minute, once: true, do: g.clean},
		{name: "seal", every: iv.SealEvery, once: true, do: newSealer(g.DB, g.AuditKey, g.log).seal},
	}
	chores = append(chores, g.sessionChores()...)
	runs, err := g.runChores()
	if err != nil {
		return err
	}
	chores = append(chores, runs...)
	if g.Options.Retention > 0 {
		chores = append(chores, chore{name: "retain", every: time.Minute, once: true, do: g.retain})
	}
	if g.Master.file != "" {
		chores = append(chores, chore{name: "rotate", every: 5 * time.Second, do: g.resumeRotation})
	}
	if g.DB.Shared() {
		chores = append(chores, chore{name: "clock", every: iv.ClockEvery, do: func(ctx context.Context) {
			if err := g.DB.SyncClock(ctx); err != nil && ctx.Err() == nil {
				g.log.Warn("comparing this clock with the database's", "error", err)
			}
		}})
		if g.endpointWritten {
			chores = append(chores, chore{name: "key", every: endpointKeyRenewal, do: g.renewEndpointKey})
		}
	}
	for i := range chores {
		chores[i] = g.counts.observeChore(chores[i])
	}
	return upkeep(ctx, g.coord, g.log, chores)
}

// clean deletes rows that mean nothing any more, a hundred at a time.
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
		"evidence":        func(limit int) (int, error) { return g.sweepEvidence(ctx, now, limit) },
	} {
		for n := cleanBatch; n == cleanBatch && ctx.Err() == nil; {
			var err error
			if n, err = sweep(cleanBatch); err != nil {
				g.log.Warn("cleaning", "what", what, "error", err)
				break
			}
		}
	}
}

const (
	cleanBatch  = 100
	signalsKept = 10 * time.Minute
)

// watchRows looks for what other instances did.
func (g *Gateway) watchRows(ctx context.Context) error {
	w := g.watch
	w.rows, w.tell, w.receive, w.poll = g.DB, g.coord.deliver, g.mcp.Receive, g.gate.Poll
	w.hinted, w.now, w.every, w.log = g.hinted, g.DB.Now, g.Options.Intervals.PollEvery, g.log
	defer g.coord.Subscribe(w.hint)()
	return w.run(ctx)
}

// forget drops snapshots of what changed.
func (g *Gateway) forget(h action.Hint) {
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

// addServer adds the HTTP server. Its interrupt answers whoever waits before
// it closes anything.
func (g *Gateway) addServer(group *run.Group) {
	streams, end := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: g.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return streams },
		ConnContext: hangup.ConnContext, // so that what nobody received is not taken for delivered
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	group.Add(func() error { return server.Serve(g.listener) }, func(error) {
		g.stopping.Store(true)
		if delay := g.Options.Intervals.ShutdownDelay; delay > 0 {
			g.log.Info("about to stop; balancers may notice first", "in", delay)
			time.Sleep(delay)
		}
		g.gate.Refuse()
		g.log.Info("stopping; callers are answered and executing calls may end (interrupt again to cut them off)")
		g.drain(g.Options.Intervals.ShutdownWithin)
		g.page.Close()
		end() // event streams
		last, stop := context.WithTimeout(context.Background(), lastAnswers)
		defer stop()
		if err := server.Shutdown(last); err != nil {
			_ = server.Close()
		}
	})
}

// lastAnswers is how long answers may take to go out at the very end.
const lastAnswers = 2 * time.Second

// drain waits until callers are answered and executing calls have ended.
func (g *Gateway) drain(within time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	if err := g.mcp.Drain(ctx); err != nil {
		g.log.Warn("some callers could not be answered in time", "error", err)
	}
	if err := g.gate.Drain(ctx); err != nil {
		g.log.Warn("some calls did not end in time; their outcome is unknown", "error", err)
	}
}

// revokeKey ends the key that was in endpoint.json. When it fails, the next
// start in this folder does it.
func (g *Gateway) revokeKey() {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if err := g.DB.RevokeAPIKey(ctx, g.endpointAPIKey.Organization, g.endpointAPIKey.ID, g.DB.Now()); err != nil {
		g.log.Warn("revoking the key of endpoint.json", "error", err)
	}
}

// Close closes everything that was opened.
func (g *Gateway) Close() {
	if g.endpointWritten {
		_ = os.Remove(command.EndpointPath(g.Options.Data))
		g.revokeKey()
	}
	if g.folderLock != nil {
		_ = g.folderLock.Close() // which ends the claim
	}
	if g.catalog != nil {
		if err := g.catalog.Close(); err != nil {
			g.log.Error("closing connectors", "error", err)
		}
	}
	if g.oauth != nil {
		if err := g.oauth.Close(); err != nil {
			g.log.Error("ending renewals of tokens", "error", err)
		}
	}
	if g.tokens != nil {
		if err := g.tokens.Close(); err != nil {
			g.log.Error("ending renewals of integrations", "error", err)
		}
	}
	if g.outbound != nil {
		g.outbound.Close()
	}
	if g.inbound != nil {
		g.inbound.sender.close()
	}
	if g.notifier != nil {
		g.notifier.sender.close()
	}
	if g.files != nil {
		if err := g.files.Close(); err != nil {
			g.log.Error("closing the store of evidence", "error", err)
		}
	}
	if g.listener != nil {
		_ = g.listener.Close()
	}
	g.tracing.close()
	if g.DB != nil {
		if err := g.DB.Close(); err != nil {
			g.log.Error("closing the database", "error", err)
		}
	}
}
