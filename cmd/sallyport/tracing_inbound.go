package main

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"sallyport/ingest/event"
)

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
