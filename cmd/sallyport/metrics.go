package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sallyport/store/coord"
)

// metrics serves what operators watch, in Prometheus's format. It holds counts
// only: no name, no param, no credential.
func (g *gateway) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("sallyport_waiting_calls", "Calls whose callers wait on this instance.", func() float64 { return float64(g.gate.Waiting()) }),
	)
	if g.coord.valkey != nil {
		g.valkeyMetrics(registry)
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

func (g *gateway) valkeyMetrics(registry *prometheus.Registry) {
	stat := func(f func(coord.Stats) float64) func() float64 {
		return func() float64 { return f(g.coord.valkey.Stats()) }
	}
	registry.MustRegister(
		gauge("sallyport_valkey_up", "1 while hints of other instances arrive.", stat(func(s coord.Stats) float64 {
			if s.Up {
				return 1
			}
			return 0
		})),
		counter("sallyport_valkey_reconnects_total", "Times that Valkey was lost and found again.", stat(func(s coord.Stats) float64 { return float64(s.Reconnects) })),
		counter("sallyport_hints_dropped_total", "Hints that other instances were not sent.", stat(func(s coord.Stats) float64 { return float64(s.Dropped) })),
		counter("sallyport_rate_limit_fallback_total", "Calls that were counted by this instance alone.", stat(func(s coord.Stats) float64 { return float64(s.Fallbacks) })),
		counter("sallyport_lock_fallback_total", "Locks that were not asked of Valkey, because it did not answer.", stat(func(s coord.Stats) float64 { return float64(s.LockFallbacks) })),
	)
}

func gauge(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
}

func counter(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f)
}
