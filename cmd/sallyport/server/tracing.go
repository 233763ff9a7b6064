package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/cmd/sallyport/command"
	"sallyport/ingest/event"
)

// tracing draws calls as OpenTelemetry's spans and sends them to a collector. It is
// an [gate.Tracer]. What it says of a call is what [action.TraceAttributes] holds. A nil
// tracing traces nothing.
//
// Nothing is set for the whole process: libraries that speak OpenTelemetry by
// themselves stay silent.
type tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	log      *slog.Logger
}

// openTracing starts to trace when the environment names a collector.
func (g *Gateway) openTracing(ctx context.Context) (err error) {
	g.tracing, err = newTracing(ctx, g.instance, g.log)
	return err
}

// newTracing returns nil when nobody wants traces.
func newTracing(ctx context.Context, instance string, log *slog.Logger) (*tracing, error) {
	if on, err := Environment(os.Getenv).Traces(); err != nil || !on {
		return nil, err
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "sallyport"),
			attribute.String("service.version", command.Version()),
			attribute.String("service.instance.id", instance),
		),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES cannot be read; write it as key=value,key=value")
	}
	client, err := Environment(os.Getenv).otlpClient()
	if err != nil {
		return nil, err
	}
	sends, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("the exporter of traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(&reporting{SpanExporter: sends, log: log}), sdktrace.WithResource(about))
	return &tracing{provider: provider, tracer: provider.Tracer("sallyport"), log: log}, nil
}

// flushWithin is how long the last spans may take when the process ends.
const flushWithin = 3 * time.Second

// close sends what is left.
func (t *tracing) close() {
	if t == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), flushWithin)
	defer stop()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans could not be sent to the collector", "error", err)
	}
}

// calls is what a [gate.Gate] is given: a nil interface where nothing is traced.
func (t *tracing) calls() gate.Tracer {
	if t == nil {
		return nil
	}
	return t
}

// Start implements gate.Tracer.
func (t *tracing) Start(ctx context.Context, step action.TraceStep) (context.Context, func(action.TraceAttributes)) {
	ctx, span := t.tracer.Start(ctx, spanName(step), trace.WithSpanKind(spanKind(step)))
	return ctx, func(told action.TraceAttributes) { endSpan(span, &told) }
}

// Past implements gate.Tracer.
func (t *tracing) Past(ctx context.Context, step action.TraceStep, began time.Time, told action.TraceAttributes) {
	_, span := t.tracer.Start(ctx, spanName(step), trace.WithSpanKind(spanKind(step)), trace.WithTimestamp(began))
	endSpan(span, &told)
}

// Bare implements gate.Tracer.
func (*tracing) Bare(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.SpanContextFromContext(ctx))
}

func spanName(step action.TraceStep) string { return "sallyport." + string(step) }

func spanKind(step action.TraceStep) trace.SpanKind {
	switch step {
	case action.TraceCall, action.TraceWait:
		return trace.SpanKindServer
	case action.TraceExecute:
		return trace.SpanKindClient
	case action.TraceDecide, action.TraceHold, action.TraceResume, action.TraceRecheck:
	}
	return trace.SpanKindInternal
}

// endSpan says what is known.
func endSpan(span trace.Span, told *action.TraceAttributes) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	all := make([]attribute.KeyValue, 0, 10)
	for _, fact := range []struct{ key, value string }{
		{"sallyport.organization", told.Organization},
		{"sallyport.session", told.Session},
		{"sallyport.invocation", told.Invocation},
		{"sallyport.source", told.Source},
		{"sallyport.action", told.Action},
		{"sallyport.mode", string(told.Mode)},
		{"sallyport.mode_source", string(told.ModeSource)},
		{"sallyport.status", string(told.Status)},
		{"sallyport.code", told.Code},
	} {
		if fact.value != "" {
			all = append(all, attribute.String(fact.key, fact.value))
		}
	}
	if told.Repeated {
		all = append(all, attribute.Bool("sallyport.repeated", true))
	}
	span.SetAttributes(all...)
	if told.Status == action.StatusFailed || told.Status == "" && told.Code != "" {
		span.SetStatus(codes.Error, told.Code)
	}
}

