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

	"sallyport/gitserver"
	"sallyport/sources"
	"sallyport/store"
	"sallyport/store/coord"
)

// serverMetrics are the metrics that are counted as events happen.
type serverMetrics struct {
	calls  *callMetrics
	models *modelMetrics
	jobs   *prometheus.SummaryVec
	lists  prometheus.Counter
}

func newServerMetrics() serverMetrics {
	return serverMetrics{
		calls:  newCallMetrics(),
		models: newModelMetrics(),
		jobs:   prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: "sallyport_chore_seconds", Help: "Runs and durations of periodic jobs on this instance (sweep: ending overdue calls)."}, []string{"chore"}),
		lists:  prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_tool_lists_changed_total", Help: "Tool lists of connectors that changed or were read for the first time."}),
	}
}

// observeJob returns the job with its duration recorded.
func (c serverMetrics) observeJob(ch job) job {
	do, durations := ch.do, c.jobs.WithLabelValues(ch.name)
	ch.do = func(ctx context.Context) {
		started := time.Now()
		do(ctx)
		durations.Observe(time.Since(started).Seconds())
	}
	return ch
}

// metrics serves metrics in Prometheus's format. Their labels hold IDs of
// sources and names of actions, and never params, results or credentials.
func (g *Gateway) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(g.collectors()...)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	switch {
	case g.Options.MetricsToken != "":
	case g.loopbackOnly():
		return handler
	default:
		g.log.Warn("requests to /metrics are refused, because other machines can reach " + g.Options.Listen + ": set --metrics-token to allow them")
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Other machines can reach this server, so /metrics needs a token. Start the server with --metrics-token (or SALLYPORT_METRICS_TOKEN).", http.StatusForbidden)
		})
	}
	want := []byte("Bearer " + g.Options.MetricsToken)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "Send the value of --metrics-token (or SALLYPORT_METRICS_TOKEN) in the header Authorization: Bearer TOKEN.", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// loopbackOnly reports whether only this machine can reach the listener. A
// public URL on another host means that a proxy forwards requests to it.
func (g *Gateway) loopbackOnly() bool {
	if u, err := url.Parse(g.Options.PublicURL); g.Options.PublicURL != "" && (err != nil || !IsLoopback(u.Hostname())) {
		return false
	}
	if g.listener == nil {
		return true
	}
	addr, ok := g.listener.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// IsLoopback reports whether a host name refers to this machine.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// collectors returns the gateway's own metrics.
func (g *Gateway) collectors() []prometheus.Collector {
	all := append(append(g.counts.calls.collectors(), g.counts.models.collectors()...),
		gauge("sallyport_waiting_calls", "Calls whose callers wait on this instance.", func() float64 { return float64(g.gate.Waiting()) }),
		g.counts.jobs, g.counts.lists,
		backlog("sallyport_calls_pending", "Pending calls, counted up to 10,000; the same on all instances.", g.DB.CallsPending),
		backlog("sallyport_tools_unreviewed", "Connector tools that are new or changed since their review, counted up to 10,000; the same on all instances.", g.DB.ToolsUnreviewed),
		connectorHealth{g.catalog},
	)
	if g.git != nil {
		all = append(all, gitTraffic{g.git})
	}
	if g.inbound != nil {
		all = append(all, g.inbound.metrics.collectors(g.DB)...)
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

// gitTraffic collects the bytes of Git's requests by direction.
type gitTraffic struct{ server *gitserver.Server }

func gitBytesDesc() *prometheus.Desc {
	return prometheus.NewDesc("sallyport_git_bytes_total", "Bytes of packs and refs sent to forges and received from them.", []string{"direction"}, nil)
}

// Describe implements prometheus.Collector.
func (gitTraffic) Describe(all chan<- *prometheus.Desc) { all <- gitBytesDesc() }

// Collect implements prometheus.Collector.
func (t gitTraffic) Collect(all chan<- prometheus.Metric) {
	for direction, bytes := range t.server.Bytes() {
		all <- prometheus.MustNewConstMetric(gitBytesDesc(), prometheus.CounterValue, float64(bytes.Load()), direction)
	}
}

// connectorHealth collects the health of connectors when it is scraped.
type connectorHealth struct{ catalog *sources.Catalog }

// Describe implements prometheus.Collector.
func (connectorHealth) Describe(all chan<- *prometheus.Desc) { all <- connectorUpDesc() }

// Collect implements prometheus.Collector.
func (h connectorHealth) Collect(all chan<- prometheus.Metric) {
	for i, c := range h.catalog.Health() {
		if i == maxSources {
			return
		}
		up := 0.0
		if c.Healthy {
			up = 1
		}
		all <- prometheus.MustNewConstMetric(connectorUpDesc(), prometheus.GaugeValue, up, c.Source)
	}
}

func connectorUpDesc() *prometheus.Desc {
	return prometheus.NewDesc("sallyport_connector_up", "1 while an enabled connector answers this instance; for the first 100 connectors used.", []string{"source"}, nil)
}

func gauge(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
}

func counter(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f)
}

// inboundMetrics are the metrics of webhooks, deliveries and polls.
type inboundMetrics struct {
	webhooks    *prometheus.CounterVec
	deliveries  *prometheus.CounterVec
	polls       *prometheus.CounterVec
	pollSeconds *prometheus.HistogramVec
}

func newInboundMetrics() inboundMetrics {
	count := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"provider", "result"})
	}
	return inboundMetrics{
		webhooks:   count("sallyport_webhooks_total", "Requests to webhook URLs, by result."),
		deliveries: count("sallyport_deliveries_total", "Results of stored deliveries: completed, retried, failed, unreadable, doubled (the same body arrived just before under another ID), losing (given up because it crashed the process); run and no_run (a known event, or its trigger was removed); hydrate_failed and hydrate_backoff."),
		polls:      count("sallyport_polls_total", "Polls of services: found, failed, backoff (the service asked to wait), lost (another instance has it)."),
		pollSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sallyport_poll_seconds", Help: "Duration of polls.", Buckets: []float64{.1, .3, 1, 3, 10, 30, 120},
		}, []string{"provider"}),
	}
}

