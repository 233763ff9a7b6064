package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
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

// Problem returns the public part of an error and logs the rest.
func (s *Server) Problem(ctx context.Context, err error) *Problem {
	if errors.Is(err, action.ErrCallerGone) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		// A client that disconnected gets this error too, and does not read it.
		err = action.Errorf(action.ErrNotReady, "shutting_down",
			"This instance is shutting down, but the call continues. List the session's invocations, or send the same request again.")
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
		p.Code, p.Detail = "unknown_field", fmt.Sprintf("The body has an unknown field %q. See /api/v1/openapi.json for its fields.", rest)
	case strings.HasPrefix(d.Message, "expected required property"):
		p.Field = strings.TrimSuffix(p.Field, "/") + "/" + requiredName(d.Message)
		p.Code, p.Detail = "missing_field", fmt.Sprintf("The field %s is missing from the body.", requiredName(d.Message))
	case where == "body" && rest == "":
		return malformedBody(d.Message)
	default:
		p.Detail = describeFinding(cmp.Or(rest, where), d.Message)
	}
	return p
}

// malformedBody is the problem of a body that is not a JSON object.
func malformedBody(why string) *Problem {
	if why != "" && !strings.HasPrefix(why, "expected object") { // otherwise it adds nothing
		return badRequest(http.StatusBadRequest, "malformed_json", "The body must be one JSON object; "+strings.TrimSuffix(why, ".")+".")
	}
	return badRequest(http.StatusBadRequest, "malformed_json", "The body must be one JSON object.")
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

// Invalid returns the error of a field that the handler refuses.
func Invalid(field, message string) error {
	return &action.Error{Kind: action.ErrInvalid, Code: "invalid_field", Field: field, Message: message}
}

// nextRoutes returns the routes that errors refer to, and a verb for each that
// does not list things.
func nextRoutes() (routes map[action.Operation]api.Operation, does map[action.Operation]string) {
	routes = map[action.Operation]api.Operation{
		"list invocations":         api.ListInvocations.Operation,
		"list grants":              api.ListGrants.Operation,
		"list grant requests":      api.ListGrantRequests.Operation,
		"decide grant request":     api.ApproveGrantRequest.Operation,
		"list modes":               api.ListModes.Operation,
		"list quotas":              api.ListQuotas.Operation,
		"list capabilities":        api.ListCapabilities.Operation,
		"list gates":               api.ListGates.Operation,
		"list sessions":            api.ListSessions.Operation,
		"list users":               api.ListUsers.Operation,
		"create sign-in link":      api.CreateLoginLink.Operation,
		"list API keys":            api.ListKeys.Operation,
		"list models":              api.GetModels.Operation,
		"list secrets":             api.ListSecrets.Operation,
		"list connectors":          api.ListConnectors.Operation,
		"list integrations":        api.ListIntegrations.Operation,
		"list provider apps":       api.ListApps.Operation,
		"set provider app":         api.PutApp.Operation,
		"list automations":         api.ListAutomations.Operation,
		"list triggers":            api.ListTriggers.Operation,
		"list schedules":           api.ListSchedules.Operation,
		"list events":              api.ListInboundEvents.Operation,
		"show event":               api.GetInboundEvent.Operation,
		"list deliveries":          api.ListDeliveries.Operation,
		"list runs":                api.ListRuns.Operation,
		"list outbox":              api.ListOutbox.Operation,
		"set run endpoint":         api.PutRunEndpoint.Operation,
		"list env requests":        api.ListEnvRequests.Operation,
		"list workspaces":          api.ListWorkspaces.Operation,
		"list repositories":        api.ListRepositories.Operation,
		"list variables":           api.ListVariables.Operation,
		"set notification channel": api.PutNotify.Operation,

		"list routes": {Method: "GET", Path: "/api/v1/openapi.json"},
	}
	does = map[action.Operation]string{
		"list routes": "lists the routes", "show event": "has what is left", "set notification channel": "sets them up",
		"set run endpoint": "sets one", "set provider app": "registers it", "create sign-in link": "creates one",
		"decide grant request": "approves it",
	}
	return routes, does
}

// withNext adds the route that helps to resolve an error. Agents get only their own
// routes.
func withNext(p *Principal, err error) error {
	e := action.Public(err)
	see := action.Declared(e.Code).See
	routes, does := nextRoutes()
	next, out := routes[see], *e
	if p.Session != nil {
		switch see {
		case "list actions":
			next = api.ListAvailableActions.Operation
		case "list invocations":
			next = api.ListSessionInvocations.Operation
		default:
			return err
		}
		if e.Code == "no_such_source" { // agents do not learn which other sources exist
			out.Message = "There is no source of that name."
		}
		next.Path = strings.Replace(next.Path, "{session}", p.Session.ID, 1)
	}
	if next.Path == "" {
		return err
	}
	if len(e.Values) > 0 { // the first value identifies the resource
		next.Path = regexp.MustCompile(`\{\w+\}`).ReplaceAllLiteralString(next.Path, url.PathEscape(fmt.Sprint(e.Values[0])))
	}
	out.Message += " " + next.Method + " " + next.Path + " " + cmp.Or(does[see], "lists them") + "."
	return &out
}
