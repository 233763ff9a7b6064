package linear

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
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
	body, err := json.Marshal(map[string]any{
		"operationName": op.name, "query": documentOf(op.name), "variables": op.variables,
	})
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(ctx, &outbound.Request{
		Method: http.MethodPost, Path: "/graphql", Header: header(c), Body: body,
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

// header returns the headers. OAuth tokens are sent as Bearer, API keys without
// a scheme.
func header(c *sources.Conn) http.Header {
	credential := c.Token
	if c.Kind == action.KindOAuth2 {
		credential = "Bearer " + credential
	}
	return http.Header{
		"Authorization": {credential}, "Content-Type": {"application/json"}, "Accept": {"application/json"},
	}
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
		if p.Extensions.Code == codeLimited || p.Extensions.Type == "ratelimited" {
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
