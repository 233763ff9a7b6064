package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/oklog/run"

	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
	"sallyport/internal/redact"
	"sallyport/internal/shell"
	"sallyport/store"
	"sallyport/store/database"
)

// ServeCommand is `sallyport serve`.
type ServeCommand struct {
	Options
}

// Run serves until ctx ends.
func (c *ServeCommand) Run(ctx context.Context, std *command.Streams) error {
	g, link, err := startGateway(ctx, c.Options, std, (*Gateway).openInbound)
	if err != nil {
		return err
	}
	g.greet(std.Out, link)
	return g.Run(ctx)
}

// startGateway opens a gateway, with further steps, and returns the login link of the
// local owner.
func startGateway(ctx context.Context, o Options, std *command.Streams, more ...step) (*Gateway, string, error) {
	g, err := Open(ctx, o, NewLogger(std.Err, o.LogLevel, o.LogFormat), more...)
	if err != nil {
		return nil, "", err
	}
	link, err := g.Welcome(ctx)
	if err != nil {
		g.Close()
		return nil, "", err
	}
	return g, link, nil
}

// greet prints the next steps to the terminal.
func (g *Gateway) greet(w io.Writer, link string) {
	warning, add := "", `Add a service in the dashboard, under Integrations or Connectors. Commands that add one need
an administrator's API key in SALLYPORT_API_KEY, or a server with --local-admin`
	if g.Options.LocalAdmin {
		add = fmt.Sprintf("Add a service with \"sallyport integration connect PROVIDER%[1]s\", or any MCP server\nwith \"sallyport connector add NAME URL%[1]s\"", g.dataFlag())
		warning = fmt.Sprintf("\nLocal admin is on: every program of this user, including an agent's shell, can approve calls and change settings with the key in %s", command.EndpointPath(g.Options.Data))
	}
	fmt.Fprintf(w, `Sallyport is ready at %[1]s%[5]s

1. Sign in to approve calls (this link works once, for 10 minutes):
   %[2]s

2. Create a session for an agent; this prints its token:
   sallyport session create%[4]s

3. Give the agent the token in SALLYPORT_TOKEN, and this in its opencode.json
   (sallyport client config opencode --session ID%[4]s --write DIR merges it; other clients likewise):
%[3]s

%[6]s; "sallyport --help" lists all commands.
`, g.URL, link, OpenCodeConfig(g.URL+"/mcp", "   "), g.dataFlag(), warning, add)
}

// OpenCodeConfig returns the configuration of OpenCode, with each line indented.
func OpenCodeConfig(mcpURL, indent string) string {
	config, err := agent.ClientConfig(agent.OpenCode, agent.Setup{MCPURL: mcpURL})
	if err != nil {
		return "" // cannot fail for a known client
	}
	text, err := config.Text()
	if err != nil {
		return "" // cannot fail for strings
	}
	return indent + strings.ReplaceAll(text, "\n", "\n"+indent)
}

// dataFlag returns the flag with which commands find this server, if they need it.
func (g *Gateway) dataFlag() string {
	if g.Options.Data == command.DataFolder() {
		return ""
	}
	return " --data " + shell.Quote(g.Options.Data)
}

// GatewayCommand is `sallyport gateway`, for deployments with several instances.
type GatewayCommand struct {
	Options
}

// Run serves agents and people until ctx ends.
func (c *GatewayCommand) Run(ctx context.Context, std *command.Streams) error {
	if err := c.checkShared("gateway"); err != nil {
		return err
	}
	g, link, err := startGateway(ctx, c.Options, std)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "Sallyport gateway is ready at %s; people and agents reach it at %s and %s/mcp\n", g.loopbackURL, g.URL, g.URL)
	if g.ownerCreated {
		fmt.Fprintf(std.Out, "The database is new. Sign in once, within 10 minutes:\n   %s\n", link)
	}
	return g.Run(ctx)
}

// checkShared checks that the options name the database and the keys that all
// instances share.
func (o *Options) checkShared(part string) error {
	if o.DatabaseURL == "" {
		return fmt.Errorf("sallyport %s shares a database with other instances: set --database-url (or SALLYPORT_DATABASE_URL), or run a single process with sallyport serve", part)
	}
	if o.MasterKey == "" || o.TokenKey == "" {
		return fmt.Errorf("sallyport %s shares its keys with other instances: set SALLYPORT_MASTER_KEY and SALLYPORT_TOKEN_KEY to the same values on all of them (generate each with openssl rand -hex 32)", part)
	}
	return nil
}

// IngestCommand is `sallyport ingest`, for deployments with several instances.
type IngestCommand struct {
	Options
}

// Run receives webhooks, polls services and does the background work of all instances
// until ctx ends.
func (c *IngestCommand) Run(ctx context.Context, std *command.Streams) error {
	if err := c.checkShared("ingest"); err != nil {
		return err
	}
	if c.PublicURL == "" {
		return errors.New("sallyport ingest gives workers the URL of the gateways with each run: set --public-url (or SALLYPORT_PUBLIC_URL) to the same value as on the gateways")
	}
	steps := []step{(*Gateway).openTracing, (*Gateway).openDatabase, (*Gateway).openCoordination, (*Gateway).listen, (*Gateway).openGate, (*Gateway).openInbound}
	if c.Evidence != "" { // a shared store, which this instance cleans
		steps = append(steps, (*Gateway).openFiles)
	}
	g, err := openParts(ctx, c.Options, NewLogger(std.Err, c.LogLevel, c.LogFormat), steps...)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "Sallyport ingest is ready at %s; webhooks reach it at %s/webhooks/\n", g.loopbackURL, g.URL)
	return g.runIngest(ctx)
}

