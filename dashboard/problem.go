package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
)

// Problem is every error that the API answers (RFC 9457).
type Problem struct {
	Type       string `json:"type" example:"about:blank"`
	Title      string `json:"title" example:"Conflict" doc:"The status in words."`
	Status     int    `json:"status" example:"409"`
	Code       string `json:"code" example:"already_decided" doc:"Stable, for programs."`
	Detail     string `json:"detail" example:"This call was approved by ada a moment ago." doc:"What happened and what to do next."`
	Field      string `json:"field,omitempty" example:"/params/title" doc:"JSON Pointer of the offending field."`
	Invocation string `json:"invocation,omitempty" example:"0199a3c4-5d6e-7f80-9123-456789abcdef" doc:"The invocation concerned."`

	retryAfter time.Duration
}

// statuses is the one table from kinds of error to HTTP.
func statuses() []kindStatus {
	return []kindStatus{
		{action.ErrInvalid, http.StatusBadRequest},
		{action.ErrUnauthenticated, http.StatusUnauthorized},
		{action.ErrForbidden, http.StatusForbidden},
		{action.ErrNotFound, http.StatusNotFound},
		{action.ErrConflict, http.StatusConflict},
		{action.ErrGone, http.StatusGone},
		{action.ErrTooLarge, http.StatusRequestEntityTooLarge},
		{action.ErrTooMany, http.StatusTooManyRequests},
		{action.ErrNotReady, http.StatusServiceUnavailable}, // an ErrUnavailable of its own
		{action.ErrUnavailable, http.StatusBadGateway},
		{action.ErrOutcomeUnknown, http.StatusBadGateway},
	}
}

type kindStatus struct {
	kind   error
	status int
}

// errInterrupted is a wait that ended before its outcome, because the server
// closes. Who left by himself does not read it.
func errInterrupted() error {
	return action.Errorf(action.ErrNotReady, "shutting_down",
		"This instance is shutting down, and what was asked goes on without it: list the session's invocations, or send the same request again.")
}

// problem turns an error into what may be shown of it. What may not goes to
// the log.
func (s *Server) problem(ctx context.Context, err error) *Problem {
	if errors.Is(err, action.ErrCallerGone) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted()
	}
	public := action.Public(err)
	p := &Problem{
		Type: "about:blank", Status: http.StatusInternalServerError,
		Code: public.Code, Detail: public.Message, Field: public.Field,
		Invocation: public.Invocation, retryAfter: public.RetryAfter,
	}
	for _, row := range statuses() {
		if public.Kind != nil && errors.Is(public.Kind, row.kind) {
			p.Status = row.status
			break
		}
	}
	p.Title = http.StatusText(p.Status)
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil && public.Err != nil {
		s.log.ErrorContext(ctx, "request failed", "error", err)
	}
	return p
}

// Error, GetStatus, GetHeaders and ContentType are what huma asks of an error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns that of a problem document.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns the headers that belong to the status.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="sallyport", error="invalid_token"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(p.retryAfter.Seconds())))))
	}
	return h
}

// write answers p outside of huma.
func (p *Problem) write(w http.ResponseWriter) {
	for k, v := range p.GetHeaders() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that left cannot be told
}

// fail answers err outside of huma.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.problem(r.Context(), err).write(w)
}

// rejected gives huma's own errors, of parsing and validation, the form of all
// others. The values that huma echoes are left out: one may be a secret.
func (s *Server) rejected(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := &Problem{Type: "about:blank", Status: badInput(m.Status), Code: "invalid_request", Detail: m.Detail}
	switch p.Status {
	case http.StatusRequestEntityTooLarge:
		p.Code, p.Detail = "body_too_large", fmt.Sprintf("The body is over %d bytes; send less.", maxBody)
	case http.StatusUnsupportedMediaType:
		p.Code, p.Detail = "unsupported_media_type", "Send the body as application/json."
	case http.StatusInternalServerError:
		p.Code, p.Detail = "internal", "Something went wrong inside the gateway; its log has the details."
	default:
		p.blame(m.Errors)
	}
	p.Title = http.StatusText(p.Status)
	return p, nil
}

// blame names the first offending field.
func (p *Problem) blame(details []*huma.ErrorDetail) {
	if len(details) == 0 {
		return
	}
	d := details[0]
	where, rest, _ := strings.Cut(d.Location, ".")
	p.Field = "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(rest)
	switch {
	case d.Message == "unexpected property":
		p.Code, p.Detail = "unknown_field", fmt.Sprintf("The body has no field %q here; see /api/v1/openapi.json for those it has.", rest)
	case strings.HasPrefix(d.Message, "expected required property"):
		p.Field = strings.TrimSuffix(p.Field, "/") + "/" + requiredName(d.Message)
		p.Code, p.Detail = "missing_field", fmt.Sprintf("The body lacks the field %s.", requiredName(d.Message))
	case where == "body" && rest == "":
		p.Field, p.Code, p.Detail = "", "malformed_json", "The body must be one JSON object"+aside(d.Message)+"."
	default:
		p.Detail = must(or(rest, where), d.Message)
	}
}

func requiredName(message string) string {
	name := strings.TrimPrefix(message, "expected required property ")
	name, _, _ = strings.Cut(name, " ")
	return name
}

// badInput is the status for huma's: it says 422 where this API says 400.
func badInput(status int) int {
	if status == http.StatusUnprocessableEntity {
		return http.StatusBadRequest
	}
	return status
}
