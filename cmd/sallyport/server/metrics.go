package server

import (
	"context"
	"crypto/subtle"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sallyport/sources"
	"sallyport/store"
	"sallyport/store/coord"
)

// counts are what operators watch that is counted where it happens.
type counts struct {
	calls  *callMetrics
	chores *prometheus.SummaryVec
	lists  prometheus.Counter
}

func newCounts() counts {
	return counts{
		calls:  newCallMetrics(),
		chores: prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "sallyport_chore_seconds", Help: "Runs and durations of periodic jobs on this instance (sweep: ending overdue calls)."}, []string{"chore"}),
		lists:  prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_tool_lists_changed_total", Help: "Tool lists of connectors that changed or were read for the first time."}),
	}
}

// timed is the chore with its rounds counted.
func (c counts) timed(ch chore) chore {
	do, rounds := ch.do, c.chores.WithLabelValues(ch.name)
	ch.do = func(ctx context.Context) {
		began := time.Now()
		do(ctx)
		rounds.Observe(time.Since(began).Seconds())
	}
	return ch
}

// metrics serves what operators watch, in Prometheus's format: numbers,
// and beside them ids of sources and names of actions. No param, no result, no
// credential is in it.
func (g *Gateway) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(g.collectors()...)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	switch {
	case g.Options.MetricsToken != "":
	case g.alone():
		return handler
	default:
		g.log.Warn("/metrics is refused, since others than this machine reach " + g.Options.Listen + ": set --metrics-token to have it read")
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "this server listens beyond its own machine, so that /metrics is read with a token only: start it with --metrics-token (SALLYPORT_METRICS_TOKEN)", http.StatusForbidden)
		})
	}
	want := []byte("Bearer " + g.Options.MetricsToken)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send the token of --metrics-token (SALLYPORT_METRICS_TOKEN) as Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// alone reports whether only this machine reaches the listener: a public URL of
// another one means that somebody hands requests on to it.
func (g *Gateway) alone() bool {
	if u, err := url.Parse(g.Options.PublicURL); g.Options.PublicURL != "" && (err != nil || !IsLoopback(u.Hostname())) {
		return false
	}
	if g.listener == nil {
		return true
	}
	at, ok := g.listener.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// IsLoopback reports whether a host name means this machine.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// collectors are the gateway's own metrics.
func (g *Gateway) collectors() []prometheus.Collector {
	all := append(g.counts.calls.collectors(),
		gauge("sallyport_waiting_calls", "Calls whose callers wait on this instance.", func() float64 { return float64(g.gate.Waiting()) }),
		g.counts.chores, g.counts.lists,
		backlog("sallyport_calls_pending", "Pending calls, counted up to 10,000; the same on all instances.", g.DB.CallsPending),
		backlog("sallyport_tools_unreviewed", "Connector tools that are new or changed since their review, counted up to 10,000; the same on all instances.", g.DB.ToolsUnreviewed),
		connectorHealth{g.catalog},
	)
	if g.inbound != nil {
		all = append(all, g.inbound.counts.collectors(g.DB)...)
	}
	if g.coord.valkey != nil {
		all = append(all, g.valkeyMetrics()...)
	}
	return all
}

func (g *Gateway) valkeyMetrics() []prometheus.Collector {
	stat := func(f func(coord.Stats) float64) func() float64 {
		return func() float64 { return f(g.coord.valkey.Stats()) }
	}
	return []prometheus.Collector{
		gauge("sallyport_valkey_up", "1 while hints from other instances arrive.", stat(func(s coord.Stats) float64 {
			if s.Up {
				return 1
			}
			return 0
		})),
		counter("sallyport_valkey_reconnects_total", "Reconnects to Valkey after a failure.", stat(func(s coord.Stats) float64 { return float64(s.Reconnects) })),
		counter("sallyport_hints_dropped_total", "Hints to other instances that were dropped.", stat(func(s coord.Stats) float64 { return float64(s.Dropped) })),
		counter("sallyport_rate_limit_fallback_total", "Calls that this instance counted without Valkey for rate limits.", stat(func(s coord.Stats) float64 { return float64(s.Fallbacks) })),
		counter("sallyport_lock_fallback_total", "Locks taken without Valkey because it did not answer.", stat(func(s coord.Stats) float64 { return float64(s.LockFallbacks) })),
	}
}

// connectorHealth tells how connectors are when it is asked.
type connectorHealth struct{ catalog *sources.Catalog }

// Describe implements prometheus.Collector.
func (connectorHealth) Describe(all chan<- *prometheus.Desc) { all <- connectorUp() }

// Collect implements prometheus.Collector.
func (h connectorHealth) Collect(all chan<- prometheus.Metric) {
	for i, c := range h.catalog.Health() {
		if i == toldSources {
			return
		}
		up := 0.0
		if c.Healthy {
			up = 1
		}
		all <- prometheus.MustNewConstMetric(connectorUp(), prometheus.GaugeValue, up, c.Source)
	}
}

func connectorUp() *prometheus.Desc {
	return prometheus.NewDesc("sallyport_connector_up", "1 while an enabled connector answers this instance; for the first 100 connectors used.", []string{"source"}, nil)
}

func gauge(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
}

func counter(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f)
}

