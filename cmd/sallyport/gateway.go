package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/run"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/internal/redact"
	"sallyport/internal/token"
	"sallyport/internal/vault"
	"sallyport/mcpserver"
	"sallyport/sources"
	"sallyport/store"
	"sallyport/store/coord"
)

// gateway is everything in one process: the rows, the Gate and its two doors.
type gateway struct {
	options options
	log     *slog.Logger

	db       *store.DB
	vault    *vault.Vault
	signer   *token.Signer
	hints    *coord.Hub
	policies *policies
	sessions *sessions
	catalog  *sources.Catalog
	gate     *action.Gate
	mcp      *mcpserver.Server
	page     *dashboard.Server

	listener net.Listener
	url      string
	stopping atomic.Bool
	admin    action.User // the local owner
	wrote    bool        // endpoint.json is ours
}

// openGateway opens the data folder and listens. Nothing is served before
// run.
func openGateway(ctx context.Context, o options, log *slog.Logger) (_ *gateway, err error) {
	g := &gateway{options: o, log: log}
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
	for _, step := range []func(context.Context) error{g.openRows, g.listen, g.openGate, g.openDoors, g.openAdmin} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// openRows opens the database and the keys.
func (g *gateway) openRows(ctx context.Context) (err error) {
	master, err := g.key(g.options.MasterKey, "master.key")
	if err != nil {
		return err
	}
	signing, err := g.key(g.options.TokenKey, "token.key")
	if err != nil {
		return err
	}
	if g.vault, err = vault.New(master); err != nil {
		return err
	}
	if g.signer, err = token.NewSigner(signing); err != nil {
		return err
	}
	g.db, err = store.Open(ctx, store.Config{
		Path: filepath.Join(g.options.Data, "sallyport.db"), Log: g.log,
		ReservedSlugs: reservedSlugs(),
	})
	return err
}

func (g *gateway) key(hex, file string) ([]byte, error) {
	if hex != "" {
		return vault.ParseKey(hex)
	}
	return vault.LoadKey(filepath.Join(g.options.Data, file))
}

func (g *gateway) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if g.listener, err = lc.Listen(ctx, "tcp", g.options.Listen); err != nil {
		return fmt.Errorf("listening on %s: %w (choose another address with --listen)", g.options.Listen, err)
	}
	g.url, err = g.options.public(g.listener.Addr())
	return err
}

// openGate builds what decides and runs calls.
func (g *gateway) openGate(context.Context) (err error) {
	iv := g.options.Intervals
	g.hints = coord.NewHub()
	g.policies = &policies{load: g.db.Overrides, now: time.Now}
	g.sessions = &sessions{verify: g.signer.Verify, load: g.db.Session, now: time.Now}
	if g.catalog, err = g.openCatalog(); err != nil {
		return err
	}
	g.gate, err = action.New(action.Config{
		Catalog: g.catalog, Decider: g.policies, Sessions: g.sessions, Ledger: g.db,
		Limiter: coord.NewCounter(g.options.RateLimit, time.Now), Vault: g.vault,
		JSON: &redact.JSON{Hash: g.shortHash}, Hints: g.hints,
		Instance: uuid.NewString(), Alone: true, NewID: newID,
		ApprovalURL:     func(id string) string { return g.url + "/invocations/" + id },
		HoldInteractive: iv.HoldInteractive, HoldUnattended: iv.HoldUnattended, HoldEvery: iv.HoldEvery,
		CallTimeout: iv.CallTimeout, LeaseMargin: iv.LeaseMargin, ClaimGrace: iv.ClaimGrace, ClaimWithin: iv.ClaimWithin,
		AbandonAfter: iv.AbandonAfter, DenialHolds: iv.DenialHolds,
		PickupInteractive: iv.Pickup, PickupUnattended: iv.PickupUnattend,
		SweepEvery: iv.SweepEvery, SeenEvery: iv.SeenEvery, Log: g.log,
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
	g.mcp, err = mcpserver.New(mcpserver.Config{
		Gate: g.gate, Resolver: toolNames{g.catalog}, Authenticate: g.sessions.Authenticate, Hints: g.hints,
		AllowedHosts: g.options.AllowHost, PublicURL: g.url, Version: version(),
		PendingAfter: iv.PendingAfter, UnattendedPendingAfter: iv.PendingUnattend, KeepAliveEvery: iv.KeepAlive,
		IdleSession: iv.IdleSession, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.page, err = dashboard.New(g.dashboardConfig())
	return err
}

// ready tells whether calls are taken.
func (g *gateway) ready() error {
	if g.stopping.Load() {
		return errors.New("shutting down")
	}
	return nil
}

// handler joins the doors.
func (g *gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", g.mcp)
	mux.Handle("/", g.page.Handler())
	return mux
}

// run serves until ctx ends or something fails, and then closes everything.
func (g *gateway) run(ctx context.Context) error {
	defer g.close()
	var group run.Group
	g.addServer(&group)
	for _, actor := range []func(context.Context) error{g.gate.Run, g.mcp.Run} {
		// They outlive ctx: calls that are being answered need them.
		free, stop := context.WithCancel(context.WithoutCancel(ctx))
		group.Add(func() error { return actor(free) }, func(error) { stop() })
	}
	group.Add(func() error { <-ctx.Done(); return ctx.Err() }, func(error) {})
	ends := g.hints.Subscribe(g.forget)
	defer ends()
	err := group.Run()
	g.log.Info("stopped")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
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
	case action.HintInvocation:
	}
}

// addServer adds the HTTP server. Its interrupt answers whoever waits before
// it closes anything.
func (g *gateway) addServer(group *run.Group) {
	streams, end := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: g.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return streams },
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
	}
	group.Add(func() error { return server.Serve(g.listener) }, func(error) {
		g.stopping.Store(true)
		g.log.Info("stopping; callers are answered and executing calls may end (interrupt again to cut them off)")
		within := g.options.Intervals.ShutdownWithin
		if within == 0 {
			within = 40 * time.Second
		}
		ctx, stop := context.WithTimeout(context.Background(), within)
		defer stop()
		if err := g.mcp.Drain(ctx); err != nil {
			g.log.Warn("some callers could not be answered in time", "error", err)
		}
		if err := g.gate.Drain(ctx); err != nil {
			g.log.Warn("some calls did not end in time; their outcome is unknown", "error", err)
		}
		g.page.Close()
		end() // event streams
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
	})
}

// close lets go of everything that was opened.
func (g *gateway) close() {
	if g.wrote {
		_ = os.Remove(endpointPath(g.options.Data))
	}
	if g.catalog != nil {
		if err := g.catalog.Close(); err != nil {
			g.log.Error("closing connectors", "error", err)
		}
	}
	if g.listener != nil {
		_ = g.listener.Close()
	}
	if g.db != nil {
		if err := g.db.Close(); err != nil {
			g.log.Error("closing the database", "error", err)
		}
	}
}
