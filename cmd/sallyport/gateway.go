package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/run"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/dashboard"
	webpage "sallyport/dashboard/page"
	"sallyport/dashboard/routes"
	"sallyport/internal/hangup"
	"sallyport/internal/outbound"
	"sallyport/internal/redact"
	"sallyport/internal/token"
	"sallyport/internal/vault"
	"sallyport/mcpserver"
	"sallyport/sources"
	"sallyport/sources/credential"
	"sallyport/store"
	"sallyport/store/database"
	"sallyport/store/files"
)

// gateway is everything in one process: the rows, the Gate and its two doors.
type gateway struct {
	options options
	log     *slog.Logger

	instance string // this process, among those that share rows
	db       *store.DB
	vault    *vault.Vault
	signer   *token.Signer
	mcpKey   []byte
	madeKeys []string // files that this start made
	auditKey []byte   // of the chain of evidence; in the database only sealed
	master   masterKeys
	rotating sync.Mutex        // guards master, once it is open
	kept     map[string][]byte // keys that a rotation does not change
	json     *redact.JSON
	coord    coordination
	watch    *watcher
	policies *policies
	sessions *sessions
	oauth    *credential.OAuth
	modules  []*sources.Module
	outbound *outbound.Pool
	tokens   *credential.Tokens
	catalog  *sources.Catalog
	files    *files.Store // of evidence; nil: another process keeps it
	gate     *gate.Gate
	observer gate.Observer // of calls
	inbound  *inbound      // nil: another process takes webhooks
	notices  *notices
	tracing  *tracing // nil: nothing is traced
	counts   counts
	mcp      *mcpserver.Server
	page     *dashboard.Server

	listener net.Listener
	url      string // of links, and for agents
	local    string // of this instance, for commands on this machine
	stopping atomic.Bool
	away     atomic.Bool   // the database, when last asked
	admin    action.User   // the local owner
	founded  bool          // the local owner was made at this start
	claim    *os.File      // of the data folder, for endpoint.json; nil: none
	wrote    bool          // endpoint.json is ours
	key      action.APIKey // the one in it
}

// step opens a part of a gateway.
type step = func(*gateway, context.Context) error

// openGateway opens the data folder and listens, and takes further steps.
// Nothing is served before run.
func openGateway(ctx context.Context, o options, log *slog.Logger, more ...step) (*gateway, error) {
	steps := []step{(*gateway).openTracing, (*gateway).openRows, (*gateway).openCoordination, (*gateway).listen, (*gateway).openFiles, (*gateway).openGate, (*gateway).openDoors, (*gateway).openAdmin}
	return openParts(ctx, o, log, append(steps, more...)...)
}

// openParts takes the steps in their order, and all of them back when one
// fails.
func openParts(ctx context.Context, o options, log *slog.Logger, steps ...step) (_ *gateway, err error) {
	g := &gateway{options: o, log: log, instance: uuid.NewString(), watch: newWatcher(), counts: newCounts()}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if err := g.options.check(); err != nil {
		return nil, err
	}
	if g.options.Data == "" {
		g.options.Data = dataFolder()
	}
	if err := os.MkdirAll(g.options.Data, 0o700); err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	for _, step := range steps {
		if err := step(g, ctx); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// openRows opens the database and the keys.
func (g *gateway) openRows(ctx context.Context) (err error) {
	if err := g.openMaster(); err != nil {
		return err
	}
	signing, err := g.secretKey(g.options.TokenKey, tokenFile)
	if err != nil {
		return err
	}
	if g.signer, err = token.NewSigner(signing); err != nil {
		return err
	}
	g.mcpKey = derive(signing, "MCP session ids")
	g.json = &redact.JSON{Hash: g.shortHash}
	if err := g.openStore(ctx); err != nil {
		return err
	}
	if err = g.checkKeys(ctx, signing); err != nil && action.Public(err).Code == "key_differs" {
		return g.unmakeKeys(err)
	}
	return err
}

// openStore waits a while for a database that is away: whatever starts both
// together need not start one after the other.
func (g *gateway) openStore(ctx context.Context) (err error) {
	for until := time.Now().Add(g.options.DatabaseWait); ; {
		g.db, err = store.Open(ctx, g.storeConfig())
		left := time.Until(until).Round(time.Second)
		if err == nil {
			return nil
		}
		if !database.Away(err) || left <= 0 {
			return databaseAdvice(err)
		}
		g.log.Warn("waiting for the database", "error", err, "for_another", left)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(startPause, left)):
		}
	}
}