// inboundCounts is what operators watch of what comes in.
type inboundCounts struct {
	webhooks *prometheus.CounterVec
	work     *prometheus.CounterVec
	looks    *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

func newInboundCounts() inboundCounts {
	count := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"provider", "result"})
	}
	return inboundCounts{
		webhooks: count("sallyport_webhooks_total", "Requests to webhook URLs, by answer."),
		work:     count("sallyport_deliveries_total", "Results of stored deliveries: completed, retried, failed, unreadable, doubled (the same body arrived just before under another ID), losing (given up because it crashed the process); run and no_run (a known event, or its trigger was removed); hydrate_failed and hydrate_backoff."),
		looks:    count("sallyport_polls_total", "Polls of services: found, failed, backoff (the service asked to wait), lost (another instance has it)."),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sallyport_poll_seconds", Help: "Duration of polls.", Buckets: []float64{.1, .3, 1, 3, 10, 30, 120},
		}, []string{"provider"}),
	}
}

func (c *inboundCounts) collectors(db *store.DB) []prometheus.Collector {
	return []prometheus.Collector{
		c.webhooks, c.work, c.looks, c.took,
		backlog("sallyport_deliveries_waiting", "Deliveries waiting to be processed, counted up to 10,000; the same on all instances.", db.DeliveriesWaiting),
		backlog("sallyport_runs_undelivered", "Runs waiting for their endpoint or a worker, counted up to 10,000; the same on all instances.", db.RunsUndelivered),
		lag("sallyport_inbox_lag_seconds", "Age of the oldest due delivery; the same on all instances.", db.InboxLag),
		lag("sallyport_outbox_lag_seconds", "Age of the oldest run that is due for its endpoint or a worker; the same on all instances.", db.OutboxLag),
	}
}

// backlog counts rows when it is asked.
func backlog(name, help string, count func(context.Context) (int, error)) prometheus.Collector {
	return ofRows(name, help, count, func(n int) float64 { return float64(n) })
}

// lag looks how old rows are when it is asked.
func lag(name, help string, oldest func(context.Context) (time.Duration, error)) prometheus.Collector {
	return ofRows(name, help, oldest, time.Duration.Seconds)
}

// ofRows is no number while the rows are away.
func ofRows[T any](name, help string, read func(context.Context) (T, error), number func(T) float64) prometheus.Collector {
	return gauge(name, help, func() float64 {
		ctx, stop := context.WithTimeout(context.Background(), countWithin)
		defer stop()
		v, err := read(ctx)
		if err != nil {
			return math.NaN()
		}
		return number(v)
	})
}

const countWithin = 2 * time.Second

func (c *inboundCounts) answered(what, provider string) {
	c.webhooks.WithLabelValues(provider, what).Inc()
}

func (c *inboundCounts) worked(what, provider string) {
	c.work.WithLabelValues(provider, what).Inc()
}

func (c *inboundCounts) looked(result, provider string, took time.Duration) {
	c.looks.WithLabelValues(provider, result).Inc()
	c.took.WithLabelValues(provider).Observe(took.Seconds())
}
