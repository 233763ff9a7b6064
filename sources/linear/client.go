package linear

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// operation is one request: a document and its variables.
type operation struct {
	name       string // name of the document
	variables  any
	repeatable bool // safe to retry
}

// do sends an operation. It returns data together with an error if the response
// has both, because the operation may have succeeded in part.
func do(ctx context.Context, c *sources.Conn, op operation) (json.RawMessage, error) {
	credential := c.Token // an API key, sent without a scheme
	if c.Kind == action.KindOAuth2 {
		credential = "Bearer " + credential
	}
	query := readDocument(op.name)
	if strings.Contains(query, "...IssueFields") {
		query += readDocument("issue")
	}
	body, err := json.Marshal(map[string]any{
		"operationName": op.name, "query": query, "variables": op.variables,
	})
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(ctx, &outbound.Request{
		Method: http.MethodPost, Path: "/graphql", Body: body,
		Header:     http.Header{"Authorization": {credential}, "Content-Type": {"application/json"}, "Accept": {"application/json"}},
		Repeatable: op.repeatable, Limited: rateLimited,
	})
	if err != nil {
		return nil, err
	}
	a, readable := parseResponse(resp)
	if !readable || len(a.Errors) > 0 || resp.Status >= http.StatusBadRequest {
		return a.Data, a.err(resp.Status)
	}
	return a.Data, nil
}

// response is the body of a GraphQL response.
type response struct {
	Data   json.RawMessage `json:"data"`
	Errors []graphQLError  `json:"errors"`
}

// parseResponse decodes a response; readable is false if it is not GraphQL.
func parseResponse(resp *outbound.Response) (a response, readable bool) {
	if err := json.Unmarshal(resp.Body, &a); err != nil {
		return response{}, false
	}
	return a, len(a.Errors) > 0 || len(a.Data) > 0 && string(a.Data) != "null"
}

// rateLimited recognizes a rate limit under any status, because Linear usually
// sends 400.
func rateLimited(resp *outbound.Response) (time.Duration, bool) {
	a, _ := parseResponse(resp)
	for _, p := range a.Errors {
		if p.Extensions.Code == "RATELIMITED" || p.Extensions.Type == "ratelimited" {
			return retryDelay(p, resp.Header), true
		}
	}
	return retryDelay(graphQLError{}, resp.Header), resp.Status == http.StatusTooManyRequests
}

// retryDelay returns the delay in the body or in Retry-After, or else the time
// until the exhausted limit resets. Linear uses milliseconds, except in
// Retry-After.
func retryDelay(p graphQLError, h http.Header) time.Duration {
	if ms := p.Extensions.Meta.Result.Duration; ms > 0 {
		return time.Duration(min(ms, maxWait) * float64(time.Millisecond))
	}
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err == nil && seconds > 0 {
		return time.Duration(min(float64(seconds)*1000, maxWait)) * time.Millisecond
	}
	for _, limit := range []string{"Endpoint-Requests", "Requests", "Complexity"} {
		name := "X-RateLimit-" + limit
		ms, err := strconv.ParseInt(h.Get(name+"-Reset"), 10, 64)
		if err == nil && h.Get(name+"-Remaining") == "0" {
			return max(0, time.Until(time.UnixMilli(ms)))
		}
	}
	return 0
}

// maxWait bounds delays, in milliseconds, to prevent overflow.
const maxWait = 24 * 60 * 60 * 1000

// documents are all the queries that are sent to Linear. Agent input is only
// ever passed as variables, never as part of a query.
//
//go:embed documents/*.graphql
var documents embed.FS

func readDocument(name string) string {
	text, err := documents.ReadFile("documents/" + name + ".graphql")
	if err != nil {
		panic(err) // the name is a constant of this package
	}
	return string(text)
}

// graphQLError is an error in a response.
type graphQLError struct {
	Message    string `json:"message"`
	Extensions struct {
		Code    string `json:"code"`
		Type    string `json:"type"`
		Message string `json:"userPresentableMessage"`
		Meta    struct {
			Result struct {
				Duration float64 `json:"duration"` // milliseconds
			} `json:"rateLimitResult"`
		} `json:"meta"`
		Validation []invalid `json:"validationErrors"`
		Exception  struct {
			Validation []invalid `json:"validationErrors"`
		} `json:"exception"`
	} `json:"extensions"`
}

// invalid is an input field that Linear rejects.
type invalid struct {
	Property string `json:"property"`
}

