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

// operation is one request: a document, and what varies in it.
type operation struct {
	name       string // of the document
	variables  any
	repeatable bool // sent twice it does no more than once
}

// ask sends an operation and returns the data of the answer, together with an
// error where Linear names one: parts may have been done.
func ask(ctx context.Context, c *sources.Conn, op operation) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{
		"operationName": op.name, "query": document(op.name), "variables": op.variables,
	})
	if err != nil {
		return nil, err
	}
	resp, err := c.HTTP.Do(ctx, &outbound.Request{
		Method: http.MethodPost, Path: "/graphql", Header: header(c), Body: body,
		Repeatable: op.repeatable, Limited: limited,
	})
	if err != nil {
		return nil, err
	}
	a, readable := read(resp)
	if !readable || len(a.Errors) > 0 || resp.Status >= http.StatusBadRequest {
		return a.Data, a.refusal(resp.Status)
	}
	return a.Data, nil
}

// header has the credential in the form of its kind: a key stands alone.
func header(c *sources.Conn) http.Header {
	credential := c.Token
	if c.Kind == action.KindOAuth2 {
		credential = "Bearer " + credential
	}
	return http.Header{
		"Authorization": {credential}, "Content-Type": {"application/json"}, "Accept": {"application/json"},
	}
}

// answer is the body of an answer, whatever its status.
type answer struct {
	Data   json.RawMessage `json:"data"`
	Errors []problem       `json:"errors"`
}

// read takes an answer apart. One that is no GraphQL at all is not readable.
func read(resp *outbound.Response) (a answer, readable bool) {
	if err := json.Unmarshal(resp.Body, &a); err != nil {
		return answer{}, false
	}
	return a, len(a.Errors) > 0 || len(a.Data) > 0 && string(a.Data) != "null"
}

// limited recognizes a limit under any status: Linear answers 400 as a rule.
func limited(resp *outbound.Response) (time.Duration, bool) {
	a, _ := read(resp)
	for _, p := range a.Errors {
		if p.Extensions.Code == codeLimited || p.Extensions.Type == "ratelimited" {
			return wait(p, resp.Header), true
		}
	}
	return wait(problem{}, resp.Header), resp.Status == http.StatusTooManyRequests
}

// wait is as long as the body says, else until the first limit that is used up
// begins anew. Linear counts all of it in milliseconds, but for Retry-After.
func wait(p problem, h http.Header) time.Duration {
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

// maxWait keeps a nonsensical wait from overflowing, in milliseconds.
const maxWait = 24 * 60 * 60 * 1000