// runIngest serves webhooks, probes and metrics, and processes the inbox.
func (g *Gateway) runIngest(ctx context.Context) error {
	defer g.Close()
	var group run.Group
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if g.ready() != nil { // ready logs the cause once
			http.Error(w, "not ready; see the log", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	mux.Handle("GET /metrics", g.metrics())
	g.inbound.mount(mux, g.tracing)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn)}
	group.Add(func() error { return server.Serve(g.listener) }, func(error) {
		g.stopping.Store(true)
		time.Sleep(g.Options.Intervals.ShutdownDelay) // load balancers must see /readyz fail first
		last, stop := context.WithTimeout(context.Background(), responseGrace)
		defer stop()
		if err := server.Shutdown(last); err != nil {
			_ = server.Close()
		}
	})
	g.addInbound(&group)
	actors := []func(context.Context) error{g.runPeriodicJobs}
	if g.coord.valkey != nil {
		actors = append(actors, g.coord.valkey.Run)
	}
	for _, actor := range actors {
		free, stop := context.WithCancel(context.WithoutCancel(ctx))
		group.Add(func() error { return actor(free) }, func(error) { stop() })
	}
	group.Add(func() error { <-ctx.Done(); return ctx.Err() }, func(error) {})
	err := group.Run()
	g.log.Info("stopped")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// MigrateCommand is `sallyport migrate`.
type MigrateCommand struct {
	Up     migrateUp     `cmd:"" default:"withargs" help:"Apply pending migrations; instances also do this at startup."`
	Status migrateStatus `cmd:"" help:"List migrations and their status."`
}

// databaseConfig returns the configuration of the store for the flags.
func databaseConfig(w *command.Database, std *command.Streams) store.Config {
	g := Gateway{Options: Options{Data: w.Data, DatabaseURL: w.DatabaseURL}, log: NewLogger(std.Err, "warn", "text")}
	if g.Options.Data == "" {
		g.Options.Data = command.DataFolder()
	}
	return g.StoreConfig()
}

// migrationRow is a migration in the output of --json.
type migrationRow struct {
	Name      string     `json:"name"`
	Checksum  string     `json:"checksum"`
	AppliedAt *time.Time `json:"applied_at"`
}

func printMigrations(std *command.Streams, asJSON bool, list []database.Migration, text func(io.Writer)) error {
	if !asJSON {
		text(std.Out)
		return nil
	}
	rows := make([]migrationRow, 0, len(list))
	for _, m := range list {
		rows = append(rows, migrationRow{m.Name, m.Checksum, m.AppliedAt})
	}
	encoder := json.NewEncoder(std.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{"items": rows})
}

type migrateUp struct {
	command.Database
	DryRun bool `help:"Print the SQL without running it."`
}

// Run applies the pending migrations.
func (c *migrateUp) Run(ctx context.Context, std *command.Streams) error {
	if c.DryRun {
		return c.dryRun(ctx, std)
	}
	applied, err := database.Migrate(ctx, databaseConfig(&c.Database, std))
	if err != nil {
		return ExplainDatabaseError(err)
	}
	return printMigrations(std, c.JSON, applied, func(w io.Writer) {
		for _, m := range applied {
			fmt.Fprintln(w, "applied", m.Name)
		}
		if len(applied) == 0 {
			fmt.Fprintln(w, "Nothing to do: the database is up to date.")
		}
	})
}

func (c *migrateUp) dryRun(ctx context.Context, std *command.Streams) error {
	list, err := database.MigrationStatus(ctx, databaseConfig(&c.Database, std))
	if err != nil {
		return ExplainDatabaseError(err)
	}
	var pending []database.Migration
	for _, m := range list {
		if m.AppliedAt == nil {
			pending = append(pending, m)
		}
	}
	return printMigrations(std, c.JSON, pending, func(w io.Writer) {
		for _, m := range pending {
			fmt.Fprintf(w, "-- %s\n%s\n", m.Name, m.SQL)
		}
		if len(pending) == 0 {
			fmt.Fprintln(w, "-- Nothing to do: the database is up to date.")
		}
	})
}

type migrateStatus struct{ command.Database }

// Run prints every migration and when it was applied.
func (c *migrateStatus) Run(ctx context.Context, std *command.Streams) error {
	list, err := database.MigrationStatus(ctx, databaseConfig(&c.Database, std))
	if err != nil {
		return ExplainDatabaseError(err)
	}
	return printMigrations(std, c.JSON, list, func(w io.Writer) {
		rows := make([][]string, 0, len(list))
		for _, m := range list {
			applied := "pending"
			if m.AppliedAt != nil {
				applied = m.AppliedAt.Format(time.RFC3339)
			}
			rows = append(rows, []string{m.Name, applied, m.Checksum[:12]})
		}
		command.Table(w, []string{"MIGRATION", "APPLIED", "SHA-256"}, rows)
	})
}

// NewLogger returns a logger that redacts secrets, including those in errors of
// other packages.
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	var lines slog.Handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})
	if format == "json" {
		lines = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})
	}
	return slog.New(redact.NewHandler(lines, &redact.JSON{}, nil))
}
