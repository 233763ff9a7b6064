// Package server is the commands that run a server: serve, gateway, ingest and
// migrate. It opens the database, the keys and every part of the gateway, joins
// them, and owns all goroutines: each runs in one group with a bounded shutdown.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/cmd/sallyport/command"
	"sallyport/dashboard"
	webpage "sallyport/dashboard/page"
	"sallyport/dashboard/routes"
	"sallyport/internal/defaults"
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

// Gateway is all parts of one process: the rows, the Gate, the MCP server, the dashboard
// and the inbound worker.
type Gateway struct {
	Options Options
	log     *slog.Logger

	instance string // this process, among those that share rows
	DB       *store.DB
	vault    *vault.Vault
	signer   *token.Signer
	mcpKey   []byte
	madeKeys []string // files that this start made
	AuditKey []byte   // of the chain of evidence; in the database only sealed
	Master   masterKeys
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
	URL      string // of links, and for agents
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
type step = func(*Gateway, context.Context) error

// Open opens all parts of a gateway and listens. Nothing is served before Run.
func Open(ctx context.Context, o Options, log *slog.Logger, more ...step) (*Gateway, error) {
	steps := []step{(*Gateway).openTracing, (*Gateway).openRows, (*Gateway).openCoordination, (*Gateway).listen, (*Gateway).openFiles, (*Gateway).openGate, (*Gateway).openDoors, (*Gateway).openAdmin}
	return openParts(ctx, o, log, append(steps, more...)...)
}

// openParts takes the steps in their order, and all of them back when one
// fails.
func openParts(ctx context.Context, o Options, log *slog.Logger, steps ...step) (_ *Gateway, err error) {
	g := &Gateway{Options: o, log: log, instance: uuid.NewString(), watch: newWatcher(), counts: newCounts()}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	defaults.Set(&g.Options.Intervals)
	if err := g.Options.Check(); err != nil {
		return nil, err
	}
	if g.Options.Data == "" {
		g.Options.Data = command.DataFolder()
	}
	if err := os.MkdirAll(g.Options.Data, 0o700); err != nil {
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
func (g *Gateway) openRows(ctx context.Context) (err error) {
	if err := g.OpenMaster(); err != nil {
		return err
	}
	signing, err := g.SecretKey(g.Options.TokenKey, command.TokenFile)
	if err != nil {
		return err
	}
	if g.signer, err = token.NewSigner(signing); err != nil {
		return err
	}
	g.mcpKey = command.Derive(signing, "MCP session ids")
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
func (g *Gateway) openStore(ctx context.Context) (err error) {
	for until := time.Now().Add(g.Options.DatabaseWait); ; {
		g.DB, err = store.Open(ctx, g.StoreConfig())
		left := time.Until(until).Round(time.Second)
		if err == nil {
			return nil
		}
		if !database.Away(err) || left <= 0 {
			return ExplainDatabaseError(err)
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

// StoreConfig returns the configuration of the store.
func (g *Gateway) StoreConfig() store.Config {
	c := store.Config{Now: wallClock, Log: g.log, MaxConns: g.Options.DatabaseConnections, LoginIdle: g.Options.SignIn.LoginIdle}
	if c.URL = g.Options.DatabaseURL; c.URL == "" {
		c.Path = filepath.Join(g.Options.Data, command.DatabaseFile)
	}
	return c
}

func (g *Gateway) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if g.listener, err = lc.Listen(ctx, "tcp", g.Options.Listen); err != nil {
		return fmt.Errorf("listening on %s: %w (choose another address with --listen)", g.Options.Listen, err)
	}
	if g.URL, err = g.Options.Public(g.listener.Addr()); err != nil {
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
func (g *Gateway) openGate(ctx context.Context) (err error) {
	g.policies = &policies{load: g.DB.Rules, version: g.DB.PolicyVersion, grants: g.DB.GrantsFor, now: time.Now, clock: g.DB.Now}
	g.sessions = &sessions{verify: g.signer.Verify, load: g.DB.Session, now: g.DB.Now}
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
		Catalog: g.catalog, Decide: g.policies.Decide, View: g.policies.View, Sessions: g.sessions, Ledger: g.DB,
		Limiter: g.coord, Vault: g.vault, JSON: g.json, Hints: g.coord,
		Instance: g.instance, Alone: !g.DB.Shared(), Hinted: g.hinted, NewID: newID,
		ApprovalURL: func(id string) string { return g.URL + "/invocations/" + id },
		Timing:      g.Options.Intervals.Timing, Now: g.DB.Now, Log: g.log, Observer: g.observer,
		Tracer: g.tracing.calls(),
	})
	return err
}

// newID returns ids that ascend in time, so that rows are written in order.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// shortHash lets a person compare redacted values without seeing them.
func (g *Gateway) shortHash(value string) string { return g.vault.Hash([]byte(value)) }

// openDoors builds what agents and people talk to.
func (g *Gateway) openDoors(context.Context) (err error) {
	iv := g.Options.Intervals
	var others mcpserver.Peers
	if g.DB.Shared() {
		others = peers{g.DB, g.coord}
	}
	g.mcp, err = mcpserver.New(mcpserver.Config{
		Gate: g.gate, Resolver: toolNames{g.catalog}, Authenticate: g.sessions.Authenticate, Hints: g.coord, RequestGrant: requests{g}.RequestGrant, Snapshot: g.snapshot, Tools: action.ToolListing(g.Options.ToolList),
		Trace: g.tracing.follows(), SessionKey: g.mcpKey, SessionLife: iv.SessionLife, Peers: others,
		AllowedHosts: g.Options.AllowHost, PublicURL: g.URL, Version: command.Version(),
		PendingAfter: iv.PendingAfter, UnattendedPendingAfter: iv.PendingUnattend, Pickup: iv.PickupInteractive, UnattendedPickup: iv.PickupUnattended, DenialHolds: iv.DenialHolds, KeepAliveEvery: iv.KeepAlive,
		IdleSession: iv.IdleSession, Now: g.DB.Now, Log: g.log,
	})
	if err != nil {
		return err
	}
	if err := g.openNotices(); err != nil {
		return err
	}
	c := g.dashboardConfig()
	if c.UserJWT, err = g.Options.SignIn.userJWT(g.guard(), g.URL); err != nil {
		return err
	}
	g.page, err = dashboard.New(c, routes.Mount, webpage.Mount)
	return err
}

// Inspect returns a gateway with no open part, for checks that open what they need.
func Inspect(o Options) *Gateway {
	return &Gateway{Options: o, log: NewLogger(io.Discard, "error", "text")}
}

// ExplainDatabaseError adds what to do to the error of a damaged or missing database.
func ExplainDatabaseError(err error) error {
	var refused interface{ SQLState() string }
	text := err.Error()
	switch {
	case errors.As(err, &refused) && refused.SQLState() == "3D000":
		return fmt.Errorf("%w; make it first (createdb NAME, or CREATE DATABASE), owned by the user of --database-url", err)
	case strings.Contains(text, "malformed") || strings.Contains(text, "file is not a database"):
		return fmt.Errorf("%w; the file is damaged: keep it, and restore a backup into a new folder (sallyport restore)", err)
	}
	return err
}
