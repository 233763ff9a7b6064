package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/internal/redact"
)

// Limits on label cardinality. Upstreams choose the names of actions, and sources
// come and go: the first ones get labels of their own until the process ends, the
// others share one. No upstream can exhaust the memory of this process or of
// Prometheus.
const (
	maxSources          = 100 // in all organizations
	maxActionsPerSource = 100 // per source
	maxActions          = 1000
	otherLabel          = "other" // not a valid source: module IDs are known, other IDs contain a colon
)

// callMetrics are the metrics of calls. It implements [gate.Observer].
type callMetrics struct {
	calls     *prometheus.CounterVec
	refused   *prometheus.CounterVec
	decisions *prometheus.HistogramVec
	runs      *prometheus.HistogramVec
	approvals *prometheus.HistogramVec
	grants    prometheus.Counter
	unknown   prometheus.Counter
	failed    *prometheus.CounterVec
	drifted   *prometheus.CounterVec

	decisionsByMode map[action.Mode]prometheus.Observer

	mu               sync.RWMutex // the fields below
	labelled         map[action.Key]bool
	actionsPerSource map[string]int // labelled actions, by source
	endCounters      map[endLabels]prometheus.Counter
	executions       map[string]prometheus.Observer // by source
}

// endLabels are the labels that ended calls are counted by.
type endLabels struct {
	key    action.Key
	mode   action.Mode
	status action.Status
}

func newCallMetrics() *callMetrics {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &callMetrics{
		calls:   count("sallyport_calls_total", "Calls that this instance recorded as ended, by source ID, action (other: beyond the first 100 sources, 100 actions per source and 1,000 in total), mode and final status.", "source", "action", "mode", "status"),
		refused: count("sallyport_calls_refused_total", "Requests refused without a record, by kind: invalid, unauthenticated, forbidden (an action that the gateway never calls), not_found, conflict, too_many (a rate limit, a quota or too many pending calls), too_large, unavailable, gone (the caller disconnected), internal.", "kind"),
		decisions: histogram("sallyport_decision_seconds", "Time to resolve an action, check its params and decide.",
			[]float64{.00001, .00003, .0001, .0003, .001, .003, .01, .1, 1, 10}, "mode"),
		runs: histogram("sallyport_execution_seconds", "Execution time of calls, by source ID (other: beyond the first 100).",
			[]float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 120}, "source"),
		approvals: histogram("sallyport_approval_seconds", "Time that pending calls waited until this instance recorded them as approved, denied by a person, withdrawn or expired.",
			[]float64{1, 3, 10, 30, 60, 180, 300, 900, 3600, 14400, 86400}, "result"),
		grants:          prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_grants_used_total", Help: "Ended calls that a grant approved."}),
		unknown:         prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_outcomes_unknown_total", Help: "Calls that may or may not have happened (error outcome_unknown)."}),
		failed:          count("sallyport_calls_failed_total", "Calls that this instance recorded as failed, by source ID (other: beyond the first 100), error code and fault, the exact cause such as upstream_timeout (empty: the code says it).", "source", "error", "fault"),
		drifted:         count("sallyport_drift_decisions_total", "Decisions on calls of tools that changed since their review, by mode.", "mode"),
		decisionsByMode: map[action.Mode]prometheus.Observer{},
		labelled:        map[action.Key]bool{}, actionsPerSource: map[string]int{}, endCounters: map[endLabels]prometheus.Counter{}, executions: map[string]prometheus.Observer{},
	}
	for _, mode := range []action.Mode{action.ModeAllow, action.ModeDeny, action.ModeRequireApproval} {
		m.decisionsByMode[mode] = m.decisions.WithLabelValues(string(mode))
		m.drifted.WithLabelValues(string(mode))
	}
	for _, kind := range refusalKinds() {
		m.refused.WithLabelValues(kind.name)
	}
	for _, result := range []string{"approved", "denied", "withdrawn", "expired"} {
		m.approvals.WithLabelValues(result)
	}
	return m
}

func (m *callMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.refused, m.decisions, m.runs, m.approvals, m.grants, m.unknown, m.failed, m.drifted}
}

// Decided implements gate.Observer.
func (m *callMetrics) Decided(_ *action.Action, d *action.Decision, took time.Duration) {
	if o := m.decisionsByMode[d.Mode]; o != nil {
		o.Observe(took.Seconds())
	}
	if action.Unreviewed(d.Steps) != "" {
		m.drifted.WithLabelValues(string(d.Mode)).Inc()
	}
}

// refusalKinds lists the kinds of error of calls that end without a row. The
// first match counts.
func refusalKinds() []struct {
	name string
	kind error
} {
	return []struct {
		name string
		kind error
	}{
		{"invalid", action.ErrInvalid},
		{"unauthenticated", action.ErrUnauthenticated},
		{"forbidden", action.ErrForbidden},
		{"not_found", action.ErrNotFound},
		{"conflict", action.ErrConflict},
		{"too_many", action.ErrTooMany},
		{"too_large", action.ErrTooLarge},
		{"unavailable", action.ErrUnavailable},
		{"gone", action.ErrCancelled},
		{"gone", action.ErrCallerGone},
		{"internal", nil},
	}
}

// Refused implements gate.Observer.
func (m *callMetrics) Refused(err error) {
	for _, r := range refusalKinds() {
		if r.kind == nil || errors.Is(err, r.kind) {
			m.refused.WithLabelValues(r.name).Inc()
			return
		}
	}
}

