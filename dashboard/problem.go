package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
	"sallyport/api"
)

// Problem is an [api.Problem] with the values of its response headers.
type Problem struct {
	api.Problem
	retryAfter time.Duration
}

// statuses maps kinds of error to HTTP status codes.
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

// errShuttingDown is the error of a wait that the shutdown of the server cut
// short. A client that disconnected gets it too, and does not read it.
func errShuttingDown() error {
	return action.Errorf(action.ErrNotReady, "shutting_down",
		"This instance is shutting down, and what was asked goes on without it: list the session's invocations, or send the same request again.")
}

// Problem returns the public part of an error and logs the rest.
func (s *Server) Problem(ctx context.Context, err error) *Problem {
	if errors.Is(err, action.ErrCallerGone) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errShuttingDown()
	}
	public := action.Public(err)
	p := &Problem{Problem: api.Problem{
		Type: "about:blank", Status: http.StatusInternalServerError,
		Code: public.Code, Detail: public.Message, Field: public.Field, Invocation: public.Invocation,
	}, retryAfter: public.RetryAfter}
	for _, row := range statuses() {
		if public.Kind != nil && errors.Is(public.Kind, row.kind) {
			p.Status = row.status
			break
		}
	}
	p.Title = http.StatusText(p.Status)
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil && public.Err != nil {
		s.Log.ErrorContext(ctx, "request failed", "error", err)
	}
	return p
}

// write sends p as the response.
func (p *Problem) write(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="sallyport", error="invalid_token"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(p.retryAfter.Seconds())))))
	}
	w.WriteHeader(p.Status)
	return EncodeJSON(w, p)
}

// Fail sends err as the response.
func (s *Server) Fail(w http.ResponseWriter, r *http.Request, err error) {
	_ = s.Problem(r.Context(), err).write(w) // the client is gone if this fails
}

// badRequest is the problem of a request that cannot be read.
func badRequest(status int, code, detail string) *Problem {
	return &Problem{Problem: api.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}}
}

// badField is the problem of a parameter or a field of the body.
func badField(field, detail string) *Problem {
	p := badRequest(http.StatusBadRequest, "invalid_request", detail)
	p.Field = field
	return p
}

// invalidValue is the problem of a value that does not fit its schema. The
// value in the validator's finding is left out, since it may be a secret.
func invalidValue(finding error) *Problem {
	var d *huma.ErrorDetail
	if !errors.As(finding, &d) {
		return badRequest(http.StatusBadRequest, "invalid_request", "validation failed")
	}
	where, rest, _ := strings.Cut(d.Location, ".")
	p := badField("/"+strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(rest), "")
	switch {
	case d.Message == "unexpected property":
		p.Code, p.Detail = "unknown_field", fmt.Sprintf("The body has no field %q here; see /api/v1/openapi.json for those it has.", rest)
	case strings.HasPrefix(d.Message, "expected required property"):
		p.Field = strings.TrimSuffix(p.Field, "/") + "/" + requiredName(d.Message)
		p.Code, p.Detail = "missing_field", fmt.Sprintf("The body lacks the field %s.", requiredName(d.Message))
	case where == "body" && rest == "":
		return malformedBody(d.Message)
	default:
		p.Detail = describeFinding(cmp.Or(rest, where), d.Message)
	}
	return p
}

// malformedBody is the problem of a body that is not a JSON object.
func malformedBody(why string) *Problem {
	return badRequest(http.StatusBadRequest, "malformed_json", "The body must be one JSON object"+findingSuffix(why)+".")
}

func requiredName(message string) string {
	name := strings.TrimPrefix(message, "expected required property ")
	name, _, _ = strings.Cut(name, " ")
	return name
}

// describeFinding rewrites the validator's finding as a sentence that says what
// the field must be.
func describeFinding(field, finding string) string {
	switch what := strings.TrimPrefix(finding, "expected "); what {
	case "length >= 1":
		return field + " must not be empty."
	case "integer", "object", "array":
		return field + " must be an " + what + "."
	case "string", "number", "boolean":
		return field + " must be a " + what + "."
	}
	if values, ok := strings.CutPrefix(finding, `expected value to be one of "`); ok {
		return field + " must be one of " + strings.TrimSuffix(values, `"`) + "."
	}
	for _, rule := range []struct{ finding, must, unit string }{
		{"expected length >= ", "have at least ", " characters"},
		{"expected length <= ", "have at most ", " characters"},
		{"expected number >= ", "be at least ", ""},
		{"expected number <= ", "be at most ", ""},
		{"expected number > ", "be more than ", ""},
		{"expected number < ", "be less than ", ""},
		{"expected array length >= ", "have at least ", " items"},
		{"expected array length <= ", "have at most ", " items"},
		{"expected string to ", "", ""},
		{"expected value to ", "", ""},
		{"expected number to ", "", ""},
	} {
		if limit, ok := strings.CutPrefix(finding, rule.finding); ok {
			return field + " must " + rule.must + limit + rule.unit + "."
		}
	}
	return field + " is not valid: " + finding + "."
}

// findingSuffix returns the reason why a body is not an object, if it adds anything.
func findingSuffix(finding string) string {
	if finding == "" || strings.HasPrefix(finding, "expected object") {
		return ""
	}
	return fmt.Sprintf("; %s", strings.TrimSuffix(finding, "."))
}

// Invalid returns the error of a field that the handler refuses.
func Invalid(field, message string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid_field", Field: field, Message: message}
}