// startPause is between two looks for a database that is away.
const startPause = 2 * time.Second

// storeConfig says where the rows are.
func (g *gateway) storeConfig() store.Config {
	c := store.Config{Now: wallClock, Log: g.log, MaxConns: g.options.DatabaseConnections, LoginIdle: g.options.SignIn.LoginIdle}
	if c.URL = g.options.DatabaseURL; c.URL == "" {
		c.Path = filepath.Join(g.options.Data, databaseFile)
	}
	return c
}

// secretKey is the one that is given, or that of the data folder, where a first
// start makes it.
func (g *gateway) secretKey(hex, file string) ([]byte, error) {
	if hex != "" {
		key, err := vault.ParseKey(hex)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keyVariable(file), err)
		}
		return key, nil
	}
	path := filepath.Join(g.options.Data, file)
	if _, err := os.Lstat(path); os.IsNotExist(err) {
		g.madeKeys = append(g.madeKeys, path)
	}
	return vault.LoadKey(path)
}

// unmakeKeys removes keys that this start made beside rows of another one, so that
// neither a later start nor a backup takes them for the ones that were lost.
func (g *gateway) unmakeKeys(err error) error {
	for _, path := range g.madeKeys {
		err = fmt.Errorf("%w (there was no %s: restore it, or give the key in %s)", err, path, keyVariable(filepath.Base(path)))
		if gone := os.Remove(path); gone != nil {
			err = errors.Join(err, gone)
		}
	}
	return err
}

func (g *gateway) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if g.listener, err = lc.Listen(ctx, "tcp", g.options.Listen); err != nil {
		return fmt.Errorf("listening on %s: %w (choose another address with --listen)", g.options.Listen, err)
	}
	if g.url, err = g.options.public(g.listener.Addr()); err != nil {
		return err
	}
	g.local = "http://" + reachable(g.listener.Addr().String())
	return nil
}

// reachable is an address to listen on as one to speak to.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// openGate builds what decides and runs calls.
func (g *gateway) openGate(ctx context.Context) (err error) {
	iv := g.options.Intervals
	g.policies = &policies{load: g.db.Rules, version: g.db.PolicyVersion, grants: g.db.GrantsFor, now: time.Now, clock: g.db.Now}
	g.sessions = &sessions{verify: g.signer.Verify, load: g.db.Session, now: g.db.Now}
	if err = g.openOAuth(); err != nil {
		return err
	}
	if err = g.openIntegrations(ctx); err != nil {
		return err
	}
	if g.catalog, err = g.openCatalog(); err != nil {
		return err
	}
	g.observer = newCallLog(g.counts.calls, g.log)
	g.gate, err = gate.New(gate.Config{
		Catalog: g.catalog, Decide: g.policies.Decide, View: g.policies.View, Sessions: g.sessions, Ledger: g.db,
		Limiter: g.coord, Vault: g.vault, JSON: g.json, Hints: g.coord,
		Instance: g.instance, Alone: !g.db.Shared(), Hinted: g.hinted, NewID: newID,
		ApprovalURL:     func(id string) string { return g.url + "/invocations/" + id },
		HoldInteractive: iv.HoldInteractive, HoldUnattended: iv.HoldUnattended, HoldEvery: iv.HoldEvery,
		CallTimeout: iv.CallTimeout, CheckTimeout: iv.CheckTimeout, LeaseMargin: iv.LeaseMargin, ClaimWithin: iv.ClaimWithin,
		ClaimGrace: iv.ClaimGrace, ClaimGraceBlind: iv.ClaimGraceBlind,
		AbandonAfter: iv.AbandonAfter, DenialHolds: iv.DenialHolds,
		PickupInteractive: iv.Pickup, PickupUnattended: iv.PickupUnattend,
		LookEvery: iv.SweepEvery, SeenEvery: iv.SeenEvery, PollEvery: iv.PollEvery, Now: g.db.Now, Log: g.log, Observer: g.observer,
		Tracer: g.tracing.calls(),
	})
	return err
}

