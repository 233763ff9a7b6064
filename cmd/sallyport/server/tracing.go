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

// tracing exports calls as OpenTelemetry spans to a collector. It implements
// [gate.Tracer]; [action.TraceAttributes] lists what a span of a call contains.
// A nil tracing records nothing.
//
// It does not set OpenTelemetry's global provider, so that libraries do not
// export spans of their own.
type tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	log      *slog.Logger
}

// openTracing enables tracing if the environment configures a collector.
func (g *Gateway) openTracing(ctx context.Context) (err error) {
	g.tracing, err = newTracing(ctx, g.instance, g.log)
	return err
}

// newTracing returns nil if tracing is not configured.
func newTracing(ctx context.Context, instance string, log *slog.Logger) (*tracing, error) {
	if on, err := Environment(os.Getenv).Traces(); err != nil || !on {
		return nil, err
	}
	res, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "sallyport"),
			attribute.String("service.version", command.Version()),
			attribute.String("service.instance.id", instance),
		),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES is not valid; write key=value,key=value")
	}
	client, err := Environment(os.Getenv).otlpClient()
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("creating the trace exporter: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(&exportReporter{SpanExporter: exporter, log: log}), sdktrace.WithResource(res))
	return &tracing{provider: provider, tracer: provider.Tracer("sallyport"), log: log}, nil
}

// flushTimeout limits the export of the last spans at shutdown.
const flushTimeout = 3 * time.Second

// close exports the remaining spans.
func (t *tracing) close() {
	if t == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), flushTimeout)
	defer stop()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("could not send the last spans to the trace collector", "error", err)
	}
}

// callTracer returns the tracer for a [gate.Gate], or a nil interface if
// tracing is disabled.
func (t *tracing) callTracer() gate.Tracer {
	if t == nil {
		return nil
	}
	return t
}

// Start implements gate.Tracer.
func (t *tracing) Start(ctx context.Context, step action.TraceStep) (context.Context, func(action.TraceAttributes)) {
	ctx, span := t.tracer.Start(ctx, spanName(step), trace.WithSpanKind(spanKind(step)))
	return ctx, func(attrs action.TraceAttributes) { endSpan(span, &attrs) }
}

// Past implements gate.Tracer.
func (t *tracing) Past(ctx context.Context, step action.TraceStep, began time.Time, attrs action.TraceAttributes) {
	_, span := t.tracer.Start(ctx, spanName(step), trace.WithSpanKind(spanKind(step)), trace.WithTimestamp(began))
	endSpan(span, &attrs)
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

// endSpan sets the attributes that are known and ends the span.
func endSpan(span trace.Span, attrs *action.TraceAttributes) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	kept := make([]attribute.KeyValue, 0, 11)
	for _, attr := range []struct{ key, value string }{
		{"sallyport.organization", attrs.Organization},
		{"sallyport.session", attrs.Session},
		{"sallyport.invocation", attrs.Invocation},
		{"sallyport.source", attrs.Source},
		{"sallyport.action", attrs.Action},
		{"sallyport.mode", string(attrs.Mode)},
		{"sallyport.mode_source", string(attrs.ModeSource)},
		{"sallyport.status", string(attrs.Status)},
		{"sallyport.code", attrs.Code},
		{"sallyport.fault", attrs.Fault},
	} {
		if attr.value != "" {
			kept = append(kept, attribute.String(attr.key, attr.value))
		}
	}
	if attrs.Repeated {
		kept = append(kept, attribute.Bool("sallyport.repeated", true))
	}
	span.SetAttributes(kept...)
	if attrs.Status == action.StatusFailed || attrs.Status == "" && attrs.Code != "" {
		span.SetStatus(codes.Error, attrs.Code)
	}
}

// withRemoteParent returns ctx with the remote span of a W3C traceparent as
// parent. It ignores an invalid one.
func withRemoteParent(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// remoteParentFunc returns withRemoteParent for an [mcpserver.Server], or nil
// if tracing is disabled.
func (t *tracing) remoteParentFunc() func(context.Context, string) context.Context {
	if t == nil {
		return nil
	}
	return withRemoteParent
}

// traceRequests continues the traces of requests to /mcp and the API. It reads
// traceparent only: tracestate and baggage may hold anything. Webhooks do not
// continue a trace, since their senders are not trusted.
func (t *tracing) traceRequests(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		traceparents := r.Header.Values("Traceparent")
		if len(traceparents) == 1 && (r.URL.Path == "/mcp" || strings.HasPrefix(r.URL.Path, "/api/")) {
			r = r.WithContext(withRemoteParent(r.Context(), traceparents[0]))
		}
		next.ServeHTTP(w, r)
	})
}

// traceparentFunc returns a function for the traceparent of outgoing requests,
// or nil if tracing is disabled.
func (t *tracing) traceparentFunc() func(context.Context) string {
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

// maxExportError limits how much of a collector's error is logged.
const maxExportError = 300

// exportReporter logs when exports start to fail and when they recover.
type exportReporter struct {
	sdktrace.SpanExporter
	log    *slog.Logger
	failed atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter. It logs errors instead of
// returning them.
func (r *exportReporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	switch fails := err != nil; {
	case r.failed.Swap(fails) == fails: // already logged
	case fails:
		r.log.Warn("the trace collector does not accept spans; they are lost, calls continue", "error", fmt.Sprintf("%.*s", maxExportError, err))
	default:
		r.log.Info("the trace collector accepts spans again")
	}
	return nil // logged above
}

// Environment reads OpenTelemetry's environment variables.
type Environment func(name string) string

// otlp returns an exporter setting: the one for traces, or else the general
// one.
func (env Environment) otlp(name string) (variable, value string) {
	for _, variable = range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value = strings.TrimSpace(env(variable)); value != "" {
			break
		}
	}
	return variable, value
}

// Traces reports whether tracing is enabled. It rejects settings that the
// libraries would ignore silently, or report on standard error together with
// secrets.
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
		return false, errors.New("OTEL_TRACES_EXPORTER must be otlp or none")
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

// traceWebhooks records a span for each webhook that was accepted or that
// failed with a server error. Rejected requests are only counted: anyone can
// send them.
func (t *tracing) traceWebhooks(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, recorder := time.Now(), &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(recorder, r)
		fault := recorder.status >= http.StatusInternalServerError
		if r.Method != http.MethodPost || recorder.status >= http.StatusBadRequest && !fault {
			return
		}
		_, span := t.tracer.Start(context.Background(), "sallyport.webhook", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began),
			trace.WithAttributes(attribute.String("http.route", r.Pattern), attribute.Int("http.response.status_code", recorder.status)))
		if fault {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	})
}

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusRecorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap supports [http.ResponseController].
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recordRun records a span for the start of a run.
func (t *tracing) recordRun(r *event.Run) {
	if t == nil {
		return
	}
	_, span := t.tracer.Start(context.Background(), "sallyport.run", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("sallyport.organization", r.Organization), attribute.String("sallyport.run", r.ID),
		attribute.String("sallyport.automation", r.Automation), attribute.String("sallyport.event", r.Event)))
	span.End()
}
