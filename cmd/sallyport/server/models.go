package server

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/llm"
)

// openModels builds the door to models.
func (g *Gateway) openModels() {
	g.models = llm.New(llm.Config{
		Authenticate: g.sessions.Authenticate, Settings: g.DB.ModelSettings, Secret: g.secret, Ledger: g.DB, Take: g.coord.Take,
		Client: g.modelClient, Refused: g.gate.CountRefusal, Ended: g.counts.models.observe, NewID: newID, Now: g.DB.Now, Log: g.log,
	})
}

// modelClient returns a client for a provider. A model may think for long before the
// first byte of its answer.
func (g *Gateway) modelClient(u *url.URL) *http.Client {
	c := g.guardConfig()
	c.AllowLoopback = guard.Loopback(u)
	t := guard.NewTransport(c)
	t.ResponseHeaderTimeout = 15 * time.Minute
	t.DisableCompression = true // the gateway counts what passes
	client := guard.Over(t, u)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// lostModelRequest is after which time a request that has not ended belongs to an
// instance that is gone.
const lostModelRequest = 6 * time.Hour

// sweepModelRequests ends lost requests, and deletes those that retention covers.
func (g *Gateway) sweepModelRequests(ctx context.Context, now time.Time, limit int) (int, error) {
	if _, err := g.DB.EndLostModelRequests(ctx, now.Add(-lostModelRequest), limit); err != nil {
		return 0, err
	}
	if g.Options.Retention <= 0 {
		return 0, nil
	}
	return g.DB.SweepModelRequests(ctx, now.Add(-g.Options.Retention), limit)
}

// modelMetrics count requests to models.
type modelMetrics struct {
	requests  *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	firstByte prometheus.Histogram

	mu    sync.Mutex
	known map[string]bool // labels of models
}

func newModelMetrics() *modelMetrics {
	return &modelMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_model_requests_total", Help: "Requests to models by provider and result: ok, failed, or the error code."}, []string{"provider", "result"}),
		tokens:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_model_tokens_total", Help: "Tokens by model and kind."}, []string{"model", "kind"}),
		firstByte: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sallyport_model_first_byte_seconds", Help: "Time to the first byte of a model's response.", Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		known: map[string]bool{},
	}
}

func (m *modelMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.tokens, m.firstByte}
}

// maxModelLabels bounds the labels, because agents choose the names of models.
const maxModelLabels = 100

// observe implements llm.Config.Ended.
func (m *modelMetrics) observe(r *action.ModelRequest, firstByte time.Duration) {
	result := r.Code
	switch {
	case result != "":
	case r.Status < http.StatusBadRequest:
		result = "ok"
	default:
		result = "failed"
	}
	m.requests.WithLabelValues(r.Provider, result).Inc()
	if firstByte > 0 {
		m.firstByte.Observe(firstByte.Seconds())
	}
	if r.Sum() == 0 {
		return
	}
	model := r.Provider + "/" + r.Model
	m.mu.Lock()
	if !m.known[model] && len(m.known) >= maxModelLabels {
		model = "other"
	} else {
		m.known[model] = true
	}
	m.mu.Unlock()
	for kind, n := range map[string]int64{"input": r.Input, "cached": r.Cached, "cache_write": r.CacheWrite, "output": r.Output} {
		m.tokens.WithLabelValues(model, kind).Add(float64(n))
	}
}