// newID returns ids that ascend in time, so that rows are written in order.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// shortHash lets a person compare redacted values without seeing them.
func (g *gateway) shortHash(value string) string { return g.vault.Hash([]byte(value)) }

// openDoors builds what agents and people talk to.
func (g *gateway) openDoors(context.Context) (err error) {
	iv := g.options.Intervals
	var others mcpserver.Peers
	if g.db.Shared() {
		others = peers{g.db, g.coord}
	}
	g.mcp, err = mcpserver.New(mcpserver.Config{
		Gate: g.gate, Resolver: toolNames{g.catalog}, Authenticate: g.sessions.Authenticate, Hints: g.coord, RequestGrant: requests{g}.RequestGrant, Snapshot: g.snapshot, Tools: action.ToolListing(g.options.ToolList),
		Trace: g.tracing.follows(), SessionKey: g.mcpKey, SessionLife: iv.SessionLife, Peers: others,
		AllowedHosts: g.options.AllowHost, PublicURL: g.url, Version: version(),
		PendingAfter: iv.PendingAfter, UnattendedPendingAfter: iv.PendingUnattend, Pickup: iv.Pickup, UnattendedPickup: iv.PickupUnattend, DenialHolds: iv.DenialHolds, KeepAliveEvery: iv.KeepAlive,
		IdleSession: iv.IdleSession, Now: g.db.Now, Log: g.log,
	})
	if err != nil {
		return err
	}
	if err := g.openNotices(); err != nil {
		return err
	}
	c := g.dashboardConfig()
	if c.UserJWT, err = g.options.SignIn.userJWT(g.guard(), g.url); err != nil {
		return err
	}
	g.page, err = dashboard.New(c, routes.Mount, webpage.Mount)
	return err
}

