package main

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/store"
)

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