// err converts an unsuccessful response to an error. After an internal error of
// Linear, the outcome is unknown.
func (a response) err(status int) error {
	if len(a.Errors) == 0 {
		return statusError(status)
	}
	p := a.Errors[0]
	if p.isUncertain(status) {
		return outcomeUnknown(status, p.detail())
	}
	r := &sources.Refusal{Code: cmp.Or(p.Extensions.Code, p.Extensions.Type), Status: status, Detail: p.detail()}
	missing, params := p.notFoundKind(), p.invalidParams()
	switch kind := strings.ToLower(p.Extensions.Type); {
	case kind == "authentication error" || r.Code == "AUTHENTICATION_ERROR" || status == http.StatusUnauthorized:
		r.Credential, r.Message = true, badCredential
	case kind == "forbidden" || r.Code == "FORBIDDEN" || status == http.StatusForbidden:
		r.Message = noAccess
	case kind == "feature not accessible" || r.Code == "FEATURE_NOT_ACCESSIBLE":
		r.Message = "The workspace's plan has no such feature; do it without, or ask an admin of the workspace."
	case kind == "usage limit exceeded" || r.Code == "USAGE_LIMIT_EXCEEDED":
		r.Message = "The workspace has used up its plan, such as its number of issues; an admin of the workspace must free or extend it."
	case missing != "":
		r.Message = notFound(missing)
	case len(params) > 0:
		r.Message = fmt.Sprintf("%s has a value that Linear rejected. Correct it and call again. Ids are UUIDs, as the other actions return them.", strings.Join(params, " and "))
	default:
		r.Message = "Linear rejected this request. Check the params against what get_issue and list_issues return."
	}
	return r
}

const (
	badCredential = "Linear no longer accepts the credential of this integration. A person must connect it again."
	noAccess      = "The credential may not do this: it lacks the scope (read, write) or access to the team; use another team's issue, or ask an admin to connect Linear with more rights."
)

// statusError converts a response without GraphQL errors, which comes from a
// proxy or from a server that is not Linear.
func statusError(status int) error {
	r := &sources.Refusal{Status: status}
	switch {
	case status == http.StatusUnauthorized:
		r.Credential, r.Message = true, badCredential
	case status == http.StatusForbidden:
		r.Message = noAccess
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError && status != http.StatusRequestTimeout:
		r.Message = "The base URL is not that of Linear's API. An admin must check the base URL of the integration."
	default:
		return outcomeUnknown(status, "")
	}
	return r
}

func outcomeUnknown(status int, detail string) error {
	return action.Errorf(action.ErrOutcomeUnknown, "upstream_failed",
		"Linear failed (status %d), so the outcome is unknown. Check before calling again.", status).WithCause(fmt.Errorf("linear: %.300s", detail))
}

// isUncertain reports whether the error is internal to Linear.
func (p graphQLError) isUncertain(status int) bool {
	switch strings.ToLower(p.Extensions.Type) {
	case "internal error", "network error", "lock timeout", "bootstrap error":
		return true
	}
	return p.Extensions.Code == "INTERNAL_SERVER_ERROR" || status >= http.StatusInternalServerError
}

func (p graphQLError) detail() string {
	return strings.TrimSpace(p.Message + " " + p.Extensions.Message)
}

// notFoundKind returns the kind of the missing entity, or "" for other errors.
func (p graphQLError) notFoundKind() string {
	kind, found := strings.CutPrefix(p.Message, "Entity not found: ")
	if !found {
		return ""
	}
	word := strings.IndexFunc(kind, func(r rune) bool { return r < 'A' || r > 'z' })
	if word < 0 {
		word = len(kind)
	}
	return cmp.Or(kind[:word], "entity")
}

// invalidParams returns the params that correspond to the rejected input
// fields.
func (p graphQLError) invalidParams() (names []string) {
	for _, v := range append(p.Extensions.Validation, p.Extensions.Exception.Validation...) {
		switch v.Property {
		case "teamId", "projectId", "stateId", "assigneeId", "labelIds", "addedLabelIds", "removedLabelIds",
			"issueId", "priority", "title", "description", "body":
			names = append(names, v.Property)
		case "id":
			names = append(names, "issueId")
		}
	}
	return names
}

// notFound explains a missing entity. Linear does not distinguish missing from
// inaccessible.
func notFound(kind string) string {
	switch kind {
	case "Issue":
		return "There is no such issue, or this credential may not see it; correct issueId, or find the issue with list_issues."
	case "Team":
		return "There is no such team, or this credential may not see it; correct teamId: list_issues shows each issue's team with its id and key."
	case "WorkflowState":
		return "There is no such state; correct stateId: get_issue lists the states of the issue's team, with their ids."
	case "User":
		return "There is no such user; correct assigneeId: list_issues shows assignees with their ids."
	case "IssueLabel":
		return "There is no such label for this team; correct the label ids: list_issues shows labels with their ids."
	case "Project":
		return "There is no such project, or this credential may not see it; correct projectId: list_issues shows each issue's project with its id."
	}
	return "One of the ids names nothing that this credential may see; correct it: get_issue and list_issues show ids."
}