// ready tells whether calls are taken. Without Valkey they are, only slower.
func (g *gateway) ready() error {
	if g.stopping.Load() {
		return errors.New("shutting down")
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	err := g.db.Ping(ctx)
	switch away := err != nil; {
	case g.away.Swap(away) == away: // said already
	case away:
		g.log.Error("the database is away; new calls wait for it, and then are refused", "error", err)
	default:
		g.log.Info("the database is back")
	}
	return err
}

// handler joins the doors.
func (g *gateway) handler() http.Handler {
	page, mux := g.page.Handler(), http.NewServeMux()
	mux.Handle("/mcp", g.mcp)
	mux.Handle("GET /metrics", g.metrics())
	mux.Handle("/", page)
	if g.inbound != nil {
		g.inbound.takeIn(mux, g.tracing)
	} else {
		mux.HandleFunc("/webhooks/", noWebhooks)
	}
	return g.tracing.doors(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// run serves until ctx ends or something fails, and then closes everything.
func (g *gateway) run(ctx context.Context) error {
	defer g.close()
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
func (g *gateway) actors() []func(context.Context) error {
	all := []func(context.Context) error{g.gate.Run, g.mcp.Run, g.keepUp, g.tellApprovers}
	if g.db.Shared() {
		all = append(all, g.watchRows)
	}
	if g.coord.valkey != nil {
		all = append(all, g.coord.valkey.Run)
	}
	return all
}

// keepUp does what is to be done again and again.
func (g *gateway) keepUp(ctx context.Context) error {
	iv := g.options.Intervals
	chores := []chore{
		{name: "sweep", every: cmp.Or(iv.SweepEvery, 250*time.Millisecond), once: true, do: g.gate.Sweep},
		{name: "clean", every: time.Minute, once: true, do: g.clean},
		{name: "seal", every: cmp.Or(iv.SealEvery, 500*time.Millisecond), once: true, do: newSealer(g.db, g.auditKey, g.log).seal},
	}
	chores = append(chores, g.sessionChores()...)
	runs, err := g.runChores()
	if err != nil {
		return err
	}
	chores = append(chores, runs...)
	if g.options.Retention > 0 {
		chores = append(chores, chore{name: "retain", every: time.Minute, once: true, do: g.retain})
	}
	if g.master.file != "" {
		chores = append(chores, chore{name: "rotate", every: 5 * time.Second, do: g.resume})
	}
	if g.db.Shared() {
		chores = append(chores, chore{name: "clock", every: cmp.Or(iv.ClockEvery, 10*time.Second), do: func(ctx context.Context) {
			if err := g.db.SyncClock(ctx); err != nil && ctx.Err() == nil {
				g.log.Warn("comparing this clock with the database's", "error", err)
			}
		}})
		if g.wrote {
			chores = append(chores, chore{name: "key", every: keyRenew, do: g.renewKey})
		}
	}
	for i := range chores {
		chores[i] = g.counts.timed(chores[i])
	}
	return upkeep(ctx, g.coord, g.log, chores)
}

// clean deletes rows that mean nothing any more, a hundred at a time.
func (g *gateway) clean(ctx context.Context) {
	now := g.db.Now()
	for what, sweep := range map[string]func(limit int) (int, error){
		"signals":         func(limit int) (int, error) { return g.db.SweepSignals(ctx, now.Add(-signalsKept), limit) },
		"API keys":        func(limit int) (int, error) { return g.db.SweepAPIKeys(ctx, now, limit) },
		"MCP sessions":    func(limit int) (int, error) { return g.db.SweepMCPSessions(ctx, now, limit) },
		"grants":          func(limit int) (int, error) { return g.db.SweepGrants(ctx, now, limit) },
		"notifications":   func(limit int) (int, error) { return g.db.SweepNotifications(ctx, now.Add(-noticesKept), limit) },
		"signing secrets": func(limit int) (int, error) { return g.db.SweepSigningSecrets(ctx, now, limit) },
		"variables":       func(limit int) (int, error) { return g.db.SweepEnv(ctx, now, limit) },
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
func (g *gateway) watchRows(ctx context.Context) error {
	w := g.watch
	w.rows, w.tell, w.receive, w.poll = g.db, g.coord.deliver, g.mcp.Receive, g.gate.Poll
	w.hinted, w.now, w.every, w.log = g.hinted, g.db.Now, cmp.Or(g.options.Intervals.PollEvery, time.Second), g.log
	defer g.coord.Subscribe(w.hint)()
	return w.run(ctx)
}

// forget drops snapshots of what changed.
func (g *gateway) forget(h action.Hint) {
	switch h.Kind {
	case action.HintPolicy:
		g.policies.forget(h.Organization)
	case action.HintSession:
		g.sessions.forget(h.Session)
	case action.HintCatalog:
		g.catalog.Invalidate(h.Organization)
	case action.HintInvocation, action.HintSignal, action.HintResource, action.HintRun, action.HintReload:
	}
}

// addServer adds the HTTP server. Its interrupt answers whoever waits before
// it closes anything.
func (g *gateway) addServer(group *run.Group) {
	streams, end := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: g.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return streams },
		ConnContext: hangup.ConnContext, // so that what nobody received is not taken for delivered
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	group.Add(func() error { return server.Serve(g.listener) }, func(error) {
		g.stopping.Store(true)
		if delay := g.options.Intervals.ShutdownDelay; delay > 0 {
			g.log.Info("about to stop; balancers may notice first", "in", delay)
			time.Sleep(delay)
		}
		g.gate.Refuse()
		g.log.Info("stopping; callers are answered and executing calls may end (interrupt again to cut them off)")
		within := g.options.Intervals.ShutdownWithin
		if within == 0 {
			within = 40 * time.Second
		}
		g.drain(within)
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
func (g *gateway) drain(within time.Duration) {
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
func (g *gateway) revokeKey() {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if err := g.db.RevokeAPIKey(ctx, g.key.Organization, g.key.ID, g.db.Now()); err != nil {
		g.log.Warn("revoking the key of endpoint.json", "error", err)
	}
}

// close lets go of everything that was opened.
func (g *gateway) close() {
	if g.wrote {
		_ = os.Remove(endpointPath(g.options.Data))
		g.revokeKey()
	}
	if g.claim != nil {
		_ = g.claim.Close() // which ends the claim
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
	if g.notices != nil {
		g.notices.sender.close()
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
	if g.db != nil {
		if err := g.db.Close(); err != nil {
			g.log.Error("closing the database", "error", err)
		}
	}
}