// Changed implements gate.Observer.
func (m *callMetrics) Changed(inv *action.Invocation) {
	if inv.Mode == action.ModeRequireApproval {
		m.observeApproval(inv)
	}
	if !inv.Status.Terminal() {
		return
	}
	m.countEnd(endLabels{action.Key{Source: inv.Source, Action: inv.Action}, inv.Mode, inv.Status})
	if inv.Grant != "" {
		m.grants.Inc()
	}
	if inv.Error != nil {
		m.countFailure(inv)
	}
}

// countFailure counts a failed call by its cause. Codes are the gateway's own words, so
// they need no limit.
func (m *callMetrics) countFailure(inv *action.Invocation) {
	m.mu.Lock()
	key, _ := m.labels(action.Key{Source: inv.Source, Action: inv.Action})
	m.mu.Unlock()
	m.failed.WithLabelValues(key.Source, inv.Error.Code, inv.Error.Fault).Inc()
	if inv.Error.Code == action.FailedUnknown {
		m.unknown.Inc()
	}
}

// observeApproval records how long a pending approval waited.
func (m *callMetrics) observeApproval(inv *action.Invocation) {
	var result string
	until := inv.CompletedAt
	switch {
	case inv.Status == action.StatusApproved:
		result, until = "approved", inv.ApprovedAt
	case inv.Status == action.StatusExpired && inv.ApprovedAt == nil:
		result = "expired"
	case inv.Status == action.StatusDenied && inv.DeniedReason == action.DeniedHuman:
		result = "denied"
	case inv.Status == action.StatusDenied && inv.DeniedReason == action.DeniedWithdrawn:
		result = "withdrawn"
	}
	if result != "" && until != nil {
		m.approvals.WithLabelValues(result).Observe(until.Sub(inv.CreatedAt).Seconds())
	}
}

// Ran implements gate.Observer.
func (m *callMetrics) Ran(inv *action.Invocation, _ action.Status, took time.Duration) {
	m.mu.RLock()
	o := m.executions[inv.Source]
	m.mu.RUnlock()
	if o == nil {
		m.mu.Lock()
		key, _ := m.labels(action.Key{Source: inv.Source, Action: inv.Action})
		if o = m.runs.WithLabelValues(key.Source); key.Source == inv.Source {
			m.executions[inv.Source] = o
		}
		m.mu.Unlock()
	}
	o.Observe(took.Seconds())
}

func (m *callMetrics) countEnd(e endLabels) {
	m.mu.RLock()
	c := m.endCounters[e]
	m.mu.RUnlock()
	if c == nil {
		m.mu.Lock()
		key, known := m.labels(e.key)
		if c = m.calls.WithLabelValues(key.Source, key.Action, string(e.mode), string(e.status)); known {
			m.endCounters[e] = c
		}
		m.mu.Unlock()
	}
	c.Inc()
}

// labels returns the labels of an action, and whether they are its own. The
// caller holds the lock.
func (m *callMetrics) labels(key action.Key) (action.Key, bool) {
	if m.labelled[key] {
		return key, true
	}
	n, known := m.actionsPerSource[key.Source]
	switch {
	case !known && len(m.actionsPerSource) == maxSources:
		return action.Key{Source: otherLabel, Action: otherLabel}, false
	case n == maxActionsPerSource || len(m.labelled) == maxActions:
		m.actionsPerSource[key.Source] = n // its executions still get their own label
		return action.Key{Source: key.Source, Action: otherLabel}, false
	}
	m.labelled[key], m.actionsPerSource[key.Source] = true, n+1
	return key, true
}

// callLog logs a line for each call that is held and each that ended, and passes all
// events to the next [gate.Observer]. The lines have no params and no results.
type callLog struct {
	gate.Observer
	log *slog.Logger
}

// newCallLog returns a callLog on log, without its redaction, which would cost
// more than the line: IDs, the gateway's own words and the names of actions
// (which [sources] restricts) need none.
func newCallLog(next gate.Observer, log *slog.Logger) callLog {
	return callLog{next, redact.Unredacted(log)}
}

// Changed implements gate.Observer.
func (l callLog) Changed(inv *action.Invocation) {
	l.Observer.Changed(inv)
	ctx := context.Background()
	held := inv.Status == action.StatusPending
	if !held && !inv.Status.Terminal() || !l.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	message := "call"
	line := []slog.Attr{
		slog.String("invocation", inv.ID),
		slog.String("session", inv.Session),
		slog.String("organization", inv.Organization),
		slog.String("source", inv.Source),
		slog.String("action", inv.Action),
		slog.String("risk", string(inv.Risk)),
		slog.String("mode", string(inv.Mode)),
		slog.String("mode_source", string(inv.ModeSource)),
		slog.String("status", string(inv.Status)),
	}
	if held && inv.ExpiresAt != nil {
		message, line = "call held", append(line, slog.Time("expires_at", *inv.ExpiresAt))
	}
	if inv.Grant != "" {
		line = append(line, slog.String("grant", inv.Grant))
	}
	switch {
	case inv.ApprovedBy == "":
	case inv.DeniedReason == action.DeniedHuman:
		line = append(line, slog.String("denied_by", inv.ApprovedBy))
	default:
		line = append(line, slog.String("approved_by", inv.ApprovedBy))
	}
	switch {
	case inv.Error != nil:
		line = append(line, slog.String("error", inv.Error.Code))
		if inv.Error.Fault != "" {
			line = append(line, slog.String("fault", inv.Error.Fault))
		}
	case inv.DeniedReason != "":
		line = append(line, slog.String("denied", inv.DeniedReason))
	}
	if inv.DurationMS != nil { // it ran
		line = append(line, slog.Int64("duration_ms", *inv.DurationMS))
	}
	if inv.CompletedAt != nil {
		line = append(line, slog.Int64("total_ms", inv.CompletedAt.Sub(inv.CreatedAt).Milliseconds()))
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, message, line...)
}
