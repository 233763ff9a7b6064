// Package server implements the commands serve, gateway, ingest and migrate. It
// opens the database, the keys and all parts of the gateway, connects them, and
// owns all goroutines, which run in one group with a bounded shutdown.
package server

import (
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

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/cmd/sallyport/command"
	"sallyport/dashboard"
	webpage "sallyport/dashboard/page"
	"sallyport/dashboard/routes"
	"sallyport/gitserver"
	"sallyport/internal/defaults"
	"sallyport/internal/outbound"
	"sallyport/internal/redact"
	"sallyport/internal/token"
	"sallyport/internal/vault"
	"sallyport/llm"
	"sallyport/mcpserver"
	"sallyport/sources"
	"sallyport/sources/credential"
	"sallyport/store"
	"sallyport/store/database"
	"sallyport/store/files"
)

// Gateway holds the parts of one process: the database, the Gate, the MCP
// server, the dashboard and the inbound parts.
type Gateway struct {
	Options Options
	log     *slog.Logger

	instance    string // ID of this process among those that share the database
	DB          *store.DB
	vault       *vault.Vault
	signer      *token.Signer
	mcpKey      []byte
	createdKeys []string // files that this start created
	AuditKey    []byte   // key of the audit log's hash chain; sealed in the database
	Master      masterKeys
	rotating    sync.Mutex        // guards Master after the start
	stableKeys  map[string][]byte // keys that a rotation does not change
	json        *redact.JSON
	coord       coordination
	watch       *watcher
	policies    *policies
	sessions    *sessions
	oauth       *credential.OAuth
	modules     []*sources.Module
	outbound    *outbound.Pool
	tokens      *credential.Tokens
	catalog     *sources.Catalog
	files       *files.Store // evidence files; nil if another process keeps them
	gate        *gate.Gate
	observer    gate.Observer // observes calls
	inbound     *inbound      // nil if another process receives webhooks
	notifier    *notifier
	tracing     *tracing // nil if tracing is disabled
	counts      serverMetrics
	mcp         *mcpserver.Server
	models      *llm.Door
	page        *dashboard.Server
	git         *gitserver.Server

	gitTransports [2]*http.Transport // for public hosts, and for loopback

	listener        net.Listener
	URL             string // public URL, for links and agents
	loopbackURL     string // URL of this instance for commands on this machine
	stopping        atomic.Bool
	databaseDown    atomic.Bool   // result of the last health probe
	admin           action.User   // the local owner
	ownerCreated    bool          // this start created the local owner
	folderLock      *os.File      // lock on the data folder, for endpoint.json; nil if not held
	endpointWritten bool          // this process wrote endpoint.json
	endpointAPIKey  action.APIKey // the key in endpoint.json
}

// step opens a part of a gateway.
type step = func(*Gateway, context.Context) error

// Open opens all parts of a gateway and listens. Requests are served from
// [Gateway.Run] on.
func Open(ctx context.Context, o Options, log *slog.Logger, more ...step) (*Gateway, error) {
	steps := []step{(*Gateway).openTracing, (*Gateway).openDatabase, (*Gateway).openCoordination, (*Gateway).listen, (*Gateway).openFiles, (*Gateway).openGate, (*Gateway).openServers, (*Gateway).openOwner}
	return openParts(ctx, o, log, append(steps, more...)...)
}

// openParts runs the steps in order, and closes what they opened if one fails.
func openParts(ctx context.Context, o Options, log *slog.Logger, steps ...step) (_ *Gateway, err error) {
	g := &Gateway{Options: o, log: log, instance: uuid.NewString(), watch: newWatcher(), counts: newServerMetrics()}
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
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	for _, step := range steps {
		if err := step(g, ctx); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// openDatabase opens the database and the keys.
func (g *Gateway) openDatabase(ctx context.Context) (err error) {
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
		return g.removeCreatedKeys(err)
	}
	return err
}

// openStore opens the database. It retries while the database is down, so that
// both can start at the same time.
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
		case <-time.After(min(databaseRetryInterval, left)):
		}
	}
}

// databaseRetryInterval is the time between attempts to open the database.
const databaseRetryInterval = 2 * time.Second

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
	g.loopbackURL = "http://" + dialAddress(g.listener.Addr().String())
	return nil
}

// dialAddress returns the address to connect to for a listen address.
func dialAddress(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// openGate builds the Gate and the parts that it needs.
func (g *Gateway) openGate(ctx context.Context) (err error) {
	g.policies = &policies{load: g.DB.Rules, version: g.DB.PolicyVersion, grants: g.DB.GrantsFor, now: time.Now, clock: g.DB.Now}
	g.sessions = &sessions{verify: g.signer.Verify, load: g.DB.Session, now: g.DB.Now}
	if err = g.openOAuth(); err != nil {
		return err
	}
	if err = g.openIntegrations(ctx); err != nil {
		return err
	}
	if err = g.openGit(); err != nil {
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
		Tracer: g.tracing.callTracer(),
	})
	if err == nil {
		g.git.Use(g.gate)
	}
	return err
}

// newID returns IDs that ascend in time, so that rows are inserted in index
// order.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// shortHash lets a person compare redacted values without seeing them.
func (g *Gateway) shortHash(value string) string { return g.vault.Hash([]byte(value)) }

// openServers builds the MCP server and the dashboard.
func (g *Gateway) openServers(context.Context) (err error) {
	iv := g.Options.Intervals
	var peerInstances mcpserver.Peers
	if g.DB.Shared() {
		peerInstances = peers{g.DB, g.coord}
	}
	g.mcp, err = mcpserver.New(mcpserver.Config{
		Gate: g.gate, Resolver: toolResolver{g.catalog}, Authenticate: g.sessions.Authenticate, Hints: g.coord, RequestGrant: grantRequester{g}.RequestGrant, Snapshot: g.snapshot, Outages: g.catalog.Outages, Tools: action.ToolListing(g.Options.ToolList),
		Trace: g.tracing.remoteParentFunc(), SessionKey: g.mcpKey, Timing: iv.MCP, Peers: peerInstances,
		AllowedHosts: g.Options.AllowHost, PublicURL: g.URL, Version: command.Version(),
		Pickup: iv.PickupInteractive, UnattendedPickup: iv.PickupUnattended, DenialHolds: iv.DenialHolds, Now: g.DB.Now, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.openModels()
	if err := g.openNotifier(); err != nil {
		return err
	}
	c := g.dashboardConfig()
	if c.UserJWT, err = g.Options.SignIn.userJWT(g.guardConfig(), g.URL); err != nil {
		return err
	}
	g.page, err = dashboard.New(c, routes.Mount, webpage.Mount)
	return err
}

// Inspect returns a gateway with no open parts, for checks that open what they
// need.
func Inspect(o Options) *Gateway {
	return &Gateway{Options: o, log: NewLogger(io.Discard, "error", "text")}
}

// ExplainDatabaseError adds a remedy to the error of a damaged or missing
// database.
func ExplainDatabaseError(err error) error {
	var refused interface{ SQLState() string }
	text := err.Error()
	switch {
	case errors.As(err, &refused) && refused.SQLState() == "3D000":
		return fmt.Errorf("%w; create it first (createdb NAME, or CREATE DATABASE), owned by the user of --database-url", err)
	case strings.Contains(text, "malformed") || strings.Contains(text, "file is not a database"):
		return fmt.Errorf("%w; the file is damaged: keep it, and restore a backup into a new folder (sallyport restore)", err)
	}
	return err
}