// follow returns ctx as part of the trace that somebody names, who may name any:
// what is no traceparent of W3C is passed over.
func follow(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// follows is what an [mcpserver.Server] is given; nil where nothing is traced.
func (t *tracing) follows() func(context.Context, string) context.Context {
	if t == nil {
		return nil
	}
	return follow
}

// doors has requests of agents and of the API be part of the traces that they name.
// Of their headers only traceparent is read: what else there is of a trace may hold
// anything, and goes nowhere. Senders of webhooks are strangers, whose traces are
// not ours.
func (t *tracing) doors(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named := r.Header.Values("Traceparent")
		if len(named) == 1 && (r.URL.Path == "/mcp" || strings.HasPrefix(r.URL.Path, "/api/")) {
			r = r.WithContext(follow(r.Context(), named[0]))
		}
		next.ServeHTTP(w, r)
	})
}

// traceparent is what those are given who speak to services; nil where nothing is
// traced.
func (t *tracing) traceparent() func(context.Context) string {
	if t == nil {
		return nil
	}
	return func(ctx context.Context) string {
		s := trace.SpanContextFromContext(ctx)
		if !s.IsValid() {
			return ""
		}
		return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + (s.TraceFlags() & trace.FlagsSampled).String()
	}
}

// collectorSays bounds what is repeated of a collector's answer.
const collectorSays = 300

// reporting says in the log when spans stop to arrive, and when they arrive again.
type reporting struct {
	sdktrace.SpanExporter
	log    *slog.Logger
	failed atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	switch fails := err != nil; {
	case r.failed.Swap(fails) == fails: // said already
	case fails:
		r.log.Warn("the collector of traces takes no spans; they are lost until it does, calls go on", "error", fmt.Sprintf("%.*s", collectorSays, err))
	default:
		r.log.Info("the collector of traces takes spans again")
	}
	return nil // it is said
}

// Environment reads OpenTelemetry's variables.
type Environment func(name string) string

// otlp is a setting of the exporter, for traces or for all that it could send.
func (env Environment) otlp(name string) (variable, value string) {
	for _, variable = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value = strings.TrimSpace(env(variable)); value != "" {
			break
		}
	}
	return variable, value
}

// Traces reports whether somebody wants traces. What the libraries would pass over
// in silence, or repeat on standard error with what is secret in it, is refused
// here.
func (env Environment) Traces() (on bool, err error) {
	variable, endpoint := env.otlp("ENDPOINT")
	if endpoint == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch env("OTEL_TRACES_EXPORTER") {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, errors.New("OTEL_TRACES_EXPORTER must be otlp, or none")
	}
	if err := checkEndpoint(variable, endpoint); err != nil {
		return false, err
	}
	// It is validated even where the URL for traces takes precedence.
	if all := env("OTEL_EXPORTER_OTLP_ENDPOINT"); strings.TrimSpace(all) != "" {
		if err := checkEndpoint("OTEL_EXPORTER_OTLP_ENDPOINT", strings.TrimSpace(all)); err != nil {
			return false, err
		}
	}
	return true, errors.Join(env.checkExporter(), env.checkSampler())
}

// webhooks draws deliveries that were taken in, or could not be for a fault of
// ours. Anybody may send others: they are counted, and fill nobody's traces.
func (t *tracing) webhooks(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, answer := time.Now(), &statusSeen{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		fault := answer.status >= http.StatusInternalServerError
		if r.Method != http.MethodPost || answer.status >= http.StatusBadRequest && !fault {
			return
		}
		_, span := t.tracer.Start(context.Background(), "sallyport.webhook", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began),
			trace.WithAttributes(attribute.String("http.route", r.Pattern), attribute.Int("http.response.status_code", answer.status)))
		if fault {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	})
}

// statusSeen remembers how a request was answered.
type statusSeen struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusSeen) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *statusSeen) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// run draws that a run began.
func (t *tracing) run(r *event.Run) {
	if t == nil {
		return
	}
	_, span := t.tracer.Start(context.Background(), "sallyport.run", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("sallyport.organization", r.Organization), attribute.String("sallyport.run", r.ID),
		attribute.String("sallyport.automation", r.Automation), attribute.String("sallyport.event", r.Event)))
	span.End()
}