func (c *inboundMetrics) collectors(db *store.DB) []prometheus.Collector {
	return []prometheus.Collector{
		c.webhooks, c.deliveries, c.polls, c.pollSeconds,
		backlog("sallyport_deliveries_waiting", "Deliveries waiting to be processed, counted up to 10,000; the same on all instances.", db.DeliveriesWaiting),
		backlog("sallyport_runs_undelivered", "Runs waiting for their endpoint or a worker, counted up to 10,000; the same on all instances.", db.RunsUndelivered),
		lag("sallyport_inbox_lag_seconds", "Age of the oldest due delivery; the same on all instances.", db.InboxLag),
		lag("sallyport_outbox_lag_seconds", "Age of the oldest run that is due for its endpoint or a worker; the same on all instances.", db.OutboxLag),
	}
}

// backlog returns a gauge that counts rows when it is scraped.
func backlog(name, help string, count func(context.Context) (int, error)) prometheus.Collector {
	return queryGauge(name, help, count, func(n int) float64 { return float64(n) })
}

// lag returns a gauge of the age of rows, read when it is scraped.
func lag(name, help string, oldest func(context.Context) (time.Duration, error)) prometheus.Collector {
	return queryGauge(name, help, oldest, time.Duration.Seconds)
}

// queryGauge returns a gauge that runs a query when it is scraped; NaN if the
// database does not answer.
func queryGauge[T any](name, help string, read func(context.Context) (T, error), number func(T) float64) prometheus.Collector {
	return gauge(name, help, func() float64 {
		ctx, stop := context.WithTimeout(context.Background(), queryTimeout)
		defer stop()
		v, err := read(ctx)
		if err != nil {
			return math.NaN()
		}
		return number(v)
	})
}

const queryTimeout = 2 * time.Second

func (c *inboundMetrics) countWebhook(what, provider string) {
	c.webhooks.WithLabelValues(provider, what).Inc()
}

func (c *inboundMetrics) countDelivery(what, provider string) {
	c.deliveries.WithLabelValues(provider, what).Inc()
}

func (c *inboundMetrics) observePoll(result, provider string, took time.Duration) {
	c.polls.WithLabelValues(provider, result).Inc()
	c.pollSeconds.WithLabelValues(provider).Observe(took.Seconds())
}
