package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/oklog/run"
)

// The parts are for many instances: each is one process of `serve`.

type gatewayCommand struct {
	options
}

// Run serves agents and people until ctx ends.
func (c *gatewayCommand) Run(ctx context.Context, std *stdio) error {
	if err := c.shared("gateway"); err != nil {
		return err
	}
	g, link, err := startGateway(ctx, c.options, std)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "Sallyport gateway is ready at %s; people and agents reach it at %s and %s/mcp\n", g.local, g.url, g.url)
	if g.founded {
		fmt.Fprintf(std.Out, "The database is new. Sign in once, within 10 minutes:\n   %s\n", link)
	}
	return g.run(ctx)
}

// shared refuses a part whose rows no other process could reach or read.
func (o *options) shared(part string) error {
	if o.DatabaseURL == "" {
		return fmt.Errorf("sallyport %s is one of several instances and needs --database-url (or SALLYPORT_DATABASE_URL); for one process alone there is sallyport serve", part)
	}
	if o.MasterKey == "" || o.TokenKey == "" {
		return fmt.Errorf("sallyport %s is one of several instances, which share their keys: set SALLYPORT_MASTER_KEY and SALLYPORT_TOKEN_KEY to the same values on each (openssl rand -hex 32 makes one)", part)
	}
	return nil
}

type ingestCommand struct {
	options
}

// Run takes in what happens elsewhere, and does the work of the cluster that no
// request brings, until ctx ends.
func (c *ingestCommand) Run(ctx context.Context, std *stdio) error {
	if err := c.shared("ingest"); err != nil {
		return err
	}
	if c.PublicURL == "" {
		return errors.New("sallyport ingest tells who works on runs where the gateways are, and needs --public-url (or SALLYPORT_PUBLIC_URL): the same as theirs")
	}
	steps := []step{(*gateway).openTracing, (*gateway).openRows, (*gateway).openCoordination, (*gateway).listen, (*gateway).openGate, (*gateway).openInbound}
	if c.Evidence != "" { // which it cleans; of a folder of its own it knows nothing
		steps = append(steps, (*gateway).openFiles)
	}
	g, err := openParts(ctx, c.options, newLogger(std.Err, c.LogLevel, c.LogFormat), steps...)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "Sallyport ingest is ready at %s; webhooks reach it at %s/webhooks/\n", g.local, g.url)
	return g.runIngest(ctx)
}

// runIngest serves webhooks, probes and metrics beside what works them off.
func (g *gateway) runIngest(ctx context.Context) error {
	defer g.close()
	var group run.Group
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if g.ready() != nil { // which says why, once
			http.Error(w, "not ready; the log says why", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n")
	})
	mux.Handle("GET /metrics", g.metrics())
	g.inbound.takeIn(mux, g.tracing)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelWarn)}
	group.Add(func() error { return server.Serve(g.listener) }, func(error) {
		g.stopping.Store(true)
		time.Sleep(g.options.Intervals.ShutdownDelay) // so that balancers see /readyz first
		last, stop := context.WithTimeout(context.Background(), lastAnswers)
		defer stop()
		if err := server.Shutdown(last); err != nil {
			_ = server.Close()
		}
	})
	g.addInbound(&group)
	actors := []func(context.Context) error{g.keepUp}
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
